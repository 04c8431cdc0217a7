"""A circuit breaker: holds all requests while an endpoint is down, and probes it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.stop_reasons import Stop

LONGEST_WAIT = 60.0
"""Seconds before the next request, whatever the endpoint asks for: some ask for a day."""
LONGEST_PROBE_WAIT = 15.0
"""Seconds between two probes of an outage, which is how late a run notices its end."""
FIRST_PROBE = 0.25
"""Seconds to the first probe."""
PROBE_GROWTH = 1.5
"""Factor by which the interval between probes grows. After an outage of T seconds the next
probe is at most T/2 away (at 1.5 the intervals sum up to twice the last one), and half a second of
503 costs less than one."""
POLL = 0.1
"""Seconds between two looks at whether an outage is over."""
DOWN = frozenset({502, 503, 529})
"""HTTP statuses by which a whole endpoint says that it is down; others may be due to one
request.
"""


class CircuitBreaker:
    """Holds all requests while the endpoint is down, and lets probes through at growing intervals.

    A fault that may be one request's own (500, a timeout) is that request's until a second one has
    it, too, with no answer in between. An endpoint that can't be reached or answers 502, 503 or 529
    is down at once. The first answer to a request that was made since closes the breaker. Failures
    of requests that were in flight change nothing: the schedule of probes depends on the clock
    alone, so an outage costs the same at every concurrency, and a probe that takes long (a slow
    model) doesn't hold up the next one.

    Args:
        patience: seconds that an outage is waited for; 0 for none.
        notify: called with words for people when the breaker opens and closes.
    """

    def __init__(self, patience: float, notify: Callable[[str], None] = lambda _: None) -> None:
        self.patience = patience
        self.notify = notify
        self.down_since: float | None = None
        self._next_probe = self._wait = 0.0
        self._failing: set[object] = set()
        self._why: EndpointError | None = None

    async def enter(self) -> None:
        """Wait until a request may be made. Raises the outage's error once patience is spent."""
        while self.down_since is not None:
            now = time.monotonic()
            if now > self.down_since + self.patience and self._why is not None:
                why = self._why
                message = f"{why} (waited {self.patience:.0f} s)"
                raise EndpointError(
                    why.kind, message, retry=False, status=why.status, hopeless=True
                )
            if now >= self._next_probe:
                self._schedule(now)
                return
            await asyncio.sleep(min(POLL, self._next_probe - now, self.patience))

    def _schedule(self, now: float) -> None:
        self._next_probe = now + self._wait * random.uniform(0.8, 1.0)  # noqa: S311  (waiting, not chance in a result)
        self._wait = min(self._wait * PROBE_GROWTH, LONGEST_PROBE_WAIT)

    def succeeded(self, made: float) -> None:
        """The endpoint has answered a request made at that time, a rejection too."""
        self._failing.clear()
        if self.down_since is None or made < self.down_since:
            return
        seconds = time.monotonic() - self.down_since
        self.down_since = None
        self.notify(f"the endpoint answers again after {seconds:.0f} s")

    def failed(self, request: object, error: EndpointError) -> bool:
        """Take a failure in. Returns whether the endpoint is down, so that it doesn't count as an
        attempt.
        """
        self._failing.add(request)
        if self.patience <= 0:
            return False
        now = time.monotonic()
        if self.down_since is None:
            is_down = (
                error.kind is Stop.UNREACHABLE or error.status in DOWN or len(self._failing) > 1
            )
            if not is_down:
                return False
            self.down_since = now
            self._wait = FIRST_PROBE
            self._schedule(now)
            self.notify(f"waiting for the endpoint, {self.patience:.0f} s at most: {error}")
        self._why = error
        if error.after is not None:
            self._next_probe = max(self._next_probe, now + min(error.after, LONGEST_WAIT))
        return True
