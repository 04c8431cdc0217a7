"""A pool of workers that hold environments: one interface, whether they are processes here or actors elsewhere.

Each session lives in one worker, and each worker has a thread that sends it what has been asked meanwhile
in one message. A worker that dies is replaced, and its sessions have ended here, with the cause: whoever plays
has what is needed to open them again (see `journal`).
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from vagen_adapters.service.host import OPENS, TOO_COSTLY, Call, Failure, Result
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
STARTING = 15.0
"""Seconds in which a worker that isn't ready is taken to be starting, and after which to have no machine."""


class Host(Protocol):
    """A worker, wherever it is."""

    where: str
    """For people and logs: the process, or the actor and its node."""
    pids: Sequence[int]
    """Its processes on this machine."""

    def do(self, calls: Sequence[Call]) -> list[Result]:
        """Carry calls out. Raises WorkerDied."""

    def is_ready(self) -> bool:
        """Whether it can begin with calls at once, or soon."""

    def cause_of_death(self) -> str:
        """Why the worker is gone, empty while it lives. Called while it is idle."""

    def close(self) -> None:
        """End the worker."""


class _NoHost:
    """Stands where a worker could not be started. Each use of it leads to another try."""

    where = "nowhere"
    pids: Sequence[int] = ()

    def __init__(self, cause: str) -> None:
        self._cause = cause

    def do(self, calls: Sequence[Call]) -> list[Result]:
        raise WorkerDied(self._cause, during=False)

    def is_ready(self) -> bool:
        return False

    def cause_of_death(self) -> str:
        return self._cause

    def close(self) -> None:
        """Nothing is there."""


class _Job(NamedTuple):
    calls: list[Call]
    done: Future[list[Result]]


