"""A pool of workers that hold environments: one interface, whether they are processes here or actors elsewhere.

Each session lives in one worker, and each worker has a thread that sends it what has been asked meanwhile
in one message. A worker that dies is replaced, and its sessions have ended here, with the cause: whoever plays
has what is needed to open them again (see `journal`).
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from vagen_adapters.service.host import OPENS, Call, Failure, Result
from vagen_adapters.service.lanes import Host, Job, Lane

log = logging.getLogger(__name__)

REMEMBERED = 10_000
"""Ended sessions whose cause is remembered."""


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
        self.loop: Any = None
        """The event loop in whose thread all calls are submitted; None where they come from any thread."""
        self._lock = threading.Lock()
        self._lane_of: dict[str, Lane] = {}
        self._lost: OrderedDict[str, str] = OrderedDict()
        self._lanes: list[Lane] = []
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
    def waiting(self) -> int:
        """Requests that no worker has begun with, about."""
        with self._lock:
            return sum(lane.waiting for lane in self._lanes)

    def submit(self, calls: Sequence[Call]) -> list[tuple[list[int], Future[list[Result]]]]:
        """Ask, without waiting: for each worker the places of its calls in `calls`, and its results to come."""
        groups: dict[int, tuple[Lane | None, list[int]]] = {}
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
                    lane.put(Job([calls[i] for i in places], done))
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

    def _lane(self, call: Call) -> Lane | None:
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

    def _add(self, *, needed: bool) -> Lane:
        lane = Lane(self, needed=needed)
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

    def forget(self, lane: Lane, cause: str) -> None:
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

    def release(self, lane: Lane, session: str) -> None:
        """Called by a lane whose session was closed, or never came to be."""
        with self._lock:
            lane.sessions.discard(session)
            self._lane_of.pop(session, None)

    def drop(self, lane: Lane) -> bool:
        """Called by a lane that has long been idle: whether it may end."""
        with self._lock:
            if lane.sessions or lane.is_busy() or len(self._lanes) <= self.size:
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
