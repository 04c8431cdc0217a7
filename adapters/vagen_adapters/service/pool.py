"""A pool of workers that hold environments: one interface, whether they are processes here or actors elsewhere.

Each session lives in one worker, and each worker has a lane: what has been asked while it was at work waits there, and
goes to it in one message. A worker that dies is replaced, and its sessions have ended here, with the cause: whoever
plays has what is needed to open them again (see `journal`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from vagen_adapters.service.fair import FairQueue, Job
from vagen_adapters.service.host import GO_ON, OPENS, TOO_COSTLY, Call, Done, Failure, Result
from vagen_envs.workers import WorkerDied

log = logging.getLogger(__name__)

MOST_CALLS = 64
"""In one message to a worker. The first of them waits for the last."""
REMEMBERED = 10_000
"""Ended sessions whose cause is remembered."""
LOOK_EVERY = 1.0
"""Seconds between looks whether an idle worker is alive."""
LOOK_AT_START = 0.1
"""The same for one that hasn't been seen alive yet."""
STUCK = 1.0
"""Seconds at one message after which a worker is taken to be stuck in something costly."""
CLOSING = 0.005
"""Seconds between looks whether workers have done what there was, when they are to end."""
STARTING = 15.0
"""Seconds in which a worker that isn't ready is taken to be starting, and after which to have no machine."""


Told = Callable[[Sequence[Done], WorkerDied | None], None]
"""Told what came of the first of the calls, or of all, or why the worker is gone."""


class Host(Protocol):
    """A worker, wherever it is."""

    where: str
    """For people and logs: the process, or the actor and its node."""
    pids: Sequence[int]
    """Its processes on this machine."""

    def attend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Answers may be told in this loop, which runs, from now on."""

    def begin(self, calls: Sequence[Call], told: Told) -> None:
        """Begin to carry calls out, and don't wait. `told` is called once, in any thread."""

    def is_ready(self) -> bool:
        """Whether it can begin with calls at once, or soon."""

    def cause_of_death(self) -> str:
        """Why the worker is gone, empty while it lives or is at work. Called about once a second, doesn't wait."""

    def close(self) -> None:
        """End the worker."""


class WaitingHost:
    """A worker that is asked by waiting for it, in a thread of its own. Descendants have `do` and `find_death`."""

    where = "somewhere"
    pids: Sequence[int] = ()

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._is_looking = self._is_busy = False
        self._found = ""
        threading.Thread(target=self._work, name="environment-worker", daemon=True).start()

    def do(self, calls: Sequence[Call]) -> list[Done]:
        """Carry the first of the calls out, or all of them. Raises WorkerDied."""
        raise NotImplementedError

    def find_death(self) -> str:
        """Why the worker is gone, empty while it lives. May wait."""
        raise NotImplementedError

    def attend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """It has a thread of its own."""

    def begin(self, calls: Sequence[Call], told: Told) -> None:
        self._is_busy = True
        self._jobs.put(lambda: self._carry_out(calls, told))

    def _carry_out(self, calls: Sequence[Call], told: Told) -> None:
        death: WorkerDied | None = None
        done: list[Done] = []
        try:
            done = self.do(calls)
        except WorkerDied as error:
            death = error
        except Exception as error:
            log.exception("worker %s can't be asked", self.where)
            death = WorkerDied(f"worker {self.where} can't be asked: {type(error).__name__}: {error}")
        self._is_busy = False
        told(done, death)

    def cause_of_death(self) -> str:
        if not self._is_busy and not self._is_looking:
            self._is_looking = True
            self._jobs.put(self._look)
        return "" if self._is_busy else self._found

    def _look(self) -> None:
        self._found = self.find_death()
        self._is_looking = False

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def close(self) -> None:
        self._jobs.put(None)


def tell_gone(told: Told, cause: str) -> None:
    """That the worker was gone before it was asked. In a thread: who asks isn't told by being asked."""
    threading.Thread(target=told, args=([], WorkerDied(cause, during=False)), daemon=True).start()


