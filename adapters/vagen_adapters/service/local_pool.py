"""A pool whose workers are processes on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from vagen_adapters.service.host import Call, Result
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pool import Pool
from vagen_envs.errors import SimulatorError
from vagen_envs.workers import TIMEOUT, Worker, WorkerDied


class LocalHost:
    """A worker process on this machine."""

    def __init__(self, timeout: float = TIMEOUT, limits: Limits = Limits()) -> None:  # noqa: B008 - it is frozen
        bounds = (str(limits.cpu), str(limits.memory))
        self._worker = Worker("an environment", "vagen_adapters.service.worker", *bounds, timeout=timeout)
        self.pid = self._worker.process.pid
        self.pids: Sequence[int] = (self.pid,)
        self.where = f"process {self.pid}"

    def do(self, calls: Sequence[Call]) -> list[Result]:
        results: list[Result] = []
        try:
            while len(results) < len(calls):
                results += self._worker.call(list(calls[len(results) :]))
        except SimulatorError as error:  # the worker itself is at fault: a host turns everything else into failures
            raise WorkerDied(f"worker {self.where} broke: {error.cause}", during=True) from error
        return results

    def is_ready(self) -> bool:
        return self._worker.is_up()

    def cause_of_death(self) -> str:
        if self._worker.process.poll() is None:
            return ""
        try:
            self._worker.call([])
        except (WorkerDied, SimulatorError) as death:
            return str(death)
        raise AssertionError("a process that ended can't answer")

    def close(self) -> None:
        self._worker.close()


def local_pool(
    size: int = 2, most: int | None = None, *, sessions_each: int = 64, spare_after: float = 60.0,
    timeout: float = TIMEOUT, limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> Pool:  # fmt: skip
    """A pool of worker processes on this machine.

    A worker that doesn't answer for `timeout` seconds is killed; `limits` bounds what one call may cost it. The rest
    is as for `Pool`.
    """
    return Pool(lambda: LocalHost(timeout, limits), size, most, sessions_each, spare_after)
