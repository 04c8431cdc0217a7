"""PrimitiveSkill.

Coordinates and sides of named things, the gripper and the drawer (VAGEN, appendices C.2 and D.1).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from vagen_envs.core import State
from vagen_rewards.reader.arm_facts import SIDES, Told
from vagen_rewards.reader.claims import Claim, Fact, Marks, Part, Reading, Span, Verdicts
from vagen_rewards.reader.clauses import Clause, Relation, places_another
from vagen_rewards.reader.dictionaries import Data, Dict, data_in, numbers_of, places_in, words_in
from vagen_rewards.reader.sentences import World, read_sentences
from vagen_rewards.reader.words import phrases

__all__ = ["Told", "claims_of", "mark"]

_FIXTURES = ("gripper", "table", "cubes")
"""Things without a position of their own."""

_OF_FIXTURES = {"empty": "gripper", "open": "drawer", "shut": "drawer"}
"""Properties that only one thing can have."""

_IDLE = ("place", "align")
"""Tasks in which all cubes are on the table: to say so tells nothing."""


def claims_of(kind: str, text: str, part: Part) -> Reading:
    """Coordinates and sides of things, and what the gripper and the drawer do."""
    claims: list[Claim] = []
    unread: list[tuple[Span, bool]] = []
    found, plain = data_in(text)
    for data in found:
        own, left = _of_data(data)
        claims += own
        unread += left
        if not own and not left:
            start, end = data.span
            plain = plain[:start] + text[start:end] + plain[end:]
    told = read_sentences(World(kind, _told), plain, part)
    if told.retracts:
        return Reading.of_none(text)
    return Reading.of([*claims, *told.claims], [*unread, *told.unread])


def _told(clause: Clause, topic: None) -> tuple[Sequence[Fact] | None, None]:
    return _facts(clause), topic


def _facts(clause: Clause) -> Sequence[Fact] | None:
    """The facts of a clause; `None` if it doesn't surely say any."""
    names = [mention.kind for mention in clause.things.names]
    number = clause.things.number
    if "it" in names or number not in (None, 0):
        return None
    if clause.form == "holds":
        return [Told(names[1], "held")] if names[0] == "gripper" and len(names) == 2 else None
    if clause.form == "ordered":
        return _ordered(names, clause.value["ORDER"])
    if clause.form not in ("placed", "first") or places_another(clause.relations):
        return None
    if "cubes" in names and number != 0:
        return None
    if clause.form == "first" and not set(names).isdisjoint(_FIXTURES):
        return None
    found: list[Told] = []
    for name, relation in itertools.product(names, _attached(clause.relations)):
        fact = _fact(name, relation)
        if fact is None:
            return None
        found += fact
    return found


def _ordered(names: list[str], side: str) -> list[Told] | None:
    """Things in their order along a line; `None` of fewer than two."""
    things = [name for name in names if name not in _FIXTURES]
    return [Told(one, side, other) for one, other in itertools.pairwise(things)] or None


def _attached(relations: tuple[Relation, ...]) -> list[Relation]:
    """Sides without another thing are those of the thing that is named next, or was named last."""
    found = list(relations)
    for i, relation in enumerate(found):
        if not relation.ways or relation.other is not None:
            continue
        before = next((each.other for each in reversed(found[:i]) if each.other), None)
        after = next((each.other for each in found[i + 1 :] if each.other), None)
        found[i] = relation._replace(other=before or after)
    return found


def _fact(name: str, relation: Relation) -> list[Told] | None:
    """The facts of a relation; `None` if it is none of the table's."""
    other = relation.other.kind if relation.other else ""
    if relation.also or other == "it" or (other == "cubes" and relation.how != "most"):
        return None
    if relation.how in _OF_FIXTURES:
        return _of_fixture(name, relation)
    if name in ("gripper", "table"):
        return None
    if relation.how == "most":
        return [Told(name, f"end {relation.value['MOST']}")] if other in ("", "cubes") else None
    if relation.how in ("here", "near"):
        return _beside(name, relation, other)
    if name == "cubes":
        return None
    return _of_thing(name, relation, other)


