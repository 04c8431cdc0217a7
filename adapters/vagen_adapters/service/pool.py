"""A pool of workers, all used from one event loop: which clients share one, scheduling of calls,
replacement of workers that die.

Every session lives in one worker. When a worker dies, another one takes its place, and its sessions
are lost here: their clients open them again by replay (see `journal`).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

from vagen_adapters.service.host import Failure, HostCall, Result
from vagen_envs.workers import WorkerDied

log = logging.getLogger(__name__)

TIMEOUT = 120.0
"""Seconds without an answer after which a worker is replaced: ten times what one call may
compute.
"""
CHECK_EVERY = 1.0
"""Seconds between checks that a worker lives."""
AHEAD = 4
"""Calls that a worker has at once, so that it needn't wait for the server. Others wait here,
clients in rotation.
"""
CHECK = HostCall("", "close", {})
"""The call of such a check: there is no such session, and that is the answer."""
RESTART_AFTER = 0.2
"""Seconds between a worker's death and the start of the next."""
STARTING = 15.0
"""Seconds for which a worker that isn't ready counts as starting and gets sessions like others. An
actor may wait for its machine for minutes; new sessions then go to workers that are ready."""

SPARE_FOR = 60.0
"""Seconds for which a worker beyond the pool's size is kept without sessions."""


class PoolWorker(Protocol):
    """A process or an actor that runs an `EnvHost`. Everything raises WorkerDied once it is
    gone.
    """

    where: str
    """Names it in messages."""

    async def start(self) -> None:
        """Wait until it takes calls."""

    def run(self, call: HostCall) -> asyncio.Future[Result]:
        """Carry out a call, after those that were given before."""

    def close(self) -> None:
        """End it."""


class Slot:
    """A place for one worker and its sessions. A worker that dies is replaced.

    Args:
        pool: what it belongs to.
        costly: whether its environments are slow.
        is_extra: whether it is beyond the pool's size, and ends when it has had no session for
            a while.
    """

    def __init__(self, pool: Pool, costly: bool, is_extra: bool = False) -> None:
        self._pool = pool
        self._costly = costly
        # One costly call at once: those of other clients don't wait for all that one client sent.
        self._ahead = 1 if costly else AHEAD
        self._is_extra = is_extra
        # The calls of each client in order, the next client first.
        self._waiting: dict[Hashable, deque[tuple[HostCall, asyncio.Future[Result]]]] = {}
        self._given = 0  # calls that the worker has
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._used = self._loop.time()  # when it last had sessions
        self.sessions: dict[str, Hashable] = {}
        """The client of each session."""
        self.worker: PoolWorker | None = None
        self.task = asyncio.create_task(self._serve())

    def submit(self, call: HostCall, client: Hashable = None) -> asyncio.Future[Result]:
        """Carry out a call. It fails as `lost` if the worker of its session is gone, or dies
        meanwhile.
        """
        result: asyncio.Future[Result] = self._loop.create_future()
        if call.session in self.sessions or call is CHECK:
            self._waiting.setdefault(client, deque()).append((call, result))
            self._give()
        else:
            result.set_result(Failure("lost", f"the worker of session {call.session!r} is gone"))
        return result

    def end(self, session: str, client: Hashable) -> None:
        """End a session, in the worker too, without waiting."""
        self.submit(HostCall(session, "close", {}), client)
        self.sessions.pop(session, None)

    def is_for(self, client: Hashable) -> bool:
        """Whether no other client has sessions here."""
        return all(other == client for other in self.sessions.values())

    @property
    def load(self) -> tuple[bool, int]:
        """Sorts slots by how soon a new session would be served."""
        is_late = self.worker is None and self._loop.time() - self._since > STARTING
        return is_late, len(self.sessions)

    async def _serve(self) -> None:
        while (cause := await self._serve_by_one()) is not None:
            self.worker = None
            self._since = self._loop.time()
            lost = set(self.sessions)
            self.sessions = {}
            log.warning(
                "%s; another worker takes its place; %d session(s) are lost", cause, len(lost)
            )
            self._pool.replaced += 1
            self._pool.on_lost(lost)
            while self._waiting:
                _finish(self._pop()[1], Failure("lost", cause))
            await asyncio.sleep(RESTART_AFTER)

    async def _serve_by_one(self) -> str | None:
        """Start a worker and use it until it dies. Returns the cause, and nothing if the worker
        isn't needed any more.
        """
        worker: PoolWorker | None = None
        try:
            worker = self._pool.make_worker(self._costly)
            await worker.start()
            self.worker = worker
            self._death = self._loop.create_future()
            self._heard = self._loop.time()
            self._given = 0
            self._give()
            while not (await asyncio.wait({self._death}, timeout=CHECK_EVERY))[0]:
                if self._loop.time() - self._heard > self._pool.timeout:
                    return (
                        f"{worker.where} gave no answer within {self._pool.timeout:g} s and was "
                        "killed"
                    )
                if self._is_extra and self._is_idle():
                    self._pool.drop(self)
                    return None
                self.submit(CHECK)
            return str(self._death.result())
        except WorkerDied as death:
            return str(death)
        except Exception as error:
            log.exception("a worker failed")
            return f"a worker failed: {type(error).__name__}: {error}"
        finally:
            if worker is not None:
                worker.close()

    def _is_idle(self) -> bool:
        """Whether it has had no session for a while."""
        if self.sessions:
            self._used = self._loop.time()
        return self._loop.time() - self._used > SPARE_FOR

    def _pop(self) -> tuple[HostCall, asyncio.Future[Result]]:
        client = next(iter(self._waiting))
        calls = self._waiting.pop(client)
        job = calls.popleft()
        if calls:
            self._waiting[client] = calls
        return job

    def _give(self) -> None:
        # Callbacks, not a task for each call: its wake-ups took a third of a turn's time in the
        # server.
        while self.worker is not None and self._waiting and self._given < self._ahead:
            call, result = self._pop()
            self._given += 1
            self.worker.run(call).add_done_callback(
                functools.partial(self._receive, self.worker, result)
            )

    def _receive(
        self, worker: PoolWorker, result: asyncio.Future[Result], answer: asyncio.Future[Result]
    ) -> None:
        if answer.cancelled():  # with the pool
            return
        error = answer.exception()
        _finish(result, answer.result() if error is None else Failure("lost", str(error)))
        if worker is not self.worker:
            return
        self._heard = self._loop.time()
        self._given -= 1
        if error is None:
            self._give()
        elif not self._death.done():
            self._death.set_result(error)


