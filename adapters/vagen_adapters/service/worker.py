"""A worker process: `python -m vagen_adapters.service.worker FD CPU MEMORY`. Started by `local_pool.LocalHost` only."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import struct
import sys
import time
from typing import Any

from vagen_adapters.service.host import EnvHost
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pipe import Unpacker, packed, packed_done, read_calls

ORPHANED = 5
"""Seconds between looks whether the program that started this one is gone. Its children may hold the other end open."""
SOON = 0.001
"""Seconds for which a worker looks whether there is more before it sleeps, if it was asked again that soon before."""
TAKEN, LOST = 0.00003, 0.001
"""Seconds that a look takes at most unless somebody else has the processor meanwhile, and unless they compute."""
FEWEST, MOST = 2, 4096
"""Messages for which it doesn't look again where somebody else wanted the processor: the most at once after `LOST`."""


class Ears:
    """What comes to a worker, waited for awake where that is nobody's loss.

    To be woken takes longer than to look, and finds caches cold and a virtual machine's processor given away: a session
    that is alone and is answered at once plays half as many turns again with a worker that stays awake between them.
    Where others want the processor, as with many sessions, it is theirs, and is for a while, each time longer.
    """

    def __init__(self, asked: Unpacker) -> None:
        self._asked = asked
        self._waited = float(ORPHANED)
        self._asleep, self._next_asleep = 0, FEWEST

    def receive(self) -> list[Any] | None:
        """As `Unpacker.receive`."""
        began = time.monotonic()
        try:
            if self._asleep:
                self._asleep -= 1
            elif self._waited < SOON:
                with contextlib.suppress(BlockingIOError):
                    return self._awake(began)
            return self._asked.receive()
        finally:
            self._waited = time.monotonic() - began

    def _awake(self, now: float) -> list[Any] | None:
        until = now + SOON
        while now < until:
            with contextlib.suppress(BlockingIOError):
                messages = self._asked.receive(socket.MSG_DONTWAIT)
                self._next_asleep = max(self._next_asleep // 2, FEWEST)
                return messages
            os.sched_yield()
            before, now = now, time.monotonic()
            if now - before > LOST:
                self._asleep = MOST
                break
            if now - before > TAKEN:
                self._asleep, self._next_asleep = self._next_asleep, min(2 * self._next_asleep, MOST)
                break
        raise BlockingIOError


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
