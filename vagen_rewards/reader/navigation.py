"""Navigation: directions and distances of objects, seen from the agent (VAGEN, appendix D.1)."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_envs.navigation.state import words as spoken
from vagen_rewards.reader.claims import Claim, Fact, Marks, Part, Reading, Span, Verdicts, every
from vagen_rewards.reader.clauses import Clause, Relation
from vagen_rewards.reader.dictionaries import Dict, data_in, words_in
from vagen_rewards.reader.sentences import World, read_sentences
from vagen_rewards.reader.words import Mention, Word, phrases, vocabulary

MOST_VISIBLE = 5
"""The most visible objects of a state, the nearest ones: another of a type may be farther off."""

TOLERANCE = 0.25
"""The share that a distance may be off; the paper's judge checks none."""

_SIDES = ("left", "right")
_DIRECTIONS = ("ahead", "back", *_SIDES)
_METRES = re.compile(r"~?\s*(\d+(?:\.\d+)?)\s*(?:m|metres|meters)?")
_NAMES = (
    "object",
    "name",
    "type",
    "label",
    "target",
    "obj type",
    "target obj type",
    "target object",
)


@functools.lru_cache(4096)
def _is_called(kind: str, name: str) -> bool:
    """Whether AI2-THOR's type goes by a name, such as `trash can`."""
    own = spoken(kind).lower()
    others = vocabulary()["navigation"]["called"].get(kind, ())
    return name in (own, own.replace(" ", ""), kind.lower(), *others)


def types_in(state: Any) -> set[str]:
    """The types of the objects that a state says something about."""
    return {state.target_type, *[kind for kind, *_ in state.visible_objects]}


class Excerpt(NamedTuple):
    """What a state says about the objects of one name.

    Attributes:
        objects: direction, distance and bearing of each.
        partial: whether there may be more of them.
    """

    objects: tuple[tuple[str, float, int | None], ...]
    partial: bool


class Seen(NamedTuple):
    """An object is in one of some directions, or so far away.

    Attributes:
        name: as the text names it, in lower case.
        ways: any of `ahead`, `left`, `right` and `back`; two as in "ahead to the left".
        metres: its distance, if stated.
    """

    name: str
    ways: frozenset[str] = frozenset()
    metres: float | None = None

    def holds(self, state: Any) -> bool | None:
        """Whether an object of this name is there.

        `None` if the state has none, another may be meant, or no picture from here can show it.

        Args:
            state: a state, or the `Excerpt` from it for this name.
        """
        about = state if isinstance(state, Excerpt) else self.excerpt(state)
        verdicts = [
            every([self._is_there(way, bearing), self._is_as_far(far)])
            for way, far, bearing in about.objects
        ]
        if True in verdicts:
            return True
        return None if not verdicts or None in verdicts or about.partial else False

    def excerpt(self, state: Any) -> Excerpt:
        """What a state says about objects of this name: many facts are asked of the same one."""
        target = self.is_target(state)
        if target and not state.target_in_sight:
            return Excerpt((), False)
        partial = len(state.visible_objects) >= MOST_VISIBLE and not target
        return Excerpt(tuple(self._meant(state, target)), partial)

    def _meant(self, state: Any, target: bool) -> list[tuple[str, float, int | None]]:
        """Direction, distance and bearing of the objects that may be meant."""
        bearings = state.bearings or [None] * len(state.visible_objects)
        seen = [(*one, at) for one, at in zip(state.visible_objects, bearings, strict=True)]
        found = [(way, far, at) for kind, way, far, at in seen if _is_called(kind, self.name)]
        if not target:
            return found
        own = (state.target_type, state.target_direction, state.target_distance)
        at = next((at for *one, at in seen if tuple(one) == own), None)
        return [(*own[1:], at), *(found if self.name != "target" else [])]

    def is_target(self, state: Any) -> bool:
        """Whether the name is the target's."""
        return self.may_be(str(state.target_type))

    def may_be(self, kind: str) -> bool:
        """Whether an object of AI2-THOR's type may be meant."""
        return self.name == "target" or _is_called(kind, self.name)

    def _is_as_far(self, far: float) -> bool | None:
        if self.metres is None or abs(self.metres - far) <= TOLERANCE * far:
            return True
        return False if not 0.5 < self.metres / max(far, 0.01) < 2 else None

    def _is_there(self, way: str, bearing: int | None) -> bool | None:
        if not self.ways or self.ways == {way}:
            return True
        if len(self.ways) == 1 or way not in self.ways:
            return False
        if way != "ahead" or bearing is None:
            return True  # the paper's rule: combined directions are right if they hold the true one
        side = next(iter(self.ways - {"ahead"}))
        return (bearing > 0) == (side == "right") or abs(bearing) < _ASIDE or False

    def __str__(self) -> str:
        far = "" if self.metres is None else f", {self.metres} m"
        return f"{self.name} {' or '.join(sorted(self.ways)) or 'somewhere'}{far}"


_ASIDE = 8
"""Degrees from straight ahead up to which observers may say either side."""