def _finish(pending: asyncio.Future[Result], result: Result) -> None:
    if not pending.done():  # it may have been cancelled
        pending.set_result(result)


class Pool:
    """`size` workers, and as many for costly environments once one is opened.

    A worker carries out one call at a time, so a turn waits for the others that its worker has.
    Clients therefore don't share a worker while there is another, and one that finds all taken
    gets a worker beyond `size`. Between processes the operating system shares the cores out.

    If `make_worker` raises, it is called again later.

    Args:
        make_worker: called with whether its environments are costly.
        size: workers that one client may occupy.
        timeout: seconds without an answer after which a worker is replaced.
        most: workers for all clients; `size` by default.
    """

    def __init__(
        self,
        make_worker: Callable[[bool], PoolWorker],
        size: int = 2,
        timeout: float = TIMEOUT,
        most: int | None = None,
    ) -> None:
        self.make_worker = make_worker
        self.size = size
        self.timeout = timeout
        self.replaced = 0
        """Workers that died."""
        self.on_lost: Callable[[set[str]], None] = lambda _: None
        """Called with the sessions that ended with their worker."""
        self._most = most or size
        self._slots: list[Slot] = []
        self._costly: list[Slot] = []

    async def start(self) -> None:
        """Start the workers in the running loop, without waiting for them."""
        self._slots = [Slot(self, costly=False) for _ in range(self.size)]

    @property
    def workers(self) -> list[PoolWorker]:
        """The workers that are ready."""
        slots = self._slots + self._costly
        return [slot.worker for slot in slots if slot.worker is not None]

    def quietest(self, costly: bool = False, client: Hashable = None) -> Slot:
        """Where a new session of a client would be served soonest.

        Args:
            costly: whether its turns take more than a millisecond or so.
            client: whose it is.
        """
        if costly and not self._costly:
            self._costly = [Slot(self, costly=True) for _ in range(self.size)]
        slots = self._costly if costly else self._slots
        unshared = [slot for slot in slots if slot.is_for(client)]
        if not unshared and len(slots) < self._most:
            slots.append(Slot(self, costly, is_extra=True))
            return slots[-1]
        best = min(unshared or slots, key=lambda slot: slot.load)
        is_late, _ = best.load
        return min(slots, key=lambda slot: slot.load) if is_late else best

    def drop(self, slot: Slot) -> None:
        """Forget a place whose worker isn't needed any more."""
        for slots in (self._slots, self._costly):
            if slot in slots:
                slots.remove(slot)

    async def close(self) -> None:
        """End all workers."""
        slots = self._slots + self._costly
        for slot in slots:
            slot.task.cancel()
        await asyncio.gather(*(slot.task for slot in slots), return_exceptions=True)
        self._slots = []
        self._costly = []