class _NoHost:
    """Stands where a worker could not be started. Each use of it leads to another try."""

    where = "nowhere"
    pids: Sequence[int] = ()

    def __init__(self, cause: str) -> None:
        self._cause = cause

    def attend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Nothing is there."""

    def begin(self, calls: Sequence[Call], told: Told) -> None:
        tell_gone(told, self._cause)

    def is_ready(self) -> bool:
        return False

    def cause_of_death(self) -> str:
        return self._cause

    def close(self) -> None:
        """Nothing is there."""


class _Lane:
    """A worker and the calls that wait for it. All of it, except where said, under the pool's lock."""

    def __init__(self, pool: Pool, *, needed: bool) -> None:
        self._pool = pool
        self._starting_until = self._first_until = time.monotonic() + STARTING if needed else 0.0
        self.waiting = FairQueue()
        self.sessions: set[str] = set()
        self.lives = needed
        """Whether the worker could play, as far as is known. The first one is believed to start, another must have."""
        self.is_busy = False
        self._busy_since = self._idle_since = time.monotonic()
        self.host: Host = pool.start_host()

    def takes_sessions(self) -> bool:
        """Whether sessions that are opened here won't wait for long."""
        return time.monotonic() < self._starting_until or self.host.is_ready()

    @property
    def is_stuck(self) -> bool:
        """Whether it has long been at work on something costly."""
        return self.is_busy and time.monotonic() - self._busy_since > STUCK

    def put(self, jobs: Iterable[Job]) -> None:
        """Calls more."""
        for job in jobs:
            self.waiting.put(job)
        self._go()

    def _go(self) -> None:
        if self.is_busy or not len(self.waiting):
            return
        batch = self.waiting.take(MOST_CALLS)
        self.is_busy, self._busy_since = True, time.monotonic()
        host = self.host
        host.begin([job.call for job in batch], lambda done, death: self._told(host, batch, done, death))

    def _told(self, host: Host, batch: list[Job], done: Sequence[Done], death: WorkerDied | None) -> None:
        """Without the lock: whoever is told may ask for more."""
        if death is not None:
            self.replace(host, str(death), batch)
            return
        finished: list[tuple[Job, Result]] = []
        with self._pool.lock:
            self.lives = True
            self.is_busy, self._idle_since = False, time.monotonic()
            for job, each in zip(batch, done, strict=False):
                self.waiting.took(job.call, each.seconds)
                if each.result is None:
                    self.waiting.put(job._replace(call=Call(job.call.session, GO_ON, {})))
                    continue
                finished.append((job, each.result))
                failed = isinstance(each.result, Failure) and (
                    job.call.do in (OPENS, GO_ON) or each.result.code == TOO_COSTLY
                )
                if job.call.do == "close" or failed:
                    self._pool.release(self, job.call.session)
            self.waiting.put_back(batch[len(done) :])
            self._go()
        for job, result in finished:
            job.done(result)

    def look(self) -> None:
        """Called about once a second, without the lock."""
        host = self.host
        cause = host.cause_of_death()
        if cause:
            self.replace(host, cause, [])
        elif not self.is_busy:
            self.lives = host.is_ready() or time.monotonic() < self._first_until

    def is_spare(self) -> bool:
        """Whether it has long had nothing to do."""
        return not self.is_busy and time.monotonic() - self._idle_since >= self._pool.spare_after

    def replace(self, dead: Host, cause: str, batch: Sequence[Job]) -> None:
        """Have another worker in the place of one that died, and tell whoever waits. Without the lock."""
        with self._pool.lock:
            is_known = self.host is not dead
            if not is_known:
                log.warning("%s; another takes its place; %d session(s) are lost", cause, len(self.sessions))
                self.lives, self._first_until, self.is_busy = False, 0.0, True  # nothing is begun meanwhile
                batch = [*batch, *self.waiting.drain()]
                self._pool.forget(self, cause)
        if not is_known:
            self._start_another(dead)
        for job in batch:
            job.done(self._pool.no_session(job.call.session))

    def _start_another(self, dead: Host) -> None:
        threading.Thread(target=_closed, args=(dead,), daemon=True).start()
        try:
            host: Host = self._pool.start_host()
        except Exception as error:
            log.exception("no worker can be started; it will be tried again")
            host = _NoHost(f"no worker can be started: {type(error).__name__}: {error}")
        with self._pool.lock:
            self.host = host
            self._starting_until = time.monotonic() + STARTING
            self.is_busy, self._idle_since = False, time.monotonic()
            self._pool.welcome(host)
            self._go()


def _closed(host: Host) -> None:
    with contextlib.suppress(Exception):  # it is dead already; what is left of it may not want to be closed
        host.close()


