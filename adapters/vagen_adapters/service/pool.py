"""A pool of workers, all used from one event loop: scheduling of calls, replacement of workers that die.

Every session lives in one worker. When a worker dies, another one takes its place, and its sessions are lost here:
their clients open them again by replay (see `journal`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

from vagen_adapters.service.host import Answer, Call, Failure, Result
from vagen_envs.workers import WorkerDied

log = logging.getLogger(__name__)

TIMEOUT = 120.0
"""Seconds without an answer after which a worker is replaced: ten times what one call may compute."""
CHECK_EVERY = 1.0
"""Seconds between checks that an idle worker lives."""
CHECK = Call("", "close", {})
"""The call of such a check: there is no such session, and that is the answer."""
RESTART_AFTER = 0.2
"""Seconds between a worker's death and the start of the next."""
STARTING = 15.0
"""Seconds for which a worker that isn't ready counts as starting and gets sessions like others. An actor may wait for
its machine for minutes; new sessions then go to workers that are ready."""


class Worker(Protocol):
    """A process or an actor that runs an `EnvHost`. Everything raises WorkerDied once it is gone."""

    async def start(self) -> None:
        """Wait until it takes calls."""

    def run(self, call: Call) -> asyncio.Future[Result]:
        """Carry out a call; the next one is given only after the result."""

    def close(self) -> None:
        """End it."""


class Job(NamedTuple):
    """A call and the future of its result."""

    call: Call
    result: asyncio.Future[Result]
    tenant: Hashable


class FairQueue:
    """Calls that wait for a worker: tenants in rotation, the calls of a tenant in order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[Job]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, job: Job) -> None:
        """Append a job to its tenant's."""
        self._waiting.setdefault(job.tenant, deque()).append(job)

    def pop(self) -> Job:
        """Remove the next job."""
        tenant, queue = self._waiting.popitem(last=False)
        job = queue.popleft()
        if queue:
            self._waiting[tenant] = queue
        return job


