"""A worker process: `python -m vagen_adapters.service.worker FD CPU MEMORY`. Started by `local_pool.LocalHost` only."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import struct
import sys
from typing import Any

from vagen_adapters.service.awake import Awake
from vagen_adapters.service.host import EnvHost
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pipe import Unpacker, packed, packed_done, read_calls

ORPHANED = 5
"""Seconds between looks whether the program that started this one is gone. Its children may hold the other end open."""


class Ears:
    """What comes to a worker, waited for awake where that is nobody's loss."""

    def __init__(self, asked: Unpacker) -> None:
        self._asked = asked
        self._awake = Awake()

    def receive(self) -> list[Any] | None:
        """As `Unpacker.receive`."""
        looks = self._awake.begin()
        try:
            while looks:
                with contextlib.suppress(BlockingIOError):
                    return self._asked.receive(socket.MSG_DONTWAIT)
                looks = self._awake.look()
            return self._asked.receive()
        finally:
            self._awake.end(awake=looks)


def main(connection: socket.socket, limits: Limits) -> None:
    """Say that it is ready, and serve until the other end is gone. Ctrl-C is for who started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    host = EnvHost(limits)
    ears = Ears(Unpacker(connection))
    gc.freeze()  # what is loaded stays, and needn't be looked through
    connection.sendall(packed(None))
    # Python's own timeout takes two calls of the system more for each message.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", ORPHANED, 0))
    while True:
        try:
            messages = ears.receive()
        except BlockingIOError:
            if os.getppid() != parent:
                return
            continue
        if messages is None:
            return
        for calls in messages:
            connection.sendall(packed_done(host.timed(read_calls(calls))))


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # the other end is gone, and with it the need for this process
        main(socket.socket(fileno=int(sys.argv[1])), Limits(cpu=float(sys.argv[2]), memory=int(sys.argv[3])))
