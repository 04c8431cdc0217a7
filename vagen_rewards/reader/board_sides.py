"""Relations of one thing on a board to another: sides, distances, the same row or column."""

from __future__ import annotations

from vagen_rewards.reader.claims import Fact, Unclear
from vagen_rewards.reader.clauses import Relation
from vagen_rewards.reader.facts import Where
from vagen_rewards.reader.labels import Labels
from vagen_rewards.reader.words import Mention

RANKS = ("player", "box", "target", "hole")
"""Of two things the later one is the subject, so that a relation and its reverse are one fact."""

AXES = {"up": ("row", -1), "down": ("row", 1), "left": ("column", -1), "right": ("column", 1)}
TO_A_SIDE = ("plain", "aside", "mine")
"""Forms that name directions from another thing."""


def where(
    subject: Mention, other: Mention, relations: list[Relation], nth: int
) -> list[Fact] | None:
    """The facts of relations to one thing; `None` if they contradict each other."""
    if subject.kind == other.kind or other.plural or not {subject.kind, other.kind} <= {*RANKS}:
        return None
    fact = _seen_from(subject, other, relations, nth)
    if fact is None:
        return None
    if RANKS.index(subject.kind) < RANKS.index(other.kind):
        fact = _reversed(fact)
    if _any_exact(relations, "right"):
        return [Unclear(((fact,), (fact._replace(near=True),)))]
    labelled = subject.label or other.label or fact.subject == "hole"
    single = not (labelled or fact.near or nth != 1)
    return list(fact.halves()) if single else [fact]


def _seen_from(
    subject: Mention, other: Mention, relations: list[Relation], nth: int
) -> Where | None:
    """The relations as one fact; `None` if they contradict each other or say nothing."""
    sides = _axes(relations)
    counts = _counts(relations)
    if sides is None or counts is None:
        return None
    near = _any_exact(relations, "near") or any(each.how == "near" for each in relations)
    if len(sides) == 1 and any(each.exact for each in relations):
        sides["column" if "row" in sides else "row"] = 0
    if not sides and not near:
        return None
    return Where(
        subject.kind,
        other.kind,
        sides.get("row"),
        sides.get("column"),
        counts.get("row"),
        counts.get("column"),
        near,
        nth,
        straight=len(sides) == 1 and _counts_cells(relations),
        labels=Labels.of(subject, other),
    )


def _any_exact(relations: list[Relation], how: str) -> bool:
    """Whether one has "directly" (`near`) or "right", as in "right above"."""
    return any(each.value.get("EXACT") == how for each in relations)


def _counts_cells(relations: list[Relation]) -> bool:
    """Whether a distance is neither in rows nor in columns."""
    return any(each.amount and each.unit in ("", "any") for each in relations)


def _reversed(fact: Where) -> Where:
    """The same relation, said of the other thing."""
    vertical = None if fact.vertical is None else -fact.vertical
    horizontal = None if fact.horizontal is None else -fact.horizontal
    return fact._replace(
        subject=fact.other, other=fact.subject, vertical=vertical, horizontal=horizontal
    )


def _axes(relations: list[Relation]) -> dict[str, int] | None:
    """The side along each axis; `None` if there are two, or a relation isn't one of boards."""
    found: dict[str, int] = {}
    for relation in relations:
        steps = _steps(relation)
        if steps is None:
            return None
        for axis, sign in steps:
            if found.setdefault(axis, sign) != sign:
                return None
    return found


def _steps(relation: Relation) -> list[tuple[str, int]] | None:
    """The side along each axis that a relation names; `None` if it isn't one of boards."""
    if relation.how == "same" and relation.unit in ("row", "column"):
        return [(str(relation.unit), 0)]
    if relation.how in ("same", "here"):
        return [("row", 0), ("column", 0)]
    if relation.how in (*TO_A_SIDE, "corner"):
        return [AXES[way] for way in relation.ways]
    return [] if relation.how == "near" else None


def _counts(relations: list[Relation]) -> dict[str, int] | None:
    """The distance along each axis; `None` if that isn't clear."""
    found: dict[str, int] = {}
    for relation in relations:
        if relation.amount is None or not relation.ways:
            continue
        axes = {AXES[way][0] for way in relation.ways}
        if len(axes) > 1 or relation.amount < 1 or relation.amount % 1:
            return None
        axis = axes.pop()
        if relation.unit not in ("", "any", axis) or axis in found:
            return None
        found[axis] = int(relation.amount)
    return found
