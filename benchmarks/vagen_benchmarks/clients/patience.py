"""One gate for all requests to an endpoint: held while it is down or over its limits, and probed until it answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from vagen_benchmarks.clients.board import GateState
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.stop_reasons import Stop

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
    its server can hold up the run. An answer, a rejection too, opens the gate, unless its request was made before the
    gate shut: those in flight say what the endpoint was like.

    Args:
        patience: seconds that an outage is waited for; 0 for none.
        first_wait: seconds before the first probe; it doubles, with jitter.
        told: called with words for people when the gate shuts and when it opens.
    """

    def __init__(self, patience: float, first_wait: float, told: Callable[[str], None] = lambda _: None) -> None:
        self.patience, self.first_wait, self.told = patience, first_wait, told
        self._state = GateState()
        self._failing: set[object] = set()
        self._opened: asyncio.Event | None = None

    def share(self, state: GateState) -> None:
        """Have the same state as the gates of other processes."""
        self._state = state

    @property
    def is_down(self) -> bool:
        """Whether requests are held."""
        return self._state.down_since > 0

    async def enter(self) -> float:
        """Wait until a request may be made; returns when. Raises the outage's error once patience is spent."""
        while (seconds := self._seconds_to_wait()) > 0:
            self._opened = self._opened or asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._opened.wait(), min(seconds, self._state.look))
        return time.monotonic()

    def _seconds_to_wait(self) -> float:
        """Until another look; 0 if a request may be made now, if only as a probe."""
        state, now = self._state, time.monotonic()
        if not state.down_since:
            return max(0.0, state.shut_until - now)
        with state.locked():
            if not state.down_since:
                return 0.0
            if now - state.down_since > self.patience:
                raise self._out_of_patience()
            left = state.down_since + self.patience - now + 0.01  # it isn't outwaited, whatever an endpoint asks for
            if state.prober:
                return min(LONGEST_BACKOFF, left)
            if now >= state.next_probe:
                state.prober = state.me
                return 0.0
            return min(state.next_probe - now, left)

    def good(self, made: float) -> None:
        """The endpoint has answered a request made at that time."""
        self._failing.clear()
        state = self._state
        if state.down_since:
            with state.locked():
                if made < state.down_since:
                    return
                since, state.down_since = state.down_since, 0.0
                state.prober = state.wait = 0.0
            if since:
                self.told(f"the endpoint answers again after {time.monotonic() - since:.0f} s")
        self._wake()

    def bad(self, request: object, error: EndpointError) -> bool:
        """A request has failed. Returns whether that is the endpoint's doing and not counted as an attempt."""
        self._failing.add(request)
        if self.patience <= 0:
            return False
        state = self._state
        down = (
            state.down_since > 0
            or error.kind in (Stop.UNREACHABLE, Stop.RATE_LIMITED)
            or error.status in DOWN
            or len(self._failing) > 1
        )
        if not down:
            return False
        with state.locked():
            now = time.monotonic()
            is_news = not state.down_since
            if is_news:
                state.down_since = now
            state.why = (error.kind.value, error.status, str(error))
            wait = state.wait or self.first_wait
            # One that says "at once" (0, or a date that is past) is asked again no sooner than at first.
            asked = None if error.after is None else max(min(error.after, LONGEST_WAIT), self.first_wait / 2)
            state.next_probe = now + (_jittered(wait) if asked is None else asked)
            state.wait = min(2 * wait, LONGEST_BACKOFF)
            state.prober = 0.0
        if is_news:
            self.told(f"waiting for the endpoint, {self.patience:.0f} s at most: {error}")
        self._wake()  # the next one probes
        return True

    def gone(self) -> None:
        """A request was given up without an answer; another may probe."""
        if self._state.prober == self._state.me:
            self._state.prober = 0.0

    def _wake(self) -> None:
        if self._opened is not None:
            self._opened.set()
            self._opened = None

    def _out_of_patience(self) -> EndpointError:
        kind, status, words = self._state.why
        message = f"{words} (waited {self.patience:.0f} s)"
        return EndpointError(Stop(kind), message, retry=False, status=status, hopeless=True)

    def shut(self, seconds: float) -> None:
        """Let nobody through for so long."""
        until = time.monotonic() + min(seconds, LONGEST_WAIT)
        self._state.shut_until = max(self._state.shut_until, until)

    def heard(self, headers: Mapping[str, str]) -> None:
        """Read a response's rate limits: OpenAI's `x-ratelimit-*` or Anthropic's `anthropic-ratelimit-*`."""
        for remaining, reset in _LIMITS:
            if headers.get(remaining) == "0":
                self.shut(_until(headers.get(reset, "")))


_LIMITS = [
    (form.format(what, "remaining"), form.format(what, "reset"))
    for form in ("x-ratelimit-{1}-{0}", "anthropic-ratelimit-{0}-{1}") for what in ("requests", "tokens")
]  # fmt: skip


def _jittered(wait: float) -> float:
    return wait * (0.5 + random.random() / 2)  # noqa: S311  (waiting, not chance in a result)


def _until(reset: str) -> float:
    """Seconds from `6m0s`, `120ms`, `1.5` or an RFC 3339 time; 0 if it is none of them."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "": 1.0}
    if re.fullmatch(r"\d+(\.\d+)?|(\d+(\.\d+)?(h|ms|m|s))+", reset):
        return sum(float(value) * units[unit] for value, _, unit in re.findall(r"(\d+(\.\d+)?)(h|ms|m|s|)", reset))
    try:
        return max(0.0, (datetime.fromisoformat(reset) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