def claims_of(kind: str, text: str, part: Part) -> Reading:
    """Directions and distances of objects in dictionaries and in sentences."""
    claims: list[Claim] = []
    unread: list[tuple[Span, bool]] = []
    found, plain = data_in(text, _is_listed)
    for data in found:
        for fact, span in _records(data.value, data.span, ""):
            if fact is None:
                unread.append((span, True))
            else:
                claims.append(Claim(span, fact))
    told = read_sentences(World(kind, _told, prepare=_objects), plain, part)
    if told.retracts:
        return Reading.of_none(text)
    return Reading.of([*claims, *told.claims], [*unread, *told.unread])


def _told(clause: Clause, topic: None) -> tuple[list[Fact] | None, None]:
    return _facts(clause), topic


def _objects(words: list[Word]) -> list[Word]:
    """Runs of unknown words are names of objects: a state has any of some hundred types."""
    found: list[Word] = []
    before = ""
    for word in words:
        name = _name(word) if word.kind in ("THING", "UNKNOWN") else ""
        if name and before:
            name = f"{before} {name}"
            found[-1] = Word("THING", Mention(name), (found[-1].span[0], word.span[1]))
        else:
            found.append(Word("THING", Mention(name), word.span) if name else word)
        before = name
    return found


def _name(word: Word) -> str:
    """What a thing or an unknown word may say of an object's name; nothing if it is none."""
    if word.kind == "THING":
        return "" if word.value.kind in ("player", "target", "it") else str(word.value.kind)
    return str(word.value) if word.value.isalpha() else ""


def _facts(clause: Clause) -> list[Fact] | None:
    """The facts of a clause.

    `None` if it places things relative to other objects, which the state doesn't describe.
    """
    if clause.form not in ("placed", "first") or clause.things.number is not None:
        return None
    ways: set[str] = set()
    metres: float | None = None
    for relation in clause.relations:
        if relation.other is not None and relation.other.kind != "player":
            if relation.how in ("near", "here"):
                continue  # "on the table"
            return None
        if relation.how == "far":
            metres = _length(relation)
        elif relation.how in ("plain", "aside", "mine"):
            ways |= set(relation.ways)
            metres = _length(relation) if relation.amount is not None else metres
        else:
            return None
    if not (ways or metres) or not _is_direction(ways):
        return None
    names = [mention.kind for mention in clause.things.names]
    return (
        None
        if {"player", "it"} & set(names)
        else [Seen(name, frozenset(ways), metres) for name in names]
    )


def _is_direction(ways: set[str]) -> bool:
    return len(ways) < 2 or (len(ways) == 2 and not (ways >= {"left", "right"} or "back" in ways))


def _length(relation: Relation) -> float | None:
    if relation.amount is None or not isinstance(relation.unit, float):
        return None
    return relation.amount * relation.unit


# -- dictionaries


def _is_listed(entries: Dict) -> bool:
    return any("direction" in words_in(entry.key) for entry in entries)


def _records(value: Any, span: Span, key: str) -> Iterator[tuple[Seen | None, Span]]:
    """An object for each dictionary with a direction or distance, and for each name with one."""
    if isinstance(value, Dict):
        record = _record(value, key)
        if record is not None:
            yield record if record.ways or record.metres else None, span
        for entry in value:
            name = words_in(entry.key)
            if isinstance(entry.value, list):
                yield from _records(entry.value, entry.span, name)
            elif record is None and (ways := _ways(entry.value)):
                yield Seen(name, ways), entry.span
    elif isinstance(value, list):
        for each in value:
            yield from _records(each, span, "")


def _record(entries: Dict, key: str) -> Seen | None:
    """The object of one dictionary: its name is in it, or is the key under which it stands."""
    fields = {words_in(entry.key): entry.value for entry in entries}
    told = [name for name in fields if "direction" in name or "distance" in name]
    if not told:
        return None
    named = next((fields[name] for name in _NAMES if isinstance(fields.get(name), str)), "")
    name = spoken(named).lower() if re.fullmatch(r"[A-Z]\w*", named) else words_in(named)
    for_target = any(name.startswith("target") for name in told)
    ways = next((_ways(fields[field]) for field in told if "direction" in field), None)
    metres = next((_metres(fields[field]) for field in told if "distance" in field), None)
    unread = ways is None and any("direction" in field for field in told)
    if unread:
        return Seen("")
    return Seen(name or ("target" if for_target else key), ways or frozenset(), metres)


def _ways(value: Any) -> frozenset[str] | None:
    """The directions in a text such as `ahead-left`; `None` if it has other words."""
    if not isinstance(value, str):
        return None
    known = phrases("navigation")
    words = [known.get((word,)) for word in re.findall(r"[a-z]+", value.lower())]
    words = [("WAY", ("ahead",))] if value.lower() == "in front" else words
    if not words or any(entry is None or entry[0] != "WAY" for entry in words):
        return None
    ways = {way for entry in words if entry for way in entry[1]}
    return frozenset(ways) if _is_direction(ways) else None


def _metres(value: Any) -> float | None:
    if isinstance(value, float):
        return value
    match = _METRES.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) if match else None


def mark(state: State, verdicts: Verdicts, _part: Part) -> Marks:
    """The target's direction must be stated, unless it is out of sight; other objects count as
    claims.
    """
    facts = [fact for fact, held in verdicts.items() if held]
    told = any(isinstance(fact, Seen) and fact.ways and fact.is_target(state) for fact in facts)
    found = told or not getattr(state, "target_in_sight", True)
    return dataclasses.replace(Marks.of(verdicts, 1), found=int(found), essential=found)
