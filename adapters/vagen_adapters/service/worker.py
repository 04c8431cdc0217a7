"""A worker process: `python -m vagen_adapters.service.worker FD CPU MEMORY`. Started by `local_pool.LocalHost` only."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys

from vagen_adapters.service.host import EnvHost
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pipe import Unpacker, packed, packed_done, read_calls

ORPHANED = 5
"""Seconds between looks whether the program that started this one is gone. Its children may hold the other end open."""


def main(connection: socket.socket, limits: Limits) -> None:
    """Say that it is ready, and serve until the other end is gone. Ctrl-C is for who started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    host = EnvHost(limits)
    asked = Unpacker(connection)
    connection.sendall(packed(None))
    # Python's own timeout takes two calls of the system more for each message.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", ORPHANED, 0))
    while True:
        try:
            messages = asked.receive()
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
