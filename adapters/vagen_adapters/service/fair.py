"""Whose turn it is in a worker, which plays one call after the other."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from vagen_adapters.service.host import MOVES, Call, Result

QUICK = 0.1
"""Seconds. A session is trusted to be quick at what it took less than this for lately."""
KEPT = 0.98
"""Of what a session's slowest call of a kind took, after each call of that kind: 10 s are forgotten after 230."""


class Job(NamedTuple):
    """A call that waits, who is told its result, and for whom it is played: those share a worker evenly."""

    call: Call
    done: Callable[[Result], None]
    flow: Hashable = ""


class FairQueue:
    """The calls that wait for a worker.

    Calls that are known to be quick and all others take turns, so a quick one waits for one costly call at most,
    however many are asked for. Among either, flows take turns. The calls of a session keep their order.
    """

    def __init__(self) -> None:
        self._quick, self._slow = _Rounds(), _Rounds()
        self._seconds: dict[str, dict[str, float]] = {}
        self._slow_is_next = False

    def __len__(self) -> int:
        return self._quick.count + self._slow.count

    def put(self, job: Job) -> None:
        """One that is new, or goes on."""
        self._rounds(job).put(job)

    def put_back(self, jobs: Iterable[Job]) -> None:
        """Those that were taken and not begun, in order: they are next of their kind."""
        for job in reversed(list(jobs)):
            self._rounds(job).put_first(job)

    def take(self, most: int) -> list[Job]:
        """What is to be played next, all quick or none."""
        rounds = self._slow if self._slow_is_next or not self._quick.count else self._quick
        self._slow_is_next = rounds is self._quick and self._slow.count > 0
        return [rounds.take() for _ in range(min(most, rounds.count))]

    def took(self, call: Call, seconds: float) -> None:
        """Take down what a call took."""
        known = self._seconds.setdefault(call.session, {})
        known[call.do] = max(seconds, KEPT * known.get(call.do, 0.0))

    def forget(self, session: str) -> None:
        """A session has ended."""
        self._seconds.pop(session, None)

    def drain(self) -> list[Job]:
        """All that wait; nothing waits any more."""
        return [rounds.take() for rounds in (self._quick, self._slow) for _ in range(rounds.count)]

    def _rounds(self, job: Job) -> _Rounds:
        known = self._seconds.get(job.call.session)
        is_quick = known is not None and job.call.do in MOVES and known.get(job.call.do, QUICK) < QUICK
        return self._quick if is_quick else self._slow


class _Rounds:
    """Jobs, one of each flow after the other."""

    def __init__(self) -> None:
        self.count = 0
        self._flows: OrderedDict[Hashable, deque[Job]] = OrderedDict()

    def put(self, job: Job) -> None:
        self.count += 1
        self._flows.setdefault(job.flow, deque()).append(job)

    def put_first(self, job: Job) -> None:
        self.count += 1
        self._flows.setdefault(job.flow, deque()).appendleft(job)
        self._flows.move_to_end(job.flow, last=False)

    def take(self) -> Job:
        self.count -= 1
        flow, jobs = self._flows.popitem(last=False)
        job = jobs.popleft()
        if jobs:
            self._flows[flow] = jobs
        return job
