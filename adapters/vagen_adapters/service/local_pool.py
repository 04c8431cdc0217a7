"""A pool whose workers are processes on this machine."""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections import deque
from typing import Any

from vagen_adapters.service.host import HostCall, Result
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pool import TIMEOUT, Pool
from vagen_envs.workers import START_TIMEOUT, WorkerDied, cause_of_end, started

HEADER = struct.Struct("!i")
"""What `multiprocessing.Connection`, at the worker's end, writes before a message: its length."""

NICENESS = 10
"""The niceness of a worker of costly environments, and of the programs that draw for it. A tenth of
a core's share is left to it where quick turns and the server want all; they never do for long.
"""
MOST = 4
"""Times its size, to which a pool grows so that each client has a worker of its own. One takes
some 70 MB.
"""


class LocalWorker(asyncio.Protocol):
    """A worker process on this machine.

    Args:
        limits: bounds of one call.
        costly: whether it gives way to the server and to workers whose turns are quick.
    """

    def __init__(self, limits: Limits, costly: bool = False) -> None:
        self._process, self._socket = started(
            "vagen_adapters.service.worker",
            str(limits.cpu),
            str(limits.memory),
            str(NICENESS if costly else 0),
        )
        self._received = bytearray()
        # Awaited answers, in the order of the calls.
        self._answers: deque[asyncio.Future[Any]] = deque()
        self._transport: Any = None
        self._death: WorkerDied | None = None
        self._is_closed = False
        self.pid = self._process.pid
        self.where = f"worker process {self.pid}"

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._answers.append(loop.create_future())  # it says when it is ready
        self._transport, _ = await loop.create_unix_connection(lambda: self, sock=self._socket)
        await asyncio.wait_for(self._answers[0], START_TIMEOUT)

    def run(self, call: HostCall) -> asyncio.Future[Result]:
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        if self._death is not None:
            self._fail(self._death)
        elif not self._transport.is_closing():
            # uvloop raises for one that is; connection_lost then ends the answer.
            message = pickle.dumps((call,), pickle.HIGHEST_PROTOCOL)
            self._transport.write(HEADER.pack(len(message)) + message)
        return answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= HEADER.size:
            end = HEADER.size + HEADER.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            # the process is our own, so its pickles are trusted
            good, value = pickle.loads(self._received[HEADER.size : end])  # noqa: S301
            del self._received[:end]
            if good:
                self._answers.popleft().set_result(value)
            else:
                self._fail(WorkerDied(f"{self.where} failed: {value}", during=True))

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_closed:
            self._ending = asyncio.create_task(self._end())

    async def _end(self) -> None:
        cause = await asyncio.to_thread(cause_of_end, self._process, EOFError())
        self._fail(WorkerDied(cause, during=True))

    def _fail(self, death: WorkerDied) -> None:
        self._death = death
        while self._answers:
            answer = self._answers.popleft()
            if not answer.done():  # `start` may have been cancelled
                answer.set_exception(death)

    def close(self) -> None:
        self._is_closed = True
        self._process.kill()  # it has no state that a client couldn't bring again
        self._process.wait()
        (self._transport or self._socket).close()
        self._fail(WorkerDied(f"{self.where} was ended", during=True))


def local_pool(size: int = 2, *, timeout: float = TIMEOUT, limits: Limits | None = None) -> Pool:
    """A pool of worker processes on this machine.

    Args:
        size: processes for one client; there are up to four times as many for several.
        timeout: seconds without an answer after which a process is replaced.
        limits: bounds of one call; `Limits()` by default.
    """
    bounds = limits or Limits()
    return Pool(lambda costly: LocalWorker(bounds, costly), size, timeout, MOST * size)
