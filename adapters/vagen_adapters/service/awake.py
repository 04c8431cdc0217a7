"""Waiting awake where that is nobody's loss.

To be woken takes longer than to look, and finds caches cold and a virtual machine's processor given away: who is asked
again at once answers half as many again if awake. Where others want the processor it is theirs, and is for a while,
each time longer.
"""

from __future__ import annotations

import os
import time

SOON = 0.001
"""Seconds for which one looks whether there is more before one sleeps, if it came that soon the last time."""
TAKEN, LOST = 0.00003, 0.001
"""Seconds for which a look gives the processor away at most unless somebody else wants it, and unless they compute."""
FEWEST, SOME, MOST = 2, 64, 4096
"""Waits in which one doesn't look where somebody else wanted the processor, and where they compute: twice as many each
time. Who computes takes it for milliseconds, so that is forgotten slowly: a look that finds something wins a tenth."""
FORGOTTEN = 16
"""A part of what is known of those who compute, for each such look."""


class Awake:
    """When to wait awake. One wait is `begin`, `look` until that is False or something came, `end`."""

    def __init__(self) -> None:
        self._waited = SOON
        self._asleep, self._wanted, self._lost = 0, FEWEST, SOME
        self._began, self._looked = 0.0, False

    def begin(self) -> bool:
        """Something is waited for. Whether to look for it."""
        self._began, self._looked = time.monotonic(), False
        if self._asleep:
            self._asleep -= 1
            return False
        return self._waited < SOON

    def look(self) -> bool:
        """Let others have the processor for a moment. Whether to look again."""
        before = time.monotonic()
        os.sched_yield()
        now = time.monotonic()
        self._looked = True
        if now - before > LOST:
            self._asleep, self._lost = self._lost, min(2 * self._lost, MOST)
            return False
        if now - before > TAKEN:
            self._asleep, self._wanted = self._wanted, min(2 * self._wanted, MOST)
            return False
        return now - self._began < SOON

    def end(self, *, awake: bool) -> None:
        """It came, to one who was awake or asleep."""
        self._waited = time.monotonic() - self._began
        if awake and self._looked:
            self._wanted = max(self._wanted // 2, FEWEST)
            self._lost = max(self._lost - self._lost // FORGOTTEN, SOME)
