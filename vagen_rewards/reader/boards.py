"""Sokoban and FrozenLake.

Relations of things, cells, grids and dictionaries (VAGEN, appendices C and D.1).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter

from vagen_envs.grid import Position
from vagen_rewards.reader.board_cells import cells_in
from vagen_rewards.reader.board_marks import mark as mark
from vagen_rewards.reader.claims import Claim, Fact, Part, Reading, Unclear
from vagen_rewards.reader.facts import At, Between, Region, Total, Where, Within
from vagen_rewards.reader.sentences import (
    Clause,
    Relation,
    places_another,
    read_sentences,
)
from vagen_rewards.reader.words import Mention

RANKS = ("player", "box", "target", "hole")
"""Of two things the later one is the subject, so that a relation and its reverse are one fact."""

AXES = {"up": ("row", -1), "down": ("row", 1), "left": ("column", -1), "right": ("column", 1)}
PLAYER = Mention("player")
_BASE = re.compile(
    r"(?i)\b(?:counting|counted|starting) (?:from|at) (0|1|zero|one)\b,?|\b([01])-indexed\b"
)
_TO_A_SIDE = ("plain", "aside", "mine")
_ON_BOARD = ("numbered", "ordinal", "end", "corner", "side")


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
        facts = _of_clauses(kind, sentence.clauses, context)
        if facts is None:
            unread.append((sentence.span, True))
        else:
            claims += facts
            unread += sentence.unread
    return Reading.of(_based(claims, counted), unread)


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


def _of_clauses(kind: str, clauses: tuple[Clause, ...], context: Context) -> list[Claim] | None:
    found = []
    for clause in clauses:
        facts = facts_of(kind, clause, context)
        if facts is None:
            return None
        found += [Claim(clause.span, fact) for fact in facts]
    return found


def _based(claims: list[Claim], base: int | None) -> list[Claim]:
    """The claims with what the numbers of rows and columns are counted from.

    One thing for the whole text.
    """
    said = [claim.key for claim in claims if isinstance(claim.key, At) and claim.key.in_words]
    along = tuple([(fact.kind, fact.cell) for fact in said])
    claims = [claim._replace(key=_along(claim.key, along)) for claim in claims]
    numbered = [
        claim.key for claim in claims if isinstance(claim.key, Within) and _numbers(claim.key)
    ]
    if base is None and any("0" in _numbers(fact) for fact in numbered):
        base = 0
    if base is None:
        return claims
    return [claim._replace(key=_counted_from(claim.key, base)) for claim in claims]


def _along(fact: Fact, cells: tuple[tuple[str, Position], ...]) -> Fact:
    return fact._replace(along=cells) if isinstance(fact, At) and fact.in_words else fact


def _counted_from(fact: Fact, base: int) -> Fact:
    numbered = isinstance(fact, Within) and _numbers(fact)
    return fact._replace(bases=(base,)) if numbered else fact  # type: ignore[attr-defined]


def _numbers(fact: Within) -> list[str]:
    return [place for _, place in fact.places if isinstance(place, str) and place.isdigit()]


def facts_of(kind: str, clause: Clause, context: Context) -> list[Fact] | None:
    """The facts of a clause; `None` if it doesn't surely say any."""
    things = [context.meant(mention) for mention in clause.things.names]
    names = [thing for thing in things if thing is not None]
    if len(names) < len(things):
        return None
    number = clause.things.number
    if clause.form == "total":
        return _total(names, number)
    if clause.form == "shared":
        same = Relation("same", unit=clause.value["UNIT"])
        return _shared(names, same)
    if clause.form not in ("placed", "first", "seen"):
        return None
    seen_from = next(iter(clause.value["OTHER"]), None)
    relations = _seen_from(clause.relations, seen_from)
    if relations is None or _is_bare(clause) or places_another(clause.relations):
        return None
    alike = len(relations) == 1 and relations[0].how == "same" and relations[0].other is None
    if alike and len(names) == 2:
        return _shared(names, relations[0])
    facts: list[Fact] = []
    for name in names:
        found = _placed(kind, name, number, relations, "COLON" in clause.value)
        if found is None:
            return None
        named = name.label or any(relation.other and relation.other.label for relation in relations)
        counted = named and number is None
        facts += [
            context.counted(fact) if counted and _is_counted(fact) else fact for fact in found
        ]
    clear = len(names) == 1 and names[0] != PLAYER
    others = {relation.other.kind for relation in relations if relation.other}
    context.subject = names[0] if clear and others <= {"player"} else None
    return facts


