"""A search for words that earn without looking: statements that don't depend on the state, and what they would be paid.

Thousands are tried on some turns. Whatever is picked as the best of so many was lucky there: one in Sokoban with three
boxes seemed to earn 0.11 on 256 turns, and loses 0.13 on others. So the best are measured again on turns that had no
part in picking them, and that is what counts.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vagen_envs.seeding import HashStream
from vagen_rewards.candidates import Found, Where, statements
from vagen_rewards.rules import read
from vagen_rewards.scores import PARTS, Part
from vagen_rewards.worth.fields import Field
from vagen_rewards.worth.reference import STAGES, Reference
from vagen_rewards.worth.weighing import Worth, unique


@dataclass(frozen=True)
class Audit:
    """The result of a search.

    Attributes:
        best: the statements that earn most, for each stage and part, best first, on turns that didn't pick them.
        seemed: what the best seemed to earn on the turns that picked it.
        oracle: what the truth's own words earn there on average, over the turns in which they tell anything.
        telling: the share of turns in which they do.
        tries: how many statements were tried.
    """

    best: dict[Where, tuple[Found, ...]]
    seemed: dict[Where, float]
    oracle: dict[Where, float]
    telling: dict[Where, float]
    tries: int

    @property
    def most(self) -> float:
        """What the best of all statements earns."""
        return max((found[0].means[where] for where, found in self.best.items() if found), default=0.0)

    def ranked(self, count: int) -> list[Found]:
        """The best of all stages and parts together."""
        every = {found.text: found for each in self.best.values() for found in each}
        return sorted(every.values(), key=lambda found: (-found.most, found.text))[:count]


def audit(
    worth: Worth,
    states: Reference,
    others: Reference,
    tries: int = 20_000,
    keep: int = 10,
    seed: int = 0,
    told: Callable[[], None] | None = None,
) -> Audit:
    """Search for constant statements that earn.

    Args:
        worth: what statements are paid by.
        states: whose transitions they are tried on; best another draw than `worth.reference`, which it was made of.
        others: a third draw, whose transitions the best are measured on again.
        tries: how many statements.
        keep: how many of the best are returned, for each stage and part; twice as many are measured again.
        seed: of the random combinations.
        told: is called for each statement that was tried.
    """
    fields, kind = _fields(worth, states), states.reset[0].before.kind
    tried: dict[tuple[Any, ...], Found] = {}
    stream = HashStream("audit", seed)
    for text in itertools.islice(statements(states, [each.where for each in fields], tried, tries, stream), 4 * tries):
        if len(tried) >= tries:
            break
        claims = {part: _claims(kind, text, part) for part in PARTS}
        if claims["grounding"] and claims["grounding"] not in tried:
            tried[claims["grounding"]] = _found(text, claims, fields)
            if told is not None:
                told()
    again, best, seemed = _fields(worth, others), dict[Where, tuple[Found, ...]](), dict[Where, float]()
    for where in [each.where for each in again]:
        picked = heapq.nlargest(2 * keep, tried.values(), key=lambda found: found.means[where])
        seemed[where] = picked[0].means[where] if picked else 0.0
        measured = [
            _found(each.text, {part: _claims(kind, each.text, part) for part in PARTS}, again) for each in picked
        ]
        best[where] = tuple(sorted(measured, key=lambda found: -found.means[where])[:keep])
    oracle, telling = {each.where: each.oracle for each in again}, {each.where: each.telling for each in again}
    return Audit(best, seemed, oracle, telling, len(tried))


def _found(text: str, claims: dict[Part, tuple[Any, ...]], fields: Sequence[Field]) -> Found:
    return Found(text, {each.where: each.mean(claims[each.part]) for each in fields}, len(claims["grounding"]))


def _fields(worth: Worth, states: Reference) -> list[Field]:
    stages = [(stage, getattr(states, stage)) for stage in STAGES]
    return [Field(worth, stage, part, turns) for stage, turns in stages if turns for part in PARTS]


def _claims(kind: str, text: str, part: Part) -> tuple[Any, ...]:
    return tuple(unique([claim.key for claim in read(kind, text, part).claims]))
