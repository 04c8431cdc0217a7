"""Warm worker processes that play sessions, several each, and are replaced when they die.

Starting a simulator and taking its first picture costs seconds and hundreds of megabytes; a pool pays
that once a worker. A session whose worker dies during one of its calls has lost its episode and says
why. Other sessions of that worker are played again on another one, which is exact.

A worker is `python -m vagen_envs.primitive_skill.workers FD PICTURE_SIZE DEVICE`. It reads `(session, method,
arguments)` from the socket FD and answers `(True, result)` or `(False, why)`, until the socket is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from vagen_envs.errors import SimulatorError
from vagen_envs.pictures import Pixels
from vagen_envs.primitive_skill import ENV_ID
from vagen_envs.primitive_skill.levels import Facts, ManipulationLevel, draw_level
from vagen_envs.primitive_skill.session import LocalSession
from vagen_envs.primitive_skill.skills import SkillCall
from vagen_envs.seeding import HashStream
from vagen_envs.workers import Worker, WorkerDied, answer_calls


class WorkerPool:
    """`size` workers. They start, and warm up, at once and beside each other."""

    def __init__(self, size: int, picture_size: int, device: str) -> None:
        self._arguments = str(picture_size), device
        self._lock = threading.Lock()
        self.workers = [self._start() for _ in range(size)]

    def take(self) -> Worker:
        """The worker with the fewest sessions, after the dead ones have been replaced."""
        with self._lock:
            for i, worker in enumerate(self.workers):
                if worker.dead or worker.process.poll() is not None:
                    self.workers[i] = self._start()
            worker = min(self.workers, key=lambda candidate: candidate.sessions)
            worker.sessions += 1
            return worker

    def _start(self) -> Worker:
        return Worker(ENV_ID, __name__, *self._arguments)

    def give_back(self, worker: Worker) -> None:
        with self._lock:
            worker.sessions -= 1

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.close()


class PooledSession:
    """A `LocalSession` in a worker of a pool."""

    _numbers = itertools.count()

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._worker: Worker | None = None
        self._number = next(self._numbers)

    def run(self, level: ManipulationLevel, calls: Sequence[SkillCall]) -> tuple[str, Facts]:
        result: tuple[str, Facts] = self._ask("run", level, list(calls))
        return result

    def imagine(self, level: ManipulationLevel, calls: Sequence[SkillCall]) -> tuple[str, Facts]:
        result: tuple[str, Facts] = self._ask("imagine", level, list(calls))
        return result

    def picture(self, level: ManipulationLevel, calls: Sequence[SkillCall]) -> Pixels:
        pixels: Pixels = self._ask("picture", level, list(calls))
        return pixels

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self._pool.give_back(worker)
            with contextlib.suppress(WorkerDied, SimulatorError):  # gone already
                worker.call(self._number, "close", ())

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Ask the worker, or another one if it is found dead: the arguments say all that it has to play again."""
        for last in (False, True):
            self._worker = self._worker or self._pool.take()
            try:
                return self._worker.call(self._number, method, arguments)
            except WorkerDied as death:
                self._pool.give_back(self._worker)
                self._worker = None
                if death.during or last:
                    raise SimulatorError(ENV_ID, f"{death}; another takes its place") from death
        raise AssertionError("unreachable")


_pools: dict[tuple[int, int, int, str], WorkerPool] = {}
_pools_lock = threading.Lock()


def shared_pool(size: int, picture_size: int, device: str) -> WorkerPool:
    """This process's pool of that many workers. Environments with the same options share it."""
    key = (os.getpid(), size, picture_size, device)
    with _pools_lock:
        if key not in _pools:
            _pools[key] = WorkerPool(size, picture_size, device)
        return _pools[key]


@atexit.register
def close_pools() -> None:
    """End the workers of this process. A later environment starts new ones."""
    with _pools_lock:
        for key in [key for key in _pools if key[0] == os.getpid()]:
            _pools.pop(key).close()


# -- in a worker -----------------------------------------------------------------------------------


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

    def warm_up() -> None:
        """Take a first picture, which costs a process seconds."""
        session = LocalSession(picture_size, device)
        level = draw_level("place", HashStream("warm-up"), "train")
        session.run(level, [])
        if picture_size:
            session.picture(level, [])
        session.close()

    answer_calls(connection, answer, warm_up)


if __name__ == "__main__":
    with contextlib.suppress(EOFError, OSError):  # the other end is gone, and with it the need for this process
        main(Connection(int(sys.argv[1])), int(sys.argv[2]), sys.argv[3])
