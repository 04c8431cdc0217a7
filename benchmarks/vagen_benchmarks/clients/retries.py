"""Retries against one endpoint: a circuit breaker for outages, a pace for rate limits, attempts for
everything else.

All requests of an agent share one `Retries`. tenacity repeats a request; what it waits for is
decided here.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import tenacity

from vagen_benchmarks.clients.circuit_breaker import LONGEST_WAIT, CircuitBreaker
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.meter import spoken
from vagen_benchmarks.stop_reasons import Stop

T = TypeVar("T")

LONGEST_BACKOFF = 20.0
"""Seconds between the attempts of one request."""
FIRST_FAULTS = {Stop.UNREACHABLE: 5, Stop.NONSENSE: 5, Stop.PROXY: 3, Stop.REJECTED: 3}
"""Faults in a row after which an endpoint that has never answered is given up: most likely its
address is wrong.
"""
OTHER_FIRST_FAULTS = 10
"""The same for 5xx and timeouts: a server that loads its model answers so, for half a minute of
probes.
"""
SHORTEST_SHOWN = 2.0
"""Seconds of a wait that is shown."""
SHOWN_EVERY = 10.0
"""Seconds between two such messages: hundreds of requests may wait at once."""
REFUSALS = 3
"""Requests for one reply that is refused with what may pass, such as a gateway's 404."""


class Pace:
    """Spaces requests out once an endpoint has refused some as too many (HTTP 429).

    The rate is unlimited until the first refusal, which sets it to the rate of answers so far. Each
    refusal of a request made since the last cut lowers it, each answer raises it: faster while it
    is below the last rate that was refused. `Retry-After` holds the refused request, and everybody
    where nothing was answered in between.
    """

    CUT, RISE, CLIMB = 0.9, 1.02, 1.15
    """Factors of the rate for a refusal, and for an answer near and below the ceiling: at ten
    answers a second the rate is cut once in a second or two, and stays within a tenth of the
    limit."""
    SLOWEST = 0.05
    """Requests a second."""

    def __init__(self) -> None:
        self._rate = self._ceiling = math.inf
        self._last = self._cut_at = self._shut_until = 0.0
        self._answered: deque[float] = deque(maxlen=256)
        self._refused_last = False
        self._head = asyncio.Lock()

    async def enter(self) -> None:
        """Wait for a place in the queue, whose head alone keeps an eye on the rate as it
        changes.
        """
        if self._rate == math.inf and self._shut_until <= time.monotonic():
            return
        async with self._head:
            while (
                left := max(self._last + 1 / self._rate, self._shut_until) - time.monotonic()
            ) > 0:
                await asyncio.sleep(min(left, 0.5))
            self._last = time.monotonic()

    def rebind(self) -> None:
        self._head = asyncio.Lock()

    def answered(self) -> None:
        self._answered.append(time.monotonic())
        self._refused_last = False
        self._rate *= self.RISE if self._rate > self._ceiling * self.CUT**2 else self.CLIMB

    def refused(self, made: float, asked: float) -> float:
        """A request made at that time was refused, for so many seconds. Returns those that it has
        to wait itself.
        """
        now = time.monotonic()
        if self._refused_last:
            self.shut(asked)
        elif self._rate < math.inf:
            self._ceiling = self._rate
        self._refused_last = True
        if made >= self._cut_at:
            self._cut_at = now
            self._rate = max(self.SLOWEST, min(self._rate, self._rate_of_answers(now)) * self.CUT)
        return asked

    def _rate_of_answers(self, now: float) -> float:
        """Answers in the last second, at the first refusal; later the rate itself is the better
        estimate.
        """
        if self._rate < math.inf:
            return self._rate
        return max(1.0, float(sum(now - at < 1.0 for at in self._answered)))

    def shut(self, seconds: float) -> None:
        """Let nobody through for so long."""
        self._shut_until = max(self._shut_until, time.monotonic() + min(seconds, LONGEST_WAIT))


@dataclass(eq=False)
class _Request:
    """A request and its repeats: how often it was made, how many of these count, when the last one
    was made.
    """

    made: int = 0
    counted: int = 0
    refused: int = 0
    at: float = 0.0
    pause: float = 0.0
    waiting_since: float = field(default_factory=time.monotonic)


