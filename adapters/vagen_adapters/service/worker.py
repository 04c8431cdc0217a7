"""A worker process: `python -m vagen_adapters.service.worker FD CPU MEMORY`. Started by `local_pool.LocalHost` only."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys

from vagen_adapters.service.host import EnvHost
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pipe import READ, Unpacker, packed

ORPHANED = 5.0
"""Seconds between looks whether the program that started this one is gone. Its children may hold the other end open."""


def main(connection: socket.socket, limits: Limits) -> None:
    """Say that it is ready, and serve until the other end is gone. Ctrl-C is for who started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    host = EnvHost(limits)
    unpacker = Unpacker()
    connection.sendall(packed(None))
    connection.settimeout(ORPHANED)
    while True:
        try:
            data = connection.recv(READ)
        except TimeoutError:
            if os.getppid() != parent:
                return
            continue
        if not data:
            return
        for calls in unpacker.feed(data):
            answer = packed(host.timed(calls))
            connection.settimeout(None)
            connection.sendall(answer)
            connection.settimeout(ORPHANED)


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # the other end is gone, and with it the need for this process
        main(socket.socket(fileno=int(sys.argv[1])), Limits(cpu=float(sys.argv[2]), memory=int(sys.argv[3])))
