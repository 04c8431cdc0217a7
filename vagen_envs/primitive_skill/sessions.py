"""An episode's simulators, in this process or in warm worker processes.

PhysX can't be put back to an earlier moment exactly, but the same skills on the same level give the
same, bit for bit. So every call names the level and the skills since its start, and whoever has
played less plays what is missing.

A pool of workers pays the start of a simulator, seconds and hundreds of megabytes, once a worker. A
session whose worker dies during one of its calls has lost its episode and says why; other sessions
of that worker are played again on another one. A worker is `python -m
vagen_envs.primitive_skill.sessions FD PICTURE_SIZE DEVICE`, and answers `(session, method, level,
skills)`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import sys
import threading
from collections import defaultdict
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from vagen_envs.errors import SimulatorError
from vagen_envs.primitive_skill import ENV_ID
from vagen_envs.primitive_skill.levels import draw_level
from vagen_envs.seeding import HashStream
from vagen_envs.workers import Worker, WorkerDied, answer_calls

if TYPE_CHECKING:
    from vagen_envs.primitive_skill.simulator import ManipulationSimulator

_owner: int | None = None
"""The process that first started a simulator here. Its driver's threads don't survive a fork."""


_pools: dict[tuple[int, int, int, str], list[Worker]] = defaultdict(list)
"""By process, size and what the workers are started with: environments with the same options share
one.
"""
_pools_lock = threading.Lock()


class PooledSession:
    """A `ManipulationSimulator` in one of `size` workers. They start, and warm up, at once and
    beside each other.
    """

    _numbers = itertools.count()

    def __init__(self, size: int, picture_size: int, device: str) -> None:
        self._key = (os.getpid(), size, picture_size, device)
        self._worker: Worker | None = None
        self._number = next(self._numbers)

    def _take(self) -> Worker:
        """The worker with the fewest sessions, after the dead ones have been replaced."""
        _, size, picture_size, device = self._key
        with _pools_lock:
            pool = _pools[self._key]
            pool[:] = [
                worker for worker in pool if not worker.dead and worker.process.poll() is None
            ]
            while len(pool) < size:
                pool.append(Worker(ENV_ID, __name__, str(picture_size), device))
            worker = min(pool, key=lambda candidate: candidate.sessions)
            worker.sessions += 1
            return worker

    def _give_back(self) -> Worker | None:
        worker = self._worker
        self._worker = None
        if worker is not None:
            with _pools_lock:
                worker.sessions -= 1
        return worker

    def close(self) -> None:
        worker = self._give_back()
        if worker is not None:
            with contextlib.suppress(WorkerDied, SimulatorError):  # gone already
                worker.call(self._number, "close")

    def _ask(self, method: str, *played: Any) -> Any:
        """Ask the worker, or another one if it is found dead."""
        for last in (False, True):
            self._worker = self._worker or self._take()
            try:
                return self._worker.call(self._number, method, *played)
            except WorkerDied as death:
                self._give_back()
                if death.during or last:
                    raise SimulatorError(ENV_ID, f"{death}; another takes its place") from death
        raise AssertionError("unreachable")

    run = functools.partialmethod(_ask, "run")
    picture = functools.partialmethod(_ask, "picture")


def make_session(
    workers: int, picture_size: int, device: str
) -> ManipulationSimulator | PooledSession:
    """A session in a pool of so many workers, or in this process for 0, unless it is forked from
    one that simulated.
    """
    global _owner
    if not workers and _owner in (None, os.getpid()):
        # Brings torch and ManiSkill.
        from vagen_envs.primitive_skill.simulator import (
            ManipulationSimulator,
        )

        _owner = os.getpid()
        return ManipulationSimulator(picture_size, device)
    return PooledSession(max(1, workers), picture_size, device)


@atexit.register
def close_pools() -> None:
    """End the workers of this process. A later environment starts new ones."""
    with _pools_lock:
        for key in [key for key in _pools if key[0] == os.getpid()]:
            for worker in _pools.pop(key):
                worker.close()


# -- in a worker -----------------------------------------------------------------------------------


def main(connection: Connection, picture_size: int, device: str) -> None:
    """Serve until the other end is gone."""
    sessions: dict[int, Any] = defaultdict(lambda: make_session(0, picture_size, device))

    def answer(session: int, method: str, *played: Any) -> Any:
        try:
            return getattr(sessions[session], method)(*played)
        finally:
            if method == "close":
                sessions.pop(session, None)

    def warm_up() -> None:
        """Take a first picture, which costs a process seconds."""
        first = make_session(0, picture_size, device)
        level = draw_level("place", HashStream("warm-up"), "train")
        (first.picture if picture_size else first.run)(level, [])
        first.close()

    answer_calls(connection, answer, warm_up)


if __name__ == "__main__":
    # The other end is gone, and with it the need for this process.
    with contextlib.suppress(EOFError, OSError):
        main(Connection(int(sys.argv[1])), int(sys.argv[2]), sys.argv[3])
