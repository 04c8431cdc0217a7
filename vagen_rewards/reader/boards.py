"""Sokoban and FrozenLake.

Relations of things, cells, grids and dictionaries (VAGEN, appendices C and D.1).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from vagen_rewards.reader.board_cells import cells_in
from vagen_rewards.reader.board_marks import mark as mark
from vagen_rewards.reader.board_numbers import counted_alike
from vagen_rewards.reader.board_places import PLAYER, about
from vagen_rewards.reader.board_sides import TO_A_SIDE, where
from vagen_rewards.reader.claims import Claim, Fact, Part, Reading
from vagen_rewards.reader.clauses import Clause, Relation, Things, places_another
from vagen_rewards.reader.facts import Total, Where, Within
from vagen_rewards.reader.sentences import World, read_sentences
from vagen_rewards.reader.words import Mention

_BASE = re.compile(
    r"(?i)\b(?:counting|counted|starting) (?:from|at) (0|1|zero|one)\b,?|\b([01])-indexed\b"
)


class Another(NamedTuple):
    """A fact that, said again, is about another thing: "a hole is above me" may be said of two."""

    fact: Where | Within

    def holds(self, state: Any) -> bool | None:
        """Whether it is true of a state."""
        return self.fact.holds(state)


def claims_of(kind: str, text: str, part: Part) -> Reading:
    """Claims of grids, dictionaries and sentences."""
    claims, unread, plain = cells_in(kind, text)
    base = _BASE.search(plain)
    plain = _BASE.sub(lambda said: " " * len(said[0]), plain)
    counted = int((base[1] or base[2]).lower() in ("1", "one")) if base else None
    told = read_sentences(World(kind, facts_of), plain, part)
    if told.retracts:
        return Reading.of_none(text)
    claims += _counted(told.claims)
    return Reading.of(counted_alike(claims, counted), [*unread, *told.unread])


def _counted(claims: Sequence[Claim]) -> list[Claim]:
    """The claims, in which things that are described alike are counted."""
    said = Counter[Fact]()
    found: list[Claim] = []
    for claim in claims:
        fact = claim.key
        if isinstance(fact, Another):
            said[fact] += 1
            fact = fact.fact._replace(nth=said[fact])
        found.append(Claim(claim.span, fact))
    return found


def facts_of(clause: Clause, topic: Mention | None) -> tuple[list[Fact] | None, Mention | None]:
    """The facts of a clause, and what "it" is after it.

    Args:
        clause: one of a sentence.
        topic: what "it" is, if that is clear.

    Returns:
        `None` instead of facts if the clause doesn't surely say any.
    """
    names = [topic if mention.kind == "it" else mention for mention in clause.things.names]
    things = [name for name in names if name is not None]
    if len(things) < len(names):
        return None, topic
    if clause.form == "total":
        return _total(things, clause.things.number), topic
    if clause.form == "shared":
        return _shared(things, Relation("same", unit=clause.value["UNIT"])), topic
    if clause.form not in ("placed", "first", "seen"):
        return None, topic
    relations = _seen_from(clause.relations, clause.other)
    if relations is None or _is_bare(clause) or places_another(clause.relations):
        return None, topic
    if len(things) == 2 and _are_alike(relations):
        return _shared(things, relations[0]), topic
    listed = "COLON" in clause.value
    facts = _of_each(Things(tuple(things), clause.things.number), relations, listed=listed)
    return facts, _topic(things, relations)


def _topic(things: list[Mention], relations: list[Relation]) -> Mention | None:
    """What "it" is after a clause: its subject, unless that may be another of its things."""
    if len(things) > 1 or things[0] == PLAYER:
        return None
    others = {relation.other.kind for relation in relations if relation.other}
    return things[0] if others <= {"player"} else None


def _are_alike(relations: list[Relation]) -> bool:
    """Whether the text says that several things are in one place, as in "share a row"."""
    return len(relations) == 1 and relations[0].how == "same" and relations[0].other is None


def _of_each(things: Things, relations: list[Relation], *, listed: bool) -> list[Fact] | None:
    """The facts of all relations of each thing."""
    others_named = any(relation.other and relation.other.label for relation in relations)
    facts: list[Fact] = []
    for name in things.names:
        found = _placed(name, things.number, relations, listed=listed)
        if found is None:
            return None
        counted = (name.label or others_named) and things.number is None
        facts += map(_another, found) if counted else found
    return facts


def _another(fact: Fact) -> Fact:
    """The fact, said of one more thing; a numbered thing stays the same."""
    if isinstance(fact, Where | Within) and fact.nth == 1 and not fact.labels.numbers:
        return Another(fact)
    return fact


def _is_bare(clause: Clause) -> bool:
    """Whether it is like "left is a hole", which may say what is in the next cell."""
    bare = all(each.how == "plain" and each.other is None for each in clause.relations)
    return clause.form == "first" and bare and "COLON" not in clause.value


def _total(names: list[Mention], number: int | None) -> list[Fact] | None:
    number = 0 if number == -1 else number
    if number is None and len(names) == 1 and names[0].label:
        number = 1
    return None if number is None or len(names) != 1 else [Total(names[0].kind, number)]


def _shared(names: list[Mention], same: Relation) -> list[Fact] | None:
    """Two things that are in the same row, column or cell."""
    if len(names) != 2 or any(name.plural for name in names):
        return None
    return where(names[0], names[1], [same], 1)


def _seen_from(relations: tuple[Relation, ...], default: Mention | None) -> list[Relation] | None:
    """The relations, each with what it is seen from.

    What is named next, or was named last; `None` if both differ.
    """
    found = list(relations)
    if any(relation.other and relation.other.kind == "it" for relation in relations):
        return None  # "it" may be the subject or the other thing of the clause before
    for i, relation in enumerate(found):
        if relation.how not in (*TO_A_SIDE, "same") or relation.other is not None:
            continue
        before = next((each.other for each in reversed(found[:i]) if each.other), None)
        after = next((each.other for each in found[i + 1 :] if each.other), None)
        if before and after and before != after:
            return None
        found[i] = relation._replace(other=before or after or default)
    several = [relation for relation in found if relation.how != "between"]
    return found + [
        relation._replace(other=other, also=()) for relation in several for other in relation.also
    ]


def _placed(
    subject: Mention, number: int | None, relations: list[Relation], *, listed: bool
) -> list[Fact] | None:
    """The facts of all relations of one thing; of "holes: left, below" one for each."""
    nth = 1 if number is None else number
    if subject.plural and number is None:
        cells = all(relation.how == "at" for relation in relations)
        counts = any(relation.amount is not None for relation in relations)
        if not cells and (not listed or counts):
            return None
        one_of_them = Mention(subject.kind, "a")
        each = [_placed(one_of_them, None, [one], listed=False) for one in relations]
        if None in each:
            return None
        return _numbered(list(itertools.chain.from_iterable(facts or () for facts in each)))
    facts: list[Fact] = []
    for other, group in itertools.groupby(_sorted(relations), key=lambda relation: relation.other):
        found = about(subject, other, list(group), nth)
        if found is None:
            return None
        facts += found
    return facts or None


def _numbered(facts: list[Fact]) -> list[Fact]:
    """Number equal facts: each is about another thing."""
    said = Counter[Fact]()
    found: list[Fact] = []
    for fact in facts:
        said[fact] += 1
        found.append(fact._replace(nth=said[fact]) if isinstance(fact, Where | Within) else fact)
    return found


def _sorted(relations: list[Relation]) -> list[Relation]:
    """Relations to one thing beside one another, those to none first."""
    named = [relation.other for relation in relations]
    return sorted(relations, key=lambda each: (each.other is not None, named.index(each.other)))
