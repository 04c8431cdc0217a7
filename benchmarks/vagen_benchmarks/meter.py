"""How far something is and when it will end, for all that takes longer than a few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")

FIRST_AFTER = 5.0
"""Seconds after which something is worth a line where nobody watches a bar."""
TOLD_EVERY = 20.0
"""Seconds between two such lines: a log stays short, and still moves."""
FIRST_STEPS = 3
"""Steps, or a tenth of all, before the end is estimated: the first one's time is mostly that of the
start.
"""

# One console, so that bars can stand in bars.
_CONSOLE = Console(stderr=True, markup=False, emoji=False, highlight=False)


class Meter:
    """A bar in a terminal, a line now and then in a log; both with an estimate of the end. Both go
    to stderr.
    """

    def __init__(
        self, what: str, total: int, *, done: int = 0, console: Console | None = None
    ) -> None:
        """Start at `done` of `total` steps of `what`; earlier steps don't count for the remaining
        time.
        """
        self._console = console or _CONSOLE
        text = [
            TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[note]")
        ]
        columns = (text[0], BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), text[1])
        self._bar = Progress(
            *columns,
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
            # Episodes end in bursts. Over rich's 30 s the time to go jumps between minutes and
            # hours.
            speed_estimate_period=86400.0,
        )
        self._bar.add_task(what, total=total, completed=done, note="")
        self._before = done
        self._began = time.monotonic()
        self._next = self._began + FIRST_AFTER

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Advance the meter by a number of steps, and show `note` behind it."""
        task = self._bar.tasks[0]
        at = time.monotonic()
        self._bar.update(task.id, advance=steps, note=note)
        done = int(task.completed)
        if self._console.is_terminal or at < self._next or done == self._before:
            return
        self._next = at + TOLD_EVERY
        total = int(task.total or 0)
        mine = done - self._before
        words = f"{task.description}: {done} of {total}"
        if mine >= min(FIRST_STEPS, total / 10):
            words += f", about {spoken((total - done) / mine * (at - self._began))} to go"
        self._console.print("; ".join(filter(None, (words, note))), soft_wrap=True)

    def over(self, entries: Iterable[T]) -> Iterator[T]:
        """The entries, each a step once it has been used."""
        for entry in entries:
            yield entry
            self.advance()


LONGEST_SPOKEN = 100 * 365 * 86400
"""Seconds."""


def spoken(seconds: float) -> str:
    """Such as `45 s`, `12 min` or `3.5 h`."""
    if seconds > LONGEST_SPOKEN:
        return "for ever"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.0f} days"
