"""Sokoban and FrozenLake.

Relations of things, cells, grids and dictionaries (VAGEN, appendices C and D.1).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter

from vagen_rewards.reader.board_cells import cells_in
from vagen_rewards.reader.board_marks import mark as mark
from vagen_rewards.reader.board_numbers import counted_alike
from vagen_rewards.reader.board_places import PLAYER, about
from vagen_rewards.reader.board_sides import TO_A_SIDE, where
from vagen_rewards.reader.claims import Claim, Fact, Part, Reading
from vagen_rewards.reader.facts import Total, Where, Within
from vagen_rewards.reader.sentences import (
    Clause,
    Relation,
    Things,
    places_another,
    read_sentences,
)
from vagen_rewards.reader.words import Mention

_BASE = re.compile(
    r"(?i)\b(?:counting|counted|starting) (?:from|at) (0|1|zero|one)\b,?|\b([01])-indexed\b"
)


def claims_of(kind: str, text: str, part: Part) -> Reading:
    """Claims of grids, dictionaries and sentences."""
    claims, unread, plain = cells_in(kind, text)
    base = _BASE.search(plain)
    plain = _BASE.sub(lambda said: " " * len(said[0]), plain)
    counted = int((base[1] or base[2]).lower() in ("1", "one")) if base else None
    context = Context()
    for sentence in read_sentences(kind, plain, part):
        if sentence.retracts:
            return Reading.of((), [((0, len(text)), True)])
        facts = _of_clauses(sentence.clauses, context)
        if facts is None:
            unread.append((sentence.span, True))
        else:
            claims += facts
            unread += sentence.unread
    return Reading.of(counted_alike(claims, counted), unread)


class Context:
    """What a text has said so far.

    What "it" means, and how often each fact was said of unnamed things.
    """

    def __init__(self) -> None:
        self.subject: Mention | None = None
        self.said = Counter[Fact]()

    def meant(self, mention: Mention) -> Mention | None:
        """The thing; of "it" the last subject, and nothing if that isn't clear."""
        return self.subject if mention.kind == "it" else mention

    def counted(self, fact: Fact) -> Fact:
        """Of things that are described alike each is another one."""
        self.said[fact] += 1
        return fact._replace(nth=self.said[fact])  # type: ignore[attr-defined,no-any-return]


def _of_clauses(clauses: tuple[Clause, ...], context: Context) -> list[Claim] | None:
    found = []
    for clause in clauses:
        facts = facts_of(clause, context)
        if facts is None:
            return None
        found += [Claim(clause.span, fact) for fact in facts]
    return found


def facts_of(clause: Clause, context: Context) -> list[Fact] | None:
    """The facts of a clause; `None` if it doesn't surely say any."""
    things = [context.meant(mention) for mention in clause.things.names]
    names = [thing for thing in things if thing is not None]
    if len(names) < len(things):
        return None
    if clause.form == "total":
        return _total(names, clause.things.number)
    if clause.form == "shared":
        return _shared(names, Relation("same", unit=clause.value["UNIT"]))
    if clause.form not in ("placed", "first", "seen"):
        return None
    relations = _seen_from(clause.relations, next(iter(clause.value["OTHER"]), None))
    if relations is None or _is_bare(clause) or places_another(clause.relations):
        return None
    if len(names) == 2 and _are_alike(relations):
        return _shared(names, relations[0])
    listed = "COLON" in clause.value
    facts = _of_each(Things(tuple(names), clause.things.number), relations, context, listed=listed)
    if facts is not None:
        clear = len(names) == 1 and names[0] != PLAYER
        others = {relation.other.kind for relation in relations if relation.other}
        context.subject = names[0] if clear and others <= {"player"} else None
    return facts


def _are_alike(relations: list[Relation]) -> bool:
    """Whether it is said of several things that they are in one place, as in "share a row"."""
    return len(relations) == 1 and relations[0].how == "same" and relations[0].other is None


def _of_each(
    things: Things, relations: list[Relation], context: Context, *, listed: bool
) -> list[Fact] | None:
    """The facts of all relations of each thing."""
    others_named = any(relation.other and relation.other.label for relation in relations)
    facts: list[Fact] = []
    for name in things.names:
        found = _placed(name, things.number, relations, listed=listed)
        if found is None:
            return None
        counted = (name.label or others_named) and things.number is None
        facts += [
            context.counted(fact) if counted and _is_counted(fact) else fact for fact in found
        ]
    return facts


def _is_counted(fact: Fact) -> bool:
    """Whether the fact, said again, is about another thing; a numbered thing stays the same."""
    return isinstance(fact, Where | Within) and fact.nth == 1 and not fact.labels.numbers


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
    return found + [
        relation._replace(other=other, also=()) for relation in found for other in relation.also
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
        return None if None in each else _numbered([fact for facts in each for fact in facts or ()])
    facts: list[Fact] = []
    for other, group in itertools.groupby(_sorted(relations), key=lambda relation: relation.other):
        found = about(subject, other, list(group), nth)
        if found is None:
            return None
        facts += found
    return facts or None


def _numbered(facts: list[Fact]) -> list[Fact]:
    """Of facts that are alike each is about another thing."""
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