class Pool:
    """Workers, and which session is in which.

    Args:
        start_host: starts a worker. It may return before the worker is ready.
        size: workers that are always there.
        most: workers that there may be; `size` by default. More are started when those that there are have
            `sessions_each` sessions, and ended when they have been empty for `spare_after` seconds and the
            others have room.
        sessions_each: sessions of a worker before another one is started.
        spare_after: seconds.
    """

    def __init__(
        self,
        start_host: Callable[[], Host],
        size: int = 2,
        most: int | None = None,
        sessions_each: int = 64,
        spare_after: float = 60.0,
    ) -> None:
        if size < 1 or (most is not None and most < size):
            raise ValueError(f"a pool of {size} to {most} workers; it needs at least 1, and no fewer most than least")
        self.start_host = start_host
        self.spare_after = spare_after
        self.size, self.most, self.sessions_each = size, most or size, sessions_each
        self.on_lost: Callable[[list[str], str], None] | None = None
        """Told, in a worker's thread and under a lock, which sessions ended with their worker, and why."""
        self.replaced = 0
        """Workers that died and were replaced."""
        self.lock = threading.RLock()
        """For everything below, and for the lanes."""
        self._lane_of: dict[str, _Lane] = {}
        self._lost: OrderedDict[str, str] = OrderedDict()
        self._lanes: list[_Lane] = []
        self._closed = threading.Event()
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        for _ in range(size):
            self._add(needed=True)
        threading.Thread(target=self._look, name="environment-pool", daemon=True).start()

    def attend(self, loop: asyncio.AbstractEventLoop) -> None:
        """What is asked from now on is answered in this loop, where workers can."""
        with self.lock:
            self._loop = loop
            for lane in self._lanes:
                lane.host.attend(loop)

    def welcome(self, host: Host) -> None:
        """Called by a lane that has another worker."""
        if self._loop is not None:
            host.attend(self._loop)

    @property
    def hosts(self) -> list[Host]:
        """The workers now."""
        with self.lock:
            return [lane.host for lane in self._lanes]

    @property
    def lives(self) -> bool:
        """Whether any worker could play now."""
        return any(lane.lives for lane in self._lanes)

    @property
    def pids(self) -> list[int]:
        """The workers' processes on this machine."""
        return [pid for host in self.hosts for pid in host.pids]

    def submit(self, calls: Sequence[Call], done: Sequence[Callable[[Result], None]], flow: Hashable = "") -> None:
        """Ask, without waiting.

        Args:
            calls: what for.
            done: for each call, who is told its result, once; in any thread, and perhaps before this returns.
            flow: for whom. Those for whom more is asked don't get more of a worker.
        """
        nowhere: list[int] = []
        lanes: dict[_Lane, list[Job]] = {}
        with self.lock:
            if self._is_closing:
                raise RuntimeError("the pool is closed; make another one")
            for i, call in enumerate(calls):
                lane = self._lane(call)
                if lane is None:
                    nowhere.append(i)
                else:
                    lanes.setdefault(lane, []).append(Job(call, done[i], flow))
            for lane, jobs in lanes.items():
                lane.put(jobs)
        for i in nowhere:
            done[i](self.no_session(calls[i].session))

    def ask(self, calls: Sequence[Call]) -> list[Result]:
        """Ask, and wait for all results."""
        to_come: list[Future[Result]] = [Future() for _ in calls]
        self.submit(calls, [each.set_result for each in to_come])
        return [each.result() for each in to_come]

    def _lane(self, call: Call) -> _Lane | None:
        if call.do == OPENS and call.session not in self._lane_of:
            # A worker that still waits for its machine, or is stuck, gets sessions only where there is no other.
            lane = min(self._lanes, key=lambda each: (not each.takes_sessions(), each.is_stuck, len(each.sessions)))
            if len(lane.sessions) >= self.sessions_each and len(self._lanes) < self.most:
                try:
                    lane = min((lane, self._add(needed=False)), key=lambda each: not each.takes_sessions())
                except Exception:
                    log.exception("no further worker can be started; those that there are take more sessions")
            lane.sessions.add(call.session)
            self._lane_of[call.session] = lane
            self._lost.pop(call.session, None)
        return self._lane_of.get(call.session)

    def _add(self, *, needed: bool) -> _Lane:
        lane = _Lane(self, needed=needed)
        self._lanes.append(lane)
        self.welcome(lane.host)
        return lane

    def no_session(self, session: str) -> Failure:
        """What to say about a session that isn't there."""
        with self.lock:
            cause = self._lost.get(session)
        if cause is not None:
            return Failure("lost", cause)
        return Failure("unknown_session", f"no environment is open as session {session!r}; open one")

    def forget(self, lane: _Lane, cause: str) -> None:
        """Called by a lane whose worker died: its sessions have ended."""
        ended = sorted(lane.sessions)
        lane.sessions.clear()
        lane.waiting = FairQueue()
        self.replaced += 1
        for session in ended:
            self._lane_of.pop(session, None)
            self._lost[session] = cause
        while len(self._lost) > REMEMBERED:
            self._lost.popitem(last=False)
        if self.on_lost is not None:  # told before anybody can ask for them, and open them again
            self.on_lost(ended, cause)

    def release(self, lane: _Lane, session: str) -> None:
        """Called by a lane whose session was closed, or never came to be."""
        lane.sessions.discard(session)
        lane.waiting.forget(session)
        self._lane_of.pop(session, None)

    def _look(self) -> None:
        wait = LOOK_AT_START
        while not self._closed.wait(wait):
            for lane in list(self._lanes):
                try:
                    lane.look()
                    self._drop_spare(lane)
                except Exception:
                    log.exception("worker %s can't be looked at", lane.host.where)
            wait = LOOK_EVERY if all(lane.lives for lane in self._lanes) else LOOK_AT_START

    def _drop_spare(self, lane: _Lane) -> None:
        with self.lock:
            if not lane.is_spare() or lane.sessions or len(lane.waiting) or len(self._lanes) <= self.size:
                return
            if len(self._lane_of) > self.sessions_each * (len(self._lanes) - 1):
                return  # the others are too full; it may be waiting for its machine
            self._lanes.remove(lane)
        lane.host.close()

    def close(self) -> None:
        """Carry out what has been asked, and end all workers."""
        with self.lock:
            self._is_closing = True
            lanes = list(self._lanes)
        while any(lane.is_busy or len(lane.waiting) for lane in lanes):
            time.sleep(CLOSING)
        self._closed.set()
        for lane in lanes:
            lane.host.close()
