"""A search for words that earn without looking: statements that don't depend on the state, and what they would be paid.

Thousands are tried on some turns. Whatever is picked as the best of so many was lucky there: one in Sokoban with three
boxes seemed to earn 0.11 on 256 turns, and loses 0.13 on others. So the best are measured again on turns that had no
part in picking them, and that is what counts.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vagen_envs.seeding import HashStream
from vagen_rewards.candidates import Found, Where, statements
from vagen_rewards.rules import read
from vagen_rewards.scores import PARTS, Part
from vagen_rewards.worth.reference import STAGES, Reference, Stage, Transition
from vagen_rewards.worth.shares import Held, Known, Shares
from vagen_rewards.worth.told import held_before
from vagen_rewards.worth.weighing import Worth, on_scale, unique


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


def _found(text: str, claims: dict[Part, tuple[Any, ...]], fields: Sequence[_Field]) -> Found:
    return Found(text, {each.where: each.mean(claims[each.part]) for each in fields}, len(claims["grounding"]))


def _fields(worth: Worth, states: Reference) -> list[_Field]:
    stages = [(stage, getattr(states, stage)) for stage in STAGES]
    return [_Field(worth, stage, part, turns) for stage, turns in stages if turns for part in PARTS]


class _Column(NamedTuple):
    """A claim in a field.

    Attributes:
        truths: whether it held before, and whether it holds now, each pair that occurs, with the turns as bits.
        held: of each group, for `Shares.bet`.
    """

    truths: dict[tuple[bool | None, bool | None], int]
    held: list[Held]


class _Field:
    """A stage and a part: what a constant statement earns there on average."""

    def __init__(self, worth: Worth, stage: Stage, part: Part, transitions: Sequence[Transition]) -> None:
        self.where = (stage, part)
        self.part = part
        told: dict[tuple[int, Known], tuple[Shares, Known, list[Transition]]] = {}
        for each in transitions:
            shares = worth.shares(stage, each.before)
            known = shares.known(part, each)
            told.setdefault((id(shares), known), (shares, known, []))[2].append(each)
        self.groups = [shares for shares, _, _ in told.values()]
        self.known = [known for _, known, _ in told.values()]
        self.turns = [each for _, _, here in told.values() for each in here]
        sizes = [len(here) for _, _, here in told.values()]
        self.members = [((1 << size) - 1) << sum(sizes[:i]) for i, size in enumerate(sizes)]
        self.full = [worth.full(part, stage, each) for each in self.turns]
        own = [worth.truth(part, stage, each) for each in transitions]
        telling = [each for each in own if each.whole > 0]
        self.oracle = math.fsum(each.value for each in telling) / max(1, len(telling))
        self.telling = len(telling) / max(1, len(own))
        self._columns: dict[Any, _Column] = {}

    def mean(self, claims: Sequence[Any]) -> float:
        """The mean value of these claims over all states."""
        columns = [self._columns.get(claim) or self._column(claim) for claim in claims]
        nets = np.zeros(len(self.turns))
        for number in range(len(self.groups)):
            for turns, net in self._weighed(columns, number):
                nets[_numbers(turns, len(nets))] = net
        return math.fsum(map(on_scale, nets.tolist(), self.full)) / len(self.full)

    def _weighed(self, columns: Sequence[_Column], number: int) -> Iterator[tuple[int, float]]:
        """The nats of the turns of a group. Those in which the claims so far were equally true go together."""
        shares, known = self.groups[number], self.known[number]
        going: list[tuple[int, int, float, tuple[int, ...]]] = [(0, self.members[number], 0.0, known.given)]
        while going:
            depth, turns, net, settled = going.pop()
            if depth == len(columns):
                yield turns, net
                continue
            truths, where_held = columns[depth]
            for (held, holds), where in truths.items():
                if some := turns & where:
                    brings, left = shares.bet(where_held[number], held, holds, settled, known.blind)
                    going.append((depth + 1, some, net + brings, (*settled, left)))

    def _column(self, claim: Any) -> _Column:
        truths: dict[tuple[bool | None, bool | None], int] = {}
        for i, (before, after, _) in enumerate(self.turns):
            if self.part == "grounding":
                truth: tuple[bool | None, bool | None] = (None, claim.holds(before))
            else:
                holds = claim.holds(after)
                truth = (held_before(claim, before, holds), holds)
            truths[truth] = truths.get(truth, 0) | (1 << i)
        column = _Column(truths, [shares.held(claim, after=self.part != "grounding") for shares in self.groups])
        self._columns[claim] = column
        return column


def _numbers(bits: int, count: int) -> NDArray[np.bool_]:
    """Which of so many bits are set."""
    data = np.frombuffer(bits.to_bytes(count // 8 + 1, "little"), np.uint8)
    return np.unpackbits(data, count=count, bitorder="little").view(np.bool_)


def _claims(kind: str, text: str, part: Part) -> tuple[Any, ...]:
    return tuple(unique([claim.key for claim in read(kind, text, part).claims]))
