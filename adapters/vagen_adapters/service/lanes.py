"""A worker of a pool and the calls that wait for it.

Calls come to a worker in one of two ways. Its lane's thread asks it, and waits. Or, where a server's event loop submits
them and the worker can be asked without waiting, the loop itself does (a flight), which spares two changes of threads
for each turn. Only one of the two is at it at a time, and calls keep their order.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vagen_adapters.service.host import OPENS, TOO_COSTLY, Call, Failure, Result
from vagen_envs.workers import WorkerDied

if TYPE_CHECKING:
    from vagen_adapters.service.pool import Pool

log = logging.getLogger(__name__)

MOST_CALLS = 64
"""In one message to a worker. The first of them waits for the last."""
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

    def do(self, calls: Sequence[Call]) -> list[Result]:
        """Carry calls out. Raises WorkerDied."""

    def begin(self, calls: Sequence[Call]) -> int | None:
        """Ask and don't wait; the file that can be read when `finish` has an answer. None where it can't be so."""

    def has_answered(self) -> bool:
        """Whether there is something for `finish`, be it the worker's end: an event loop may tell of it twice."""

    def finish(self) -> list[Result]:
        """The results of the first of the calls that were begun, at least one. Raises WorkerDied."""

    def give_up(self, seconds: float) -> None:
        """Told how long an answer has been waited for: kill the worker if that is too long."""

    def is_ready(self) -> bool:
        """Whether it can begin with calls at once, or soon."""

    def cause_of_death(self) -> str:
        """Why the worker is gone, empty while it lives. Called while it is idle."""

    def close(self) -> None:
        """End the worker."""


class _NoHost:
    """Stands where a worker could not be started. Each use of it leads to another try."""

    where = "nowhere"

    def __init__(self, cause: str) -> None:
        self._cause = cause

    def do(self, calls: Sequence[Call]) -> list[Result]:
        raise WorkerDied(self._cause, during=False)

    def begin(self, calls: Sequence[Call]) -> int | None:
        return None

    def finish(self) -> list[Result]:
        raise WorkerDied(self._cause, during=False)

    def has_answered(self) -> bool:
        return True

    def give_up(self, seconds: float) -> None:
        """Nothing was begun."""

    def is_ready(self) -> bool:
        return False

    def cause_of_death(self) -> str:
        return self._cause

    def close(self) -> None:
        """Nothing is there."""


class Job(NamedTuple):
    """Calls that were submitted together.

    Attributes:
        calls: for one worker.
        done: their results to come.
        lost: the worker that died while it was at them.
    """

    calls: list[Call]
    done: Future[list[Result]]
    lost: Host | None = None


class _Flight(NamedTuple):
    """What the event loop has asked a worker, what has come of it, and when it began."""

    jobs: list[Job]
    here: list[Call]
    results: list[Result]
    began: float