class _Lane(threading.Thread):
    """A worker and the calls that wait for it."""

    def __init__(self, pool: Pool, *, needed: bool) -> None:
        super().__init__(name="environment-worker", daemon=True)
        self._starting_until = time.monotonic() + STARTING if needed else 0.0
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.sessions: set[str] = set()
        self.host: Host = pool.start_host()
        self._first_until = self._starting_until
        self.lives = needed
        """Whether the worker could play, as far as is known. The first one is believed to start, another must have."""
        self._pool = pool
        self._idle = 0.0

    def takes_sessions(self) -> bool:
        """Whether sessions that are opened here won't wait for long."""
        return time.monotonic() < self._starting_until or self.host.is_ready()

    def run(self) -> None:
        while True:
            wait = LOOK_EVERY if self.lives else LOOK_AT_START
            try:
                job = self.jobs.get(timeout=wait)
            except queue.Empty:
                if self._is_spare(wait):
                    break
                self._look()
                continue
            if job is None:
                break
            self._idle = 0.0
            jobs = [job]
            count = len(job.calls)
            while count < MOST_CALLS and not self.jobs.empty():
                job = self.jobs.get()
                if job is None:
                    self.jobs.put(None)
                    break
                jobs.append(job)
                count += len(job.calls)
            results = iter(self._do([call for each in jobs for call in each.calls]))
            for each in jobs:
                each.done.set_result([next(results) for _ in each.calls])
        self.host.close()

    def _do(self, calls: list[Call]) -> list[Result]:
        here = [call for call in calls if call.session in self.sessions]
        done: dict[int, Result] = {}
        try:
            done = dict(zip(map(id, here), self.host.do(here), strict=True))
            self.lives = True
        except WorkerDied as death:
            self._replace(str(death))
        except Exception as error:
            log.exception("worker %s can't be asked", self.host.where)
            self._replace(f"worker {self.host.where} can't be asked: {type(error).__name__}: {error}")
        for call in here:
            result = done.get(id(call))
            failed = isinstance(result, Failure) and (call.do == OPENS or result.code == TOO_COSTLY)
            if call.do == "close" or failed:
                self._pool.release(self, call.session)
        return [done.get(id(call)) or self._pool.no_session(call.session) for call in calls]

    def _look(self) -> None:
        cause = self.host.cause_of_death()
        if cause:
            self._replace(cause)
        else:
            self.lives = self.host.is_ready() or time.monotonic() < self._first_until

    def _replace(self, cause: str) -> None:
        self.lives, self._first_until = False, 0.0
        log.warning("%s; another takes its place, and %d session(s) are to be opened again", cause, len(self.sessions))
        with contextlib.suppress(Exception):  # it is dead already; what is left of it may not want to be closed
            self.host.close()
        try:
            self.host = self._pool.start_host()
        except Exception as error:
            log.exception("no worker can be started; it will be tried again")
            self.host = _NoHost(f"no worker can be started: {type(error).__name__}: {error}")
        self._starting_until = time.monotonic() + STARTING
        self._pool.forget(self, cause)

    def _is_spare(self, waited: float) -> bool:
        self._idle += waited
        return self._idle >= self._pool.spare_after and self._pool.drop(self)


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
        self._lock = threading.Lock()
        self._lane_of: dict[str, _Lane] = {}
        self._lost: OrderedDict[str, str] = OrderedDict()
        self._lanes: list[_Lane] = []
        self._closed = False
        for _ in range(size):
            self._add(needed=True)

    @property
    def hosts(self) -> list[Host]:
        """The workers now."""
        with self._lock:
            return [lane.host for lane in self._lanes]

    @property
    def lives(self) -> bool:
        """Whether any worker could play now."""
        return any(lane.lives for lane in self._lanes)

    @property
    def pids(self) -> list[int]:
        """The workers' processes on this machine."""
        return [pid for host in self.hosts for pid in host.pids]

    @property
    def waiting(self) -> int:
        """Requests that no worker has begun with, about."""
        with self._lock:
            return sum(lane.jobs.qsize() for lane in self._lanes)

    def submit(self, calls: Sequence[Call]) -> list[tuple[list[int], Future[list[Result]]]]:
        """Ask, without waiting: for each worker the places of its calls in `calls`, and its results to come."""
        groups: dict[int, tuple[_Lane | None, list[int]]] = {}
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed; make another one")
            for i, call in enumerate(calls):
                lane = self._lane(call)
                groups.setdefault(id(lane), (lane, []))[1].append(i)
            submitted = []
            for lane, places in groups.values():
                done: Future[list[Result]] = Future()
                if lane is not None:
                    lane.jobs.put(_Job([calls[i] for i in places], done))
                submitted.append((places, done))
        for (lane, _), (places, done) in zip(groups.values(), submitted, strict=True):
            if lane is None:
                done.set_result([self.no_session(calls[i].session) for i in places])
        return submitted

    def ask(self, calls: Sequence[Call]) -> list[Result]:
        """Ask, and wait for all results."""
        results: dict[int, Result] = {}
        for places, done in self.submit(calls):
            results.update(zip(places, done.result(), strict=True))
        return [results[i] for i in range(len(calls))]

    def _lane(self, call: Call) -> _Lane | None:
        if call.do == OPENS and call.session not in self._lane_of:
            # A worker that still waits for its machine gets sessions only where there is no other.
            lane = min(self._lanes, key=lambda each: (not each.takes_sessions(), len(each.sessions)))
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
        lane.start()
        return lane

    def no_session(self, session: str) -> Failure:
        """What to say about a session that isn't there."""
        with self._lock:
            cause = self._lost.get(session)
        if cause is not None:
            return Failure("lost", cause)
        return Failure("unknown_session", f"no environment is open as session {session!r}; open one")

    def forget(self, lane: _Lane, cause: str) -> None:
        """Called by a lane whose worker died: its sessions have ended."""
        with self._lock:
            ended = sorted(lane.sessions)
            lane.sessions.clear()
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
        with self._lock:
            lane.sessions.discard(session)
            self._lane_of.pop(session, None)

    def drop(self, lane: _Lane) -> bool:
        """Called by a lane that has long been idle: whether it may end."""
        with self._lock:
            if lane.sessions or not lane.jobs.empty() or len(self._lanes) <= self.size:
                return False
            if len(self._lane_of) > self.sessions_each * (len(self._lanes) - 1):
                return False  # the others are too full; it may be waiting for its machine
            self._lanes.remove(lane)
            return True

    def close(self) -> None:
        """Carry out what has been asked, and end all workers."""
        with self._lock:
            self._closed = True
            lanes = list(self._lanes)
        for lane in lanes:
            lane.jobs.put(None)
        for lane in lanes:
            lane.join()
