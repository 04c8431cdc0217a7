"""A pool whose workers are processes on this machine."""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections.abc import Sequence
from typing import Any

from vagen_adapters.service.host import Call, Result
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pool import TIMEOUT, Pool
from vagen_envs.workers import START_TIMEOUT, WorkerDied, cause_of_end, started

HEADER = struct.Struct("!i")
"""What `multiprocessing.Connection`, at the worker's end, writes before a message: its length."""


class LocalWorker:
    """A worker process on this machine. It is killed after `timeout` seconds without an answer."""

    def __init__(self, limits: Limits, timeout: float = TIMEOUT) -> None:
        self._process, self._socket = started("vagen_adapters.service.worker", str(limits.cpu), str(limits.memory))
        self._timeout = timeout
        self._writer: asyncio.StreamWriter | None = None
        self.pid = self._process.pid
        self.where = f"process {self.pid}"

    async def start(self) -> None:
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._socket)
        await self._receive(START_TIMEOUT)

    async def run(self, calls: Sequence[Call]) -> list[Result]:
        if self._writer is None:
            raise WorkerDied(f"worker {self.where} was not started")
        message = pickle.dumps((calls,), pickle.HIGHEST_PROTOCOL)
        self._writer.write(HEADER.pack(len(message)) + message)
        results: list[Result] = await self._receive(self._timeout)
        return results

    async def check(self) -> None:
        if self._process.poll() is not None:
            raise WorkerDied(cause_of_end(self._process, EOFError()))

    async def _receive(self, seconds: float) -> Any:
        # asyncio.timeout would take as long as everything else here
        alarm = asyncio.get_running_loop().call_later(seconds, self._process.kill)
        try:
            (size,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
            # the process is our own, so its pickles are trusted
            good, value = pickle.loads(await self._reader.readexactly(size))  # noqa: S301
        except (EOFError, OSError) as error:
            late = asyncio.get_running_loop().time() >= alarm.when()
            reason = TimeoutError(f"no answer within {seconds:g} s") if late else error
            raise WorkerDied(await asyncio.to_thread(cause_of_end, self._process, reason), during=True) from error
        finally:
            alarm.cancel()
        if not good:
            raise WorkerDied(f"worker {self.where} failed: {value}", during=True)
        return value

    def close(self) -> None:
        self._process.kill()  # it has no state that a client couldn't bring again
        self._process.wait()
        (self._writer or self._socket).close()


def local_pool(size: int = 2, *, timeout: float = TIMEOUT, limits: Limits | None = None) -> Pool:
    """A pool of worker processes on this machine.

    Args:
        size: processes.
        timeout: seconds without an answer after which a process is replaced.
        limits: bounds of one call; `Limits()` by default.
    """
    bounds = limits or Limits()
    return Pool(lambda: LocalWorker(bounds, timeout), size)
