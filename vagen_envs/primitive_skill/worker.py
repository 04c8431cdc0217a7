"""A worker process: `python -m vagen_envs.primitive_skill.worker FD PICTURE_SIZE DEVICE`. Started by `workers.py` only.

It reads `(session, method, arguments)` from the socket FD and answers `(True, result)` or `(False, why)`,
and ends when the socket is closed or the process that started it is gone.
"""

from __future__ import annotations

import contextlib
import sys
from multiprocessing.connection import Connection
from typing import Any

from vagen_envs.primitive_skill.levels import draw_level
from vagen_envs.primitive_skill.session import LocalSession
from vagen_envs.seeding import HashStream
from vagen_envs.workers import answer_calls


def main(connection: Connection, picture_size: int, device: str) -> None:
    """Serve until the other end is gone."""
    sessions: dict[int, LocalSession] = {}

    def answer(session: int, method: str, arguments: tuple[Any, ...]) -> Any:
        if session not in sessions:
            sessions[session] = LocalSession(picture_size, device)
        try:
            return getattr(sessions[session], method)(*arguments)
        finally:
            if method == "close":
                del sessions[session]

    answer_calls(connection, answer, lambda: _warm_up(picture_size, device))


def _warm_up(picture_size: int, device: str) -> None:
    """The first scene and the first picture of a process take seconds; have them behind us."""
    session = LocalSession(picture_size, device)
    session.load(draw_level("place", HashStream("warm-up"), "train"))
    if picture_size:
        session.picture()
    session.close()


if __name__ == "__main__":
    with contextlib.suppress(EOFError, OSError):  # the other end is gone, and with it the need for this process
        main(Connection(int(sys.argv[1])), int(sys.argv[2]), sys.argv[3])
