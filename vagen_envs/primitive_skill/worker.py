"""A worker process: `python -m vagen_envs.primitive_skill.worker FD PICTURE_SIZE`. Started by `workers.py` only.

It reads `(session, method, arguments)` from the socket FD and answers `(True, result)` or `(False, why)`,
and ends when the socket is closed or the process that started it is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from multiprocessing.connection import Connection

from vagen_envs.errors import SimulatorError
from vagen_envs.primitive_skill.levels import draw_level
from vagen_envs.primitive_skill.session import LocalSession
from vagen_envs.seeding import HashStream


def main(connection: Connection, picture_size: int) -> None:
    """Serve until the other end is gone. Ctrl-C is for the process that started this one, which then ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    sessions: dict[int, LocalSession] = {}
    try:
        _warm_up(picture_size)
    except Exception as error:
        connection.send((False, _why(error)))
        return
    connection.send((True, os.getpid()))
    while True:
        while not connection.poll(5.0):
            if os.getppid() != parent:
                return
        session, method, arguments = connection.recv()
        if session not in sessions:
            sessions[session] = LocalSession(picture_size)
        try:
            answer = (True, getattr(sessions[session], method)(*arguments))
        except Exception as error:
            answer = (False, _why(error))
        if method == "close":
            del sessions[session]
        connection.send(answer)


def _why(error: Exception) -> str:
    return error.cause if isinstance(error, SimulatorError) else f"{type(error).__name__}: {error}"


def _warm_up(picture_size: int) -> None:
    """The first scene and the first picture of a process take seconds; have them behind us."""
    session = LocalSession(picture_size)
    session.load(draw_level("place", HashStream("warm-up"), "train"))
    if picture_size:
        session.picture()
    session.close()


if __name__ == "__main__":
    with contextlib.suppress(EOFError, OSError):  # the other end is gone, and with it the need for this process
        main(Connection(int(sys.argv[1])), int(sys.argv[2]))