class Retries:
    """Makes requests to an endpoint until they are answered or hopeless.

    Args:
        attempts: requests for one reply before it fails; outages and rate limits don't count.
        first_wait: seconds before the second attempt; it doubles, with jitter.
        patience: seconds that an outage or a rate limit is waited for.
    """

    def __init__(
        self, attempts: int = 6, first_wait: float = 1.0, patience: float = 3600.0
    ) -> None:
        self.attempts = attempts
        self.first_wait = first_wait
        self.patience = patience
        self.breaker = CircuitBreaker(patience)
        self.pace = Pace()
        self.has_answered = False
        self._first_faults = 0
        self._last_fault = self._tell_next = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def call(self, ask: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        """The answer, and how many requests it took.

        Raises:
            EndpointError: there is none to be had; `hopeless` where that holds for every request.
        """
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._loop = loop
            self.pace.rebind()
        request = _Request()
        repeat = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, EndpointError) and error.retry
            ),
            wait=lambda _: request.pause,
            stop=tenacity.stop_never,
        )
        answer: T = await repeat(self._once, request, ask)
        return answer, request.made

    async def _once(self, request: _Request, ask: Callable[[], Awaitable[T]]) -> T:
        await self.breaker.enter()
        await self.pace.enter()
        request.made += 1
        request.at = time.monotonic()
        try:
            answer = await ask()
        except EndpointError as error:
            raise self._judged(request, error) from error.__cause__
        self.breaker.succeeded(request.at)
        self.pace.answered()
        self.has_answered = True
        return answer

    def _judged(self, request: _Request, error: EndpointError) -> EndpointError:
        """The error with what follows from it: `retry`, `hopeless`, and the pause before the next
        attempt.
        """
        if error.kind is Stop.SPENT:
            return error
        if error.retry and (error.after or 0.0) > max(self.patience, LONGEST_WAIT):
            patience = f"--patience is {self.patience:.0f} s"
            error.args = (f"{error} (it asks to wait {spoken(error.after or 0.0)}; {patience})",)
            error.retry = False
            error.hopeless = True
            return error
        if (
            not self.has_answered
            and error.kind is not Stop.RATE_LIMITED
            and self._is_wrong(request, error)
        ):
            error.retry = False
            error.hopeless = True
            return error
        if not error.retry:
            self.breaker.succeeded(request.at)
            return error
        if error.kind is Stop.RATE_LIMITED and self.patience > 0:
            self.breaker.succeeded(request.at)
            left = request.waiting_since + self.patience - time.monotonic()
            request.pause = self.pace.refused(
                request.at, min(error.after or 0.0, LONGEST_WAIT, max(0.0, left))
            )
            error.retry = left > 0
            error.hopeless = left <= 0
            self._tell(request, error)
            return error
        if error.kind in (Stop.REJECTED, Stop.PROXY):
            self.breaker.succeeded(request.at)
            request.refused += 1
        elif self.breaker.failed(request, error):
            request.pause = 0.0  # the breaker waits
            return error
        request.counted += 1
        backoff = min(self.first_wait * 2 ** (request.counted - 1), LONGEST_BACKOFF)
        jittered = backoff * random.uniform(0.5, 1.0)  # noqa: S311  (parts those that were refused together)
        request.pause = jittered if error.after is None else min(error.after, LONGEST_WAIT)
        error.retry = request.counted < self.attempts and request.refused < REFUSALS
        if error.retry:
            self._tell(request, error)
        return error

    def _tell(self, request: _Request, error: EndpointError) -> None:
        """Show a wait that is long enough to be noticed, one in a while."""
        now = time.monotonic()
        if request.pause >= SHORTEST_SHOWN and now >= self._tell_next:
            self._tell_next = now + SHOWN_EVERY
            self.breaker.notify(f"waiting {request.pause:.0f} s before the next attempt: {error}")

    def _is_wrong(self, request: _Request, error: EndpointError) -> bool:
        """Whether an endpoint that has never answered has failed often enough. Faults at the same
        time are one.
        """
        if not error.retry:  # a 400 may be this request's own
            return error.kind in (Stop.REJECTED, Stop.PROXY) and error.status not in (400, 422)
        if request.at >= self._last_fault:
            self._first_faults += 1
            self._last_fault = time.monotonic()
        return self._first_faults >= FIRST_FAULTS.get(error.kind, OTHER_FIRST_FAULTS)
