"""What of the claims about a board is right, wrong and stated, once it is known which thing each word means."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Protocol

from vagen_envs.grid import Position
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.places import Things
from vagen_rewards.rules.relations import Absence, Mention, Relation

MAX_MATCHED = 64
"""Names of holes that are told apart."""


class Sided(Protocol):
    """What speaks of a side on either axis; `None` where it doesn't."""

    @property
    def vertical(self) -> int | None: ...

    @property
    def horizontal(self) -> int | None: ...


def fits(said: Sided, sides: tuple[int, int]) -> bool:
    """Whether a thing that stands so is at the side that is spoken of."""
    return said.vertical in (None, sides[0]) and said.horizontal in (None, sides[1])


def is_plainly(denied: Sided, sides: tuple[int, int]) -> bool:
    """Whether a thing is where it is said not to be; what is above and aside one may also call not above."""
    aside = sides[0] if denied.vertical is None else sides[1] if denied.horizontal is None else 0
    return fits(denied, sides) and (aside == 0 or denied.vertical == denied.horizontal)


def mark(
    things: Things,
    claims: Sequence[Relation],
    places: Mapping[Mention, tuple[int, ...]],
    wanted: Sequence[tuple[str, str]],
) -> Marks:
    """Count what is right, wrong and stated under one assignment.

    A fact is a side on one axis. "Above" states one of the two facts of things that stand diagonally.
    Being in the same row needn't be said, so that "left of" is a full description; said, it counts.
    """
    marks = Marks()
    # for each pair of things the sides that are said as bits, vertical and horizontal, and the true ones
    stated: dict[tuple[str, int, str, int], tuple[list[int], tuple[int, int]]] = {}
    for claim in claims:
        subject, other, vertical, horizontal, negated, hedged = claim
        weight = (vertical is not None) + (horizontal is not None)
        if hedged:
            marks.fault(f"{_say(claim)} is hedged", weight)
            continue
        for i in places[subject]:
            for j in places[other]:
                if i < 0 or j < 0:
                    marks.fault(f"{_say(claim)}: there are not so many", weight)
                    continue
                key = (subject.kind, i, other.kind, j)
                if key[:2] == key[2:]:
                    continue
                pair = stated.get(key)
                if pair is None:
                    pair = ([0, 0], sides_of(things[subject.kind][i], things[other.kind][j]))
                said, truth = pair
                if negated:
                    if is_plainly(claim, truth):
                        marks.fault(f"not {_say(claim)}")
                    continue
                stated[key] = pair
                if vertical is not None:
                    said[0] |= 1 << (vertical + 1)
                if horizontal is not None:
                    said[1] |= 1 << (horizontal + 1)
                if vertical not in (None, truth[0]) or horizontal not in (None, truth[1]):
                    marks.note(_say(claim))
    counts = {pair: [0, facts(things[pair[0]], things[pair[1]])] for pair in wanted}
    for (kind, _, other_kind, _), (said, truth) in stated.items():
        count = counts.get((kind, other_kind))
        for sides, side in zip(said, truth, strict=True):
            if sides == 1 << (side + 1):
                marks.right += 1
                if count is not None:
                    count[0] += 1
                    count[1] += side == 0 and truth != (0, 0)
            else:
                marks.wrong += sides.bit_count()  # of sides that exclude one another none counts
    for found, sought in counts.values():
        marks.found += found
        marks.wanted += sought
    marks.parts = tuple([(found, sought) for found, sought in counts.values()])
    return marks


@functools.lru_cache(maxsize=8192)
def facts(subjects: tuple[Position, ...], others: tuple[Position, ...]) -> int:
    """How many facts a full description of these has; being in the same row or column is none."""
    sides = [sides_of(at, other) for at in subjects for other in others]
    return sum([2 if each == (0, 0) else (each[0] != 0) + (each[1] != 0) for each in sides])


def sides_of(at: Position, other: Position) -> tuple[int, int]:
    """At which side of the other a thing stands: -1 above or left, 0 the same row or column, 1 below or right."""
    (a, b), (c, d) = at, other
    return (a > c) - (a < c), (b > d) - (b < d)


_VERTICAL = {None: "", -1: "above", 0: "in the row of", 1: "below"}
_HORIZONTAL = {None: "", -1: "left of", 0: "in the column of", 1: "right of"}


def _say(claim: Relation) -> str:
    sides = " and ".join(filter(None, (_VERTICAL[claim.vertical], _HORIZONTAL[claim.horizontal])))
    return f"{claim.subject.kind} {sides} {claim.other.kind}"


def is_present(things: Things, absence: Absence) -> bool:
    """Whether there is something where nothing is said to be."""
    player = things["player"][0]
    return any(is_plainly(absence, sides_of(at, player)) for at in things[absence.kind])


def counted(things: Things, claims: Sequence[Relation], wanted: Sequence[tuple[str, str]]) -> Marks | None:
    """What is counted under the best assignment, found at once; `None` where it can't be.

    It can where each thing is spoken of once and fully. `things` are as seen from the player, who stands
    at (0, 0). Of holes only how many stand at each side matters then.
    """
    marks = Marks()
    counts = {kind: [0, facts(things[kind], ((0, 0),))] for kind, _ in wanted}
    holes = list(things.get("hole", ()))
    several = len(holes) != 1
    names = set()
    for claim in claims:
        (kind, label), _, vertical, horizontal, negated, hedged = claim
        name = (kind, label) if several and kind == "hole" else kind
        if vertical is None or horizontal is None or negated or hedged or label == "all" or name in names:
            return None
        names.add(name)
        sides = (vertical, horizontal)
        if kind != "hole":
            if len(things[kind]) != 1:
                return None
            truth = things[kind][0]
        elif sides in holes:
            holes.remove(sides)
            truth = sides
        else:
            marks.fault(f"{_say(claim)}: there are not so many", 2)
            continue
        right = (vertical == truth[0]) + (horizontal == truth[1])
        marks.right += right
        count = counts[kind]
        count[0] += right
        if right < 2:
            marks.fault(_say(claim), 2 - right)
        if truth != (0, 0):
            count[1] += (vertical == truth[0] == 0) + (horizontal == truth[1] == 0)
    for found, sought in counts.values():
        marks.found += found
        marks.wanted += sought
    marks.parts = tuple([(found, sought) for found, sought in counts.values()])
    return marks if len(names) <= MAX_MATCHED else None