def _is_counted(fact: Fact) -> bool:
    return isinstance(fact, Where | Within) and fact.nth == 1


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
        if relation.how not in (*_TO_A_SIDE, "same") or relation.other is not None:
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
    kind: str, subject: Mention, number: int | None, relations: list[Relation], listed: bool
) -> list[Fact] | None:
    """The facts of all relations of one thing; of "holes: left, below" one for each."""
    nth = 1 if number is None else number
    if subject.plural and number is None:
        cells = all(relation.how == "at" for relation in relations)
        counts = any(relation.amount is not None for relation in relations)
        if not cells and (not listed or counts):
            return None
        each = [_placed(kind, Mention(subject.kind, "a"), None, [one], False) for one in relations]
        return None if None in each else _numbered([fact for facts in each for fact in facts or ()])
    facts: list[Fact] = []
    for other, group in itertools.groupby(_sorted(relations), key=lambda relation: relation.other):
        found = _about(subject, other, list(group), nth)
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


def _about(
    subject: Mention, other: Mention | None, relations: list[Relation], nth: int
) -> list[Fact] | None:
    """The facts of relations that are seen from one thing, or from none."""
    facts: list[Fact] = []
    region: list[tuple[str, int | str]] = []
    rest = []
    for relation in relations:
        if relation.how == "at":
            cell = relation.value["CELL"]
            if len(cell) != 2 or nth != 1:
                return None
            facts.append(At(subject.kind, (int(cell[0]), int(cell[1])), True))
        elif relation.how == "between":
            ends = [end.kind for end in relation.value["MENTIONS"]]
            if len({subject.kind, *ends}) < 3:
                return None
            facts.append(Between(subject.kind, (ends[0], ends[1]), nth))
        elif relation.how in _ON_BOARD and not _is_of_player(subject, relation):
            region += _region(relation)
        else:
            rest.append(relation)
    if region:
        loose = all(relation.how == "side" for relation in relations)
        facts += _within(subject, tuple(region), nth, loose=loose)
    if not rest:
        return facts
    found = _sides(subject, other, rest, nth)
    return None if found is None else [*facts, *found]


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
    return [Within(subject.kind, places, loose, nth) for places in apart]


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


def where(
    subject: Mention, other: Mention, relations: list[Relation], nth: int
) -> list[Fact] | None:
    """The facts of relations to one thing; `None` if they contradict each other."""
    if subject.kind == other.kind or other.plural or not {subject.kind, other.kind} <= {*RANKS}:
        return None
    sides, counts = _axes(relations), _counts(relations)
    if sides is None or counts is None:
        return None
    near = any(each.how == "near" or each.value.get("EXACT") == "near" for each in relations)
    if any(each.exact for each in relations) and len(sides) == 1:
        sides["column" if "row" in sides else "row"] = 0
    elif not sides and not near:
        return None
    straight = len(sides) == 1 and any(
        each.unit in ("", "any") for each in relations if each.amount
    )
    fact = Where(
        subject.kind,
        other.kind,
        sides.get("row"),
        sides.get("column"),
        counts.get("row"),
        counts.get("column"),
        near,
        nth,
        straight,
    )
    if RANKS.index(subject.kind) < RANKS.index(other.kind):
        fact = _reversed(fact)
    if any(each.value.get("EXACT") == "right" for each in relations):
        return [Unclear(((fact,), (fact._replace(near=True),)))]
    single = not (subject.label or other.label or near or nth != 1 or fact.subject == "hole")
    return list(fact.halves()) if single else [fact]


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
        if relation.how == "same":
            axes = (
                (str(relation.unit),) if relation.unit in ("row", "column") else ("row", "column")
            )
            steps = [(axis, 0) for axis in axes]
        elif relation.how == "here":
            steps = [("row", 0), ("column", 0)]
        elif relation.how in (*_TO_A_SIDE, "corner"):
            steps = [AXES[way] for way in relation.ways]
        elif relation.how == "near":
            steps = []
        else:
            return None
        for axis, sign in steps:
            if found.setdefault(axis, sign) != sign:
                return None
    return found


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
