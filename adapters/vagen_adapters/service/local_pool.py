"""A pool whose workers are processes on this machine."""

from __future__ import annotations

import asyncio
import pickle
import struct
from typing import Any

from vagen_adapters.service.host import Call, Result
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pool import TIMEOUT, Pool
from vagen_envs.workers import START_TIMEOUT, WorkerDied, cause_of_end, started

HEADER = struct.Struct("!i")
"""What `multiprocessing.Connection`, at the worker's end, writes before a message: its length."""


class LocalWorker(asyncio.Protocol):
    """A worker process on this machine. It is killed after `timeout` seconds without an answer."""

    def __init__(self, limits: Limits, timeout: float = TIMEOUT) -> None:
        self._process, self._socket = started("vagen_adapters.service.worker", str(limits.cpu), str(limits.memory))
        self._timeout = timeout
        self._received = bytearray()
        self._transport: Any = None
        self._reason: Exception = EOFError()
        self._death: WorkerDied | None = None
        self._is_closed = False
        self.pid = self._process.pid

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        answer = self._expect(START_TIMEOUT)
        self._transport, _ = await self._loop.create_unix_connection(lambda: self, sock=self._socket)
        await answer

    def run(self, call: Call) -> asyncio.Future[Result]:
        message = pickle.dumps((call,), pickle.HIGHEST_PROTOCOL)
        answer = self._expect(self._timeout)
        if self._death is not None:
            answer.set_exception(self._death)
        elif not self._transport.is_closing():  # uvloop raises for one that is; connection_lost then ends the answer
            self._transport.write(HEADER.pack(len(message)) + message)
        return answer

    def _expect(self, seconds: float) -> asyncio.Future[Any]:
        self._alarm = self._loop.call_later(seconds, self._kill, TimeoutError(f"no answer within {seconds:g} s"))
        self._answer: asyncio.Future[Any] = self._loop.create_future()
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = HEADER.size + HEADER.unpack_from(self._received)[0] if len(self._received) >= HEADER.size else 0
        if not end or len(self._received) < end:
            return
        self._alarm.cancel()
        # the process is our own, so its pickles are trusted
        good, value = pickle.loads(memoryview(self._received)[HEADER.size : end])  # noqa: S301
        self._received = bytearray()  # one answer to one message: nothing follows it
        if self._answer.cancelled():
            return
        if good:
            self._answer.set_result(value)
        else:
            self._answer.set_exception(WorkerDied(f"worker process {self.pid} failed: {value}", during=True))

    def _kill(self, reason: Exception) -> None:
        self._reason = reason
        self._process.kill()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_closed:
            self._ending = asyncio.create_task(self._end())

    async def _end(self) -> None:
        self._death = WorkerDied(await asyncio.to_thread(cause_of_end, self._process, self._reason), during=True)
        self._alarm.cancel()
        if not self._answer.done():
            self._answer.set_exception(self._death)

    def close(self) -> None:
        self._is_closed = True
        self._process.kill()  # it has no state that a client couldn't bring again
        self._process.wait()
        (self._transport or self._socket).close()


def local_pool(size: int = 2, *, timeout: float = TIMEOUT, limits: Limits | None = None) -> Pool:
    """A pool of worker processes on this machine.

    Args:
        size: processes.
        timeout: seconds without an answer after which a process is replaced.
        limits: bounds of one call; `Limits()` by default.
    """
    bounds = limits or Limits()
    return Pool(lambda: LocalWorker(bounds, timeout), size)
