"""Waiting awake where that is nobody's loss.

To be woken takes longer than to look, and finds caches cold and a virtual machine's processor given away: who is asked
again at once answers twice as many if awake. Where others compute the processor is theirs: what they took of a wait is
owed, and paid back by waits asleep.
"""

from __future__ import annotations

import os
import time

SOON = 0.001
"""Seconds for which one looks whether there is more before one sleeps, if it came that soon the last time."""
TAKEN = 0.0004
"""Seconds for which a look gives the processor away at most unless to somebody who computes: they take milliseconds.
A client takes less to read its answer and ask again, and that is what is waited for: when 0.00003 counted as taken,
a single session was mostly asleep, and played 1.3 to 1.8 times the turns of OpenEnv's server where it plays 2.2."""
WON, ASLEEP = 0.00002, 0.000002
"""Seconds of what is owed that a wait awake and a wait asleep pay back. Beside two programs that computed on two cores
five times as much (one wait of 300 awake, where it is one of 1,500 now) cost a fifth of the turns."""
CREDIT, MOST = 0.001, 0.01
"""Seconds that may be owed by who is awake, and by anybody."""


class Awake:
    """When to wait awake. One wait is `begin`, `look` until that is False or something came, `end`."""

    def __init__(self) -> None:
        self._waited = SOON
        self._owed = 0.0
        self._began, self._looked = 0.0, False

    def begin(self) -> bool:
        """Something is waited for. Whether to look for it."""
        self._began, self._looked = time.monotonic(), False
        if self._owed > CREDIT:
            self._owed -= ASLEEP
            return False
        return self._waited < SOON

    def look(self) -> bool:
        """Let others have the processor for a moment. Whether to look again."""
        before = time.monotonic()
        os.sched_yield()
        now = time.monotonic()
        self._looked = True
        if now - before > TAKEN:
            self._owed = min(self._owed + now - before, MOST)
        return self._owed <= CREDIT and now - self._began < SOON

    def end(self, *, awake: bool) -> None:
        """It came, to one who was awake or asleep."""
        self._waited = time.monotonic() - self._began
        if awake and self._looked:
            self._owed = max(self._owed - WON, 0.0)
