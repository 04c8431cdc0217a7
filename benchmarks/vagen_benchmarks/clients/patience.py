"""One gate for all requests to an endpoint: held while it is down or over its limits, and probed until it answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from vagen_benchmarks.endings import Stop
from vagen_benchmarks.errors import EndpointError

LONGEST_WAIT = 60.0
"""Seconds between two probes, whatever the endpoint asks for."""
LONGEST_BACKOFF = 20.0
"""Seconds between two probes where it asks for nothing: how late a run notices that an outage is over."""
DOWN = frozenset({502, 503, 529})
"""HTTP statuses by which a whole endpoint says that it is down; others may be due to one request."""


class Gate:
    """Lets requests through while the endpoint answers.

    A fault that may be one request's own (500, a timeout, nonsense) is that request's until a second one has it, too,
    with no answer in between. Then, or at once when the endpoint can't be reached, says that it is down or says 429,
    all requests wait, and one at a time is let through as a probe, each time another, so that no request which breaks
    its server can hold up the run. An answer, a rejection too, opens the gate.

    Args:
        patience: seconds that an outage is waited for; 0 for none.
        first_wait: seconds before the first probe; it doubles, with jitter.
        told: called with words for people when the gate shuts and when it opens.
    """

    def __init__(self, patience: float, first_wait: float, told: Callable[[str], None] = lambda _: None) -> None:
        self.patience, self.first_wait, self.told = patience, first_wait, told
        self._wait = first_wait
        self._shut_until = 0.0
        self._down_since: float | None = None
        self._why: EndpointError | None = None
        self._probing = False
        self._next_probe = 0.0
        self._failing: set[object] = set()
        self._opened: asyncio.Event | None = None

    @property
    def is_down(self) -> bool:
        """Whether requests are held."""
        return self._down_since is not None

    async def enter(self) -> None:
        """Wait until a request may be made. Raises the EndpointError of the outage once patience is spent."""
        while True:
            now = time.monotonic()
            if self._down_since is None:
                if self._shut_until <= now:
                    return
                await asyncio.sleep(self._shut_until - now)
            elif now - self._down_since > self.patience:
                raise self._out_of_patience()
            elif not self._probing and now >= self._next_probe:
                self._probing = True
                return
            else:
                await self._opening(LONGEST_BACKOFF if self._probing else self._next_probe - now)

    async def _opening(self, seconds: float) -> None:
        self._opened = self._opened or asyncio.Event()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._opened.wait(), seconds)

    def good(self) -> None:
        """The endpoint has answered."""
        if self._down_since is not None:
            self.told(f"the endpoint answers again after {time.monotonic() - self._down_since:.0f} s")
        self._down_since, self._probing, self._wait = None, False, self.first_wait
        self._failing.clear()
        if self._opened is not None:
            self._opened.set()
            self._opened = None

    def bad(self, request: object, error: EndpointError) -> bool:
        """A request has failed. Returns whether that is the endpoint's doing and not counted as an attempt."""
        self._failing.add(request)
        if self.patience <= 0:
            return False
        self._why = error
        now = time.monotonic()
        down = (
            self._down_since is not None
            or error.kind in (Stop.UNREACHABLE, Stop.RATE_LIMITED)
            or error.status in DOWN
            or len(self._failing) > 1
        )
        if not down:
            return False
        if self._down_since is None:
            self._down_since = now
            self.told(f"waiting for the endpoint, {self.patience:.0f} s at most: {error}")
        asked = None if error.after is None else min(error.after, LONGEST_WAIT)
        self._next_probe = now + (self._jittered() if asked is None else asked)
        self._wait = min(2 * self._wait, LONGEST_BACKOFF)
        self._probing = False
        if self._opened is not None:  # the next one probes
            self._opened.set()
            self._opened = None
        return True

    def gone(self) -> None:
        """A request was given up without an answer; another may probe."""
        self._probing = False

    def _jittered(self) -> float:
        return self._wait * (0.5 + random.random() / 2)  # noqa: S311  (waiting, not chance in a result)

    def _out_of_patience(self) -> EndpointError:
        why = self._why
        assert why is not None
        message = f"{why} (waited {self.patience:.0f} s)"
        return EndpointError(why.kind, message, retry=False, status=why.status, hopeless=True)

    def shut(self, seconds: float) -> None:
        """Let nobody through for so long."""
        self._shut_until = max(self._shut_until, time.monotonic() + min(seconds, LONGEST_WAIT))

    def heard(self, headers: Mapping[str, str]) -> None:
        """Read a response's rate limits: OpenAI's `x-ratelimit-*` or Anthropic's `anthropic-ratelimit-*`."""
        for remaining, reset in _LIMITS:
            if headers.get(remaining) == "0":
                self.shut(_until(headers.get(reset, "")))


_LIMITS = [
    (form.format(what, "remaining"), form.format(what, "reset"))
    for form in ("x-ratelimit-{1}-{0}", "anthropic-ratelimit-{0}-{1}") for what in ("requests", "tokens")
]  # fmt: skip


def _until(reset: str) -> float:
    """Seconds from `6m0s`, `120ms`, `1.5` or an RFC 3339 time; 0 if it is none of them."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "": 1.0}
    if re.fullmatch(r"\d+(\.\d+)?|(\d+(\.\d+)?(h|ms|m|s))+", reset):
        return sum(float(value) * units[unit] for value, _, unit in re.findall(r"(\d+(\.\d+)?)(h|ms|m|s|)", reset))
    try:
        return max(0.0, (datetime.fromisoformat(reset) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