def _of_fixture(name: str, relation: Relation) -> list[Told] | None:
    """What the gripper and the drawer do."""
    if name != _OF_FIXTURES[relation.how]:
        return None
    far = None if relation.how == "empty" else _millimetres(relation)
    return [Told(name, relation.how, far=far)]


def _beside(name: str, relation: Relation, other: str) -> list[Told] | None:
    """On or next to a thing; all things are near the table."""
    if other in ("", "gripper") or (other == "table" and relation.how == "near"):
        return None
    return [Told(name, "on" if relation.how == "here" else "near", other)]


def _of_thing(name: str, relation: Relation, other: str) -> list[Told] | None:
    """Where one thing is: a point, in the gripper, or on a side of another."""
    if relation.how == "at":
        point = relation.value["CELL"]
        return [Told(name, "at", at=point)] if len(point) == 3 else None
    if relation.how == "held":
        return [Told(name, "held")] if other == "gripper" else None
    if not relation.ways or other in _FIXTURES:
        return None
    return _sides(name, relation, other)


def _sides(name: str, relation: Relation, other: str) -> list[Told] | None:
    far = _millimetres(relation)
    if relation.amount is not None and (far is None or not other or len(relation.ways) > 1):
        return None
    if not set(relation.ways) <= {*SIDES}:
        return None
    if not other:
        return [Told(name, f"end {way}") for way in relation.ways]
    return [Told(name, way, other, far) for way in relation.ways]


def _millimetres(relation: Relation) -> float | None:
    if relation.amount is None or not isinstance(relation.unit, float):
        return None
    return round(relation.amount * relation.unit * 1000, 3)


# -- dictionaries


@functools.cache
def _namer() -> Callable[[str], str | None]:
    """Gives the thing that a key names."""
    return {
        " ".join(phrase): entry[1].kind
        for phrase, entry in phrases("primitive_skill").items()
        if entry[0] == "THING" and entry[1].kind not in ("it", *_FIXTURES)
    }.get


def _of_data(data: Data) -> tuple[list[Claim], list[tuple[Span, bool]]]:
    claims, unread = _states(data.value)
    for name, at, span in places_in(data, _unless_states):
        if at is not None and len(at) == 3:
            claims.append(Claim(span, Told(name, "at", at=at)))
        else:
            unread.append((span, True))
    return claims, unread


def _unless_states(key: str) -> str | None:
    return None if "open" in key else _namer()(key)


def _states(value: Any) -> tuple[list[Claim], list[tuple[Span, bool]]]:
    """What a dictionary says of the drawer's opening and of the gripper."""
    claims: list[Claim] = []
    unread: list[tuple[Span, bool]] = []
    for entry in value if isinstance(value, Dict) else ():
        key = words_in(entry.key)
        if isinstance(entry.value, Dict) and numbers_of(entry.value) is None:
            own, left = _states(entry.value)
            claims += own
            unread += left
        elif "drawer" in key and "open" in key:
            alone = isinstance(entry.value, float)
            numbers = (entry.value,) if alone else numbers_of(entry.value)
            if numbers and len(numbers) == 1:
                claims.append(Claim(entry.span, Told("drawer", "open", far=numbers[0])))
            else:
                unread.append((entry.span, True))
        elif key in ("gripper", "held", "holding", "held object"):
            held = str(entry.value).lower().replace("_", " ")
            name = _namer()(held)
            empty = held in ("none", "null", "nothing", "empty")
            fact = Told("gripper", "empty") if empty else Told(name or "", "held")
            if empty or name:
                claims.append(Claim(entry.span, fact))
            else:
                unread.append((entry.span, True))
    return claims, unread


def mark(state: State, verdicts: Verdicts, _part: Part) -> Marks:
    """F1 over the things' positions and the drawer's opening. The gripper counts if it is named."""
    truth: Any = state
    facts = [fact for fact in verdicts if isinstance(fact, Told)]
    idle = [
        fact for fact in facts if truth.task in _IDLE and fact.other == "table" and verdicts[fact]
    ]
    wanted = len(truth.positions) + (truth.drawer_open_value is not None)
    wanted += any(fact.how in ("held", "empty") for fact in facts)
    told = {fact: held for fact, held in verdicts.items() if fact not in idle}
    return Marks.of(told, wanted)
