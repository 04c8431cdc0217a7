"""What a comparison finds, and the table of comparisons by kind of state."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from vagen_envs.core import State
from vagen_rewards.rules.readings import BUILT_IN, read, reader_for
from vagen_rewards.scores import Part, Span


@dataclass(slots=True)
class Marks:
    """How a text holds against a state.

    Attributes:
        right: claims that are true.
        wrong: claims that are false, contradict one another, or are hedged.
        found: of the facts a full description has, how many the text states.
        wanted: how many facts a full description has.
        essential: whether the text truly says what it must (the goal, in FrozenLake and Navigation).
        unread: pieces of the text that weren't understood.
        matters: whether one of them speaks of things and their places; `"direct"` doesn't accept the rest then.
        notes: the wrong claims in words, a few of them.
        parts: found and wanted, for each pair of kinds that was asked for.
    """

    right: int = 0
    wrong: int = 0
    found: int = 0
    wanted: int = 0
    essential: bool = True
    unread: tuple[Span, ...] = ()
    matters: bool = False
    notes: tuple[str, ...] = ()
    parts: tuple[tuple[int, int], ...] = ()

    @property
    def f1(self) -> float:
        """Harmonic mean of the share of claims that are right and the share of facts that are stated."""
        if not self.right or not self.wanted:
            return 0.0
        precision = self.right / (self.right + self.wrong)
        recall = self.found / self.wanted
        return 2 * precision * recall / (precision + recall)

    def fault(self, note: str, count: int = 1) -> None:
        """Count wrong claims, and note the first few in words."""
        self.wrong += count
        self.note(note)

    def note(self, note: str) -> None:
        """Keep the first few."""
        if len(self.notes) < 4:
            self.notes += (note,)


Comparison = Callable[[State, str, Part], Marks]

_COMPARISONS: dict[str, Comparison] = {}


def register_comparison(kind: str, comparison: Comparison) -> None:
    """Teach `RuleJudge` what a full description of another kind of state has, or replace how it compares a known one.

    Where only `register_reader` was called, each claim counts alone, and what is true is a full description.
    """
    _COMPARISONS[kind] = comparison


def comparison_for(kind: str) -> Comparison:
    """The comparison for a kind of state. Raises JudgeConfigError for an unknown one."""
    comparison = _COMPARISONS.get(kind)
    if comparison is None:
        if kind in BUILT_IN:
            comparison = importlib.import_module(f"vagen_rewards.rules.{kind}").compare
        else:
            reader_for(kind)
            comparison = compare_claims
        _COMPARISONS[kind] = comparison
    return comparison


def compare_claims(state: State, text: str, part: Part) -> Marks:
    """Each claim alone."""
    reading = read(state.kind, text, part)
    marks = Marks(unread=reading.unread, matters=bool(reading.matters))
    for claim in reading.claims:
        holds = claim.holds(state)
        if holds:
            marks.right += 1
        elif holds is not None:
            marks.fault(text[slice(*claim.span)].strip())
    marks.found = marks.wanted = marks.right
    return marks