class Lane(threading.Thread):
    """A worker and the calls that wait for it."""

    def __init__(self, pool: Pool, *, needed: bool) -> None:
        super().__init__(name="environment-worker", daemon=True)
        self._starting_until = time.monotonic() + STARTING if needed else 0.0
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.sessions: set[str] = set()
        self.host: Host = pool.start_host()
        self._first_until = self._starting_until
        self.lives = needed
        """Whether the worker could play, as far as is known. The first one is believed to start, another must have."""
        self._pool = pool
        self._idle = 0.0
        self._handed = self._settled = 0  # jobs that the thread was given, and that it is done with
        self._flight: _Flight | None = None
        self._next: list[Job] = []  # what the loop asks when the flight is over

    def takes_sessions(self) -> bool:
        """Whether sessions that are opened here won't wait for long."""
        return time.monotonic() < self._starting_until or self.host.is_ready()

    @property
    def waiting(self) -> int:
        """Jobs that nobody has begun with."""
        return self.jobs.qsize() + len(self._next)

    def is_busy(self) -> bool:
        """Whether there is something to do or to wait for."""
        return self._flight is not None or self._handed != self._settled

    def put(self, job: Job) -> None:
        """Have it done, in order."""
        self._idle = 0.0
        if self._flight is not None:
            self._next.append(job)
        elif self._pool.loop is None or self._handed != self._settled or not self._take_off([job]):
            self._hand_over([job])

    def _hand_over(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._handed += 1
            self.jobs.put(job)

    # -- in the event loop -----------------------------------------------------------------------------

    def _take_off(self, jobs: list[Job]) -> bool:
        """Ask without waiting, if that can be."""
        here = [call for job in jobs for call in job.calls if call.session in self.sessions]
        ready = self.host.begin(here) if here else None
        if ready is None:
            return False
        self._flight = _Flight(jobs, here, [], time.monotonic())
        self._pool.loop.add_reader(ready, self._land, ready, self._flight)
        return True

    def _land(self, ready: int, flight: _Flight) -> None:
        """An answer is there, or the worker is gone."""
        if flight is not self._flight or not self.host.has_answered():  # told of what was read already
            return
        try:
            flight.results.extend(self.host.finish())
        except WorkerDied:
            self._over(ready)
            # The thread finds out why, has the worker replaced, and says so to whoever waits.
            self._hand_over([job._replace(lost=self.host) for job in flight.jobs])
            self._go_on()
            return
        left = flight.here[len(flight.results) :]
        if left:  # the worker has answered what it could within its time
            if self.host.begin(left) is None:
                self._over(ready)
                self._hand_over([job._replace(lost=self.host) for job in flight.jobs])
                self._go_on()
            else:  # each answer has its time
                self._flight = flight._replace(began=time.monotonic())
                self._pool.loop.add_reader(ready, self._land, ready, self._flight)
            return
        self._over(ready)
        self.lives = True
        self._settle(flight.jobs, flight.here, flight.results)
        self._go_on()

    def _over(self, ready: int) -> None:
        self._pool.loop.remove_reader(ready)
        self._flight = None

    def _go_on(self) -> None:
        """Ask what was submitted meanwhile, as much as goes into one message."""
        if not self._next or self._flight is not None:
            return
        count = size = 0
        while count < len(self._next) and size < MOST_CALLS:
            size += len(self._next[count].calls)
            count += 1
        jobs, self._next = self._next[:count], self._next[count:]
        if self._handed != self._settled or not self._take_off(jobs):
            self._hand_over([*jobs, *self._next])
            self._next = []

    # -- in the thread ---------------------------------------------------------------------------------

    def run(self) -> None:
        while True:
            wait = LOOK_EVERY if self.lives else LOOK_AT_START
            try:
                job = self.jobs.get(timeout=wait)
            except queue.Empty:
                if self._watch(wait):
                    break
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
            self._do(jobs)
            self._settled += len(jobs)
        self.host.close()

    def _watch(self, waited: float) -> bool:
        """While there is nothing to do: whether the lane may end."""
        flight = self._flight
        if flight is not None:
            self.host.give_up(time.monotonic() - flight.began)
            return False
        if self._is_spare(waited):
            return True
        self._look()
        return False

    def _do(self, jobs: Sequence[Job]) -> None:
        if any(job.lost is self.host for job in jobs):
            self._replace(self.host.cause_of_death() or f"worker {self.host.where} is gone")
        here = [call for job in jobs for call in job.calls if call.session in self.sessions]
        results: list[Result] = []
        try:
            if here:
                results = self.host.do(here)
                self.lives = True
        except WorkerDied as death:
            self._replace(str(death))
        except Exception as error:
            log.exception("worker %s can't be asked", self.host.where)
            self._replace(f"worker {self.host.where} can't be asked: {type(error).__name__}: {error}")
        self._settle(jobs, here, results)

    def _settle(self, jobs: Sequence[Job], here: Sequence[Call], results: Sequence[Result]) -> None:
        """Tell whoever waits: the results, or that the worker died."""
        done = dict(zip(map(id, here), results, strict=False))
        for call in here:
            result = done.get(id(call))
            failed = isinstance(result, Failure) and (call.do == OPENS or result.code == TOO_COSTLY)
            if call.do == "close" or failed:
                self._pool.release(self, call.session)
        for job in jobs:
            job.done.set_result([done.get(id(call)) or self._pool.no_session(call.session) for call in job.calls])

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
