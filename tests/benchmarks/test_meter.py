"""How far something is: a bar in a terminal, a line now and then in a log, each with an estimate of the end."""

import io
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from vagen_benchmarks import meter
from vagen_benchmarks.commands.printing import tally
from vagen_benchmarks.meter import Meter


@pytest.fixture
def clock(monkeypatch):
    """Goes on by hand."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    made = Clock()
    monkeypatch.setattr(meter, "time", made)
    return made


def test_a_log_gets_a_line_after_five_seconds_and_then_every_twenty_with_an_estimate(clock):
    written = io.StringIO()
    with Meter("updates", 100, done=10, console=Console(file=written, width=80)) as told:
        for _ in range(60):
            clock.now += 1.0
            told.advance(note="loss 0.5")
    assert written.getvalue().splitlines() == [
        f"updates: {done} of 100, about {left} s to go; loss 0.5"
        for done, left in ((15, 85), (35, 65), (55, 45))
    ]


def test_the_end_is_estimated_from_more_than_the_first_step_of_many(clock):
    written = io.StringIO()
    console = Console(file=written, width=80)
    with Meter("episodes", 300, console=console) as many, Meter("runs", 4, console=console) as few:
        clock.now += 10.0
        many.advance()
        few.advance()
    assert written.getvalue().splitlines() == [
        "episodes: 1 of 300",
        "runs: 1 of 4, about 30 s to go",
    ]


def test_a_terminal_shows_a_bar_in_a_bar_and_what_others_print():
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100)
    with (
        Meter("trainings", 2, console=console) as outer,
        Meter("rollouts", 3, console=console) as inner,
    ):
        inner.advance(2, note="solved [5] 0.5")
        outer.advance(note="vagen-base")
        console.print("a line between")
        time.sleep(0.5)  # bars are drawn ten times a second
    shown = written.getvalue()
    for each in ("vagen-base", "1/2", "rollouts", "2/3", "solved [5] 0.5", "a line between"):
        assert each in shown


def test_what_was_solved_and_failed_is_counted():
    notes = []
    told = tally(SimpleNamespace(advance=lambda **told: notes.append(told["note"])))
    for success in (True, False):
        told(
            SimpleNamespace(
                agent="a", task="vagen/X-v0", success=success, failure=None if success else "down"
            )
        )
    assert notes == ["1 of 1 solved; a on X-v0", "1 of 2 solved, 1 failed; a on X-v0"]