class Slot:
    """A place for one worker, its sessions and its queue. A worker that dies is replaced."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._queue = FairQueue()
        self._running: Job | None = None
        self._answer: asyncio.Future[Result] | None = None  # to the one that runs
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self.sessions: set[str] = set()
        self.worker: Worker | None = None
        self.task = asyncio.create_task(self._serve())

    def put(self, job: Job) -> None:
        """Queue a call."""
        self._queue.put(job)
        self._run()

    @property
    def load(self) -> tuple[bool, int]:
        """Sorts slots by how soon a new session would be served."""
        is_late = self.worker is None and self._loop.time() - self._since > STARTING
        return is_late, len(self.sessions)

    async def _serve(self) -> None:
        while True:
            cause = await self._serve_by_one()
            self.worker = None
            self._since = self._loop.time()
            lost, self.sessions = self.sessions, set()
            log.warning("%s; another worker takes its place; %d session(s) are lost", cause, len(lost))
            self._pool.lose(lost)
            while self._running is not None or self._queue:
                self._finish(self._running or self._queue.pop(), Failure("lost", cause))
            await asyncio.sleep(RESTART_AFTER)

    async def _serve_by_one(self) -> str:
        """Start a worker and use it until it dies. Returns the cause."""
        worker: Worker | None = None
        try:
            worker = self._pool.make_worker()
            await worker.start()
            self.worker, self._died = worker, self._loop.create_future()
            self._run()
            while not (await asyncio.wait({self._died}, timeout=CHECK_EVERY))[0]:
                if self._running is None:
                    self.put(Job(CHECK, self._loop.create_future(), None))
            return self._died.result()
        except WorkerDied as death:
            return str(death)
        except Exception as error:
            log.exception("a worker failed")
            return f"a worker failed: {type(error).__name__}: {error}"
        finally:
            if self._answer is not None:
                self._answer.cancel()
            if worker is not None:
                worker.close()

    def _run(self) -> None:
        """Send the next call, unless the worker is at work."""
        # Callbacks, not a task that waits for calls: its wake-ups took a third of a turn's time in the server.
        if self.worker is None or self._running is not None or not self._queue:
            return
        self._running = self._queue.pop()
        self._answer = self.worker.run(self._running.call)
        self._answer.add_done_callback(self._receive)

    def _receive(self, answer: asyncio.Future[Result]) -> None:
        if answer.cancelled():  # with the pool
            return
        if error := answer.exception():
            self._died.set_exception(error)
        elif self._running is not None:
            self._finish(self._running, answer.result())
            self._run()

    def _finish(self, job: Job, result: Result) -> None:
        self._running = None
        if not job.result.done():
            job.result.set_result(result)


class Pool:
    """`size` workers, and the assignment of sessions to them. If `make_worker` raises, it is called again later."""

    def __init__(self, make_worker: Callable[[], Worker], size: int = 2) -> None:
        if size < 1:
            raise ValueError(f"a pool of {size} workers; it needs at least 1")
        self.make_worker = make_worker
        self.size = size
        self.replaced = 0
        """Workers that died."""
        self.on_lost: Callable[[set[str]], None] = lambda _: None
        """Called with the sessions that ended with their worker."""
        self._slots: list[Slot] = []
        self._slot_of: dict[str, Slot] = {}

    async def start(self) -> None:
        """Start the workers in the running loop, without waiting for them."""
        self._slots = [Slot(self) for _ in range(self.size)]

    @property
    def workers(self) -> list[Worker]:
        """The workers that are ready."""
        return [slot.worker for slot in self._slots if slot.worker is not None]

    def submit(self, call: Call, tenant: Hashable = None) -> asyncio.Future[Result]:
        """Queue a call for the worker of its session. `open` chooses the worker with the fewest sessions.

        A session whose worker is gone, or that was never opened, gives a Failure `unknown_session`; a call whose
        worker dies meanwhile gives `lost`.
        """
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        slot = self._slot_of.get(call.session)
        if slot is None and call.verb == "open":
            slot = self._slot_of[call.session] = min(self._slots, key=lambda slot: slot.load)
            slot.sessions.add(call.session)
        if slot is None:
            result.set_result(Failure("unknown_session", f"no environment is open as session {call.session!r}"))
        else:
            slot.put(Job(call, result, tenant))
        return result

    async def open(
        self, session: str, arguments: dict[str, Any], replay: dict[str, Any] | None = None, tenant: Hashable = None
    ) -> Result:
        """Open a session by `EnvHost`'s `open`, and play an episode again in it.

        A replay has `seed`, `split`, `replies`, and the `digest` that playing them must give. Each of its moves is a
        call of its own, so it is bounded like any other, and other sessions play between.
        """
        result = await self.submit(Call(session, "open", arguments), tenant)
        if isinstance(result, Answer) and replay is not None:
            result = await self._replay(session, replay, tenant) or result
        if isinstance(result, Failure):
            self.close_session(session, tenant)
        return result

    async def _replay(self, session: str, replay: dict[str, Any], tenant: Hashable) -> Failure | None:
        turns = len(replay["replies"])
        level = {"seed": replay["seed"], "split": replay["split"]}
        played = await self.submit(Call(session, "reset", {**level, "encode": False}), tenant)
        for reply in replay["replies"]:
            if isinstance(played, Failure):
                break
            played = await self.submit(Call(session, "step", {"reply": reply, "encode": False}), tenant)
        if isinstance(played, Answer) and played.digest != replay["digest"]:
            return Failure("diverged", f"{turns} turns played again gave other answers, so it isn't deterministic")
        if isinstance(played, Answer) or played.code in ("lost", "unknown_session", "too_costly"):
            return played if isinstance(played, Failure) else None
        return Failure("diverged", f"one of {turns} turns played again failed: {played.message}")

    def close_session(self, session: str, tenant: Hashable = None) -> None:
        """End a session, in its worker too, without waiting."""
        slot = self._slot_of.get(session)
        if slot is not None:
            self.submit(Call(session, "close", {}), tenant)
            slot.sessions.discard(session)
            del self._slot_of[session]

    def lose(self, sessions: set[str]) -> None:
        """Called by a slot whose worker died."""
        self.replaced += 1
        for session in sessions:
            self._slot_of.pop(session, None)
        self.on_lost(sessions)

    async def close(self) -> None:
        """End all workers."""
        tasks = [slot.task for slot in self._slots]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._slots = []
