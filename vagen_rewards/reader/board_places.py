"""Places of one thing on a board: cells, rows, corners, and sides of another thing."""

from __future__ import annotations

from vagen_rewards.reader.board_sides import AXES, where
from vagen_rewards.reader.claims import Fact, Unclear
from vagen_rewards.reader.clauses import Relation
from vagen_rewards.reader.facts import At, Between, Region, Within
from vagen_rewards.reader.labels import Labels
from vagen_rewards.reader.words import Mention

PLAYER = Mention("player")
_ON_BOARD = ("numbered", "ordinal", "end", "corner", "side")
"""Forms that name a place of the board."""


def about(
    subject: Mention, other: Mention | None, relations: list[Relation], nth: int
) -> list[Fact] | None:
    """The facts of relations that are seen from one thing, or from none."""
    on_board = [each for each in relations if _is_on_board(subject, each)]
    alone = [each for each in relations if each.how in ("at", "between")]
    facts: list[Fact] = []
    for relation in alone:
        told = _at if relation.how == "at" else _between
        fact = told(subject, relation, nth)
        if fact is None:
            return None
        facts.append(fact)
    if on_board:
        region = tuple([place for relation in on_board for place in _region(relation)])
        loose = all(relation.how == "side" for relation in relations)
        facts += _within(subject, region, nth, loose=loose)
    rest = [each for each in relations if each not in alone and each not in on_board]
    if not rest:
        return facts
    found = _sides(subject, other, rest, nth)
    return None if found is None else [*facts, *found]


def _at(subject: Mention, relation: Relation, nth: int) -> Fact | None:
    cell = relation.value["CELL"]
    if len(cell) != 2 or nth != 1:
        return None
    at = (int(cell[0]), int(cell[1]))
    return At(subject.kind, at, in_words=True, labels=Labels.of(subject))


def _between(subject: Mention, relation: Relation, nth: int) -> Fact | None:
    ends = [end.kind for end in (relation.other, *relation.also) if end]
    if len({subject.kind, *ends}) < 3:
        return None
    return Between(subject.kind, (ends[0], ends[1]), nth, Labels.of(subject))


def _is_on_board(subject: Mention, relation: Relation) -> bool:
    """Whether it is a place of the board, such as a corner."""
    return relation.how in _ON_BOARD and not _is_of_player(subject, relation)


def _is_of_player(subject: Mention, relation: Relation) -> bool:
    """Whether a corner may be one seen from the player, as in "the goal is in the top corner"."""
    return relation.how == "corner" and "BOARD" not in relation.value and subject.kind != "player"


def _sides(
    subject: Mention, other: Mention | None, relations: list[Relation], nth: int
) -> list[Fact] | None:
    """The facts of directions; where they may be those of the board, both readings."""
    whole = all(relation.how in ("aside", "corner") for relation in relations)
    plain = all(relation.amount is None and not relation.exact for relation in relations)
    on_board: list[Fact] = []
    if other is None and whole and plain:
        region = tuple([place for relation in relations for place in _region(relation)])
        loose = all(relation.how == "aside" for relation in relations)
        on_board = _within(subject, region, nth, loose=loose)
    if subject.kind == "player" and other is None:
        return on_board or None
    found = where(subject, other or PLAYER, relations, nth)
    beside = any("SIDE" in each.value or each.value.get("IN") in ("at", "in") for each in relations)
    if found and on_board and beside:
        return [Unclear((tuple(found), tuple(on_board)))]
    return found


def _within(subject: Mention, region: Region, nth: int, *, loose: bool) -> list[Fact]:
    """One fact for each axis; of one of several things one for both."""
    several = subject.kind == "hole" or bool(subject.label) or nth != 1
    apart = [region] if several else [(place,) for place in region]
    labels = Labels.of(subject)
    return [Within(subject.kind, places, loose, nth, labels=labels) for places in apart]


def _region(relation: Relation) -> list[tuple[str, int | str]]:
    unit = str(relation.unit)
    if relation.how == "numbered":
        return [(unit, f"{relation.amount:.0f}")]
    if relation.how == "ordinal":
        return [(unit, relation.value["ORD"])]
    found: list[tuple[str, int | str]] = []
    for way in relation.ways:
        axis, sign = AXES[way]
        found.append((axis, "first" if sign < 0 else "last"))
    return found
