"""The states before and after a turn, the questions that it owes an answer to, and how right an
answer is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vagen_envs.core import State
from vagen_rewards.owed import Question, owed
from vagen_rewards.reader import Fact
from vagen_rewards.reader.claims import Part


class Step(NamedTuple):
    """The states before and after a turn's actions."""

    before: State
    after: State


def owed_by(part: Part, step: Step) -> dict[Question, Fact]:
    """The questions that a turn owes an answer to: of a prediction those whose answers have
    changed.
    """
    if part == "grounding":
        return owed(step.before, part)
    return {
        question: fact
        for question, fact in owed(step.after, part).items()
        if not fact.holds(step.before)
    }


def value_of(part: Part, facts: Sequence[Fact], step: Step) -> float | None:
    """How right the answers to one question are in a state: 1, -1, or 0 if it doesn't say. `None`
    for what was true before a turn and still is.
    """
    if part == "grounding":
        return combined([fact.holds(step.before) for fact in facts])
    value = combined([fact.holds(step.after) for fact in facts])
    return None if value > 0 and were_true(facts, step) else value


def combined(verdicts: Sequence[bool | None]) -> float:
    """Several answers to one question are as right as the worst."""
    if False in verdicts:
        return -1.0
    return float(True in verdicts)


def were_true(facts: Sequence[Fact], step: Step) -> bool:
    """Whether these answers were true before the turn."""
    return all(fact.holds(step.before) for fact in facts)
