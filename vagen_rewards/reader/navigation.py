"""Navigation: directions and distances of objects, seen from the agent (VAGEN, appendix D.1)."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_envs.navigation.state import words as spoken
from vagen_rewards.reader.claims import Claim, Marks, Part, Reading, Unclear
from vagen_rewards.reader.clauses import parse
from vagen_rewards.reader.relations import Relation
from vagen_rewards.reader.words import Word, is_slip, lexicon, words_of

MOST_VISIBLE = 5
"""A state has the nearest visible objects, at most so many: another one of a type may be farther off."""

TOLERANCE = 0.25
"""Share that a distance may be off. It is ours; the paper's judge checks no distances."""

_FACING = {"facing": "ahead", "facing away": "back"}
_ENTRY = re.compile(r"\{[^{}]*\}")
_TYPE = re.compile(r"(?i)[\"']?(?:target_obj_type|target|type|object)[\"']?\s*[:=]\s*[\"']?([A-Za-z ]{2,40})[\"']?")
_WAY = re.compile(r"(?i)[\"']?(?:target_)?direction(?:_to_player)?[\"']?\s*[:=]\s*[\"']?(ahead|left|right|back)\b")
_FAR = re.compile(r"[\"']?(?:target_)?distance(?:_to_player)?[\"']?\s*[:=]\s*[\"']?~?(\d+(?:\.\d+)?)", re.IGNORECASE)


@functools.cache
def names() -> dict[str, frozenset[str]]:
    """AI2-THOR's types by other names, such as `trash can`."""
    found: dict[str, set[str]] = {}
    for kind, others in lexicon()["navigation"]["synonyms"].items():
        for other in others:
            found.setdefault(other, set()).add(kind)
    return {name: frozenset(kinds) for name, kinds in found.items()}


@functools.lru_cache(4096)
def _is_called(kind: str, name: str) -> bool:
    own = spoken(kind).lower()
    return name in (own, kind.lower()) or kind in names().get(name, ()) or is_slip(name, own)


class Seen(NamedTuple):
    """An object is in one of some directions.

    Attributes:
        name: as the text names it, in lower case.
        ways: `ahead`, `left`, `right`, `back`; any of them is meant, as in "ahead to the left".
        metres: its distance, if stated.
    """

    name: str
    ways: frozenset[str] = frozenset()
    metres: float | None = None

    def holds(self, state: Any) -> bool | None:
        """Whether an object of this name is there; `None` if the state has none, or another may be meant."""
        verdicts = [self._fits(way, far) for way, far in self.meant(state)]
        if True in verdicts:
            return True
        sought = self.is_target(state)
        if not verdicts or None in verdicts or (not sought and len(state.visible_objects) >= MOST_VISIBLE):
            return None
        return False

    def meant(self, state: Any) -> list[tuple[str, float]]:
        """Direction and distance of the objects that may be meant."""
        seen = [(way, far) for kind, way, far in state.visible_objects if _is_called(kind, self.name)]
        if self.is_target(state):
            return [(state.target_direction, state.target_distance), *(seen if self.name != "target" else [])]
        return seen

    def is_target(self, state: Any) -> bool:
        """Whether the name is the target's."""
        return self.name == "target" or _is_called(state.target_type, self.name)

    def _fits(self, way: str, far: float) -> bool | None:
        if self.ways and way not in self.ways:
            return False
        if self.metres is None or abs(self.metres - far) <= TOLERANCE * far:
            return True
        return False if not 0.5 < self.metres / max(far, 0.01) < 2 else None

    def __str__(self) -> str:
        far = "" if self.metres is None else f", {self.metres} m"
        return f"{self.name} {' or '.join(sorted(self.ways)) or 'somewhere'}{far}"


class Sought(NamedTuple):
    """The type of the target."""

    name: str

    def holds(self, state: Any) -> bool:
        """Whether the target is called so."""
        return _is_called(state.target_type, self.name)

    def __str__(self) -> str:
        return f"the target is a {self.name}"


def claims_of(kind: str, text: str, part: Part) -> Reading:
    """Directions of objects in a dictionary or in sentences."""
    if _WAY.search(text):
        return _dictionary(text)
    joined = _objects(text, words_of(kind, text))
    parsed = parse(joined, part, beside=True)
    claims: list[Claim] = []
    unread: list[tuple[tuple[int, int], bool]] = []
    for span, matters in parsed.unread:
        # Where objects are beside one another the state doesn't say.
        inside = [word for word in joined if span[0] <= word.span[0] < span[1]]
        said = any(word.kind in ("direction", "unit", "no", "mine", "but") or word.value == "player" for word in inside)
        unread.append((span, matters and said))
    for stated in parsed.stated:
        subject, relation = stated.subject, stated.relation
        other, way = relation.other, relation.ways[0] if relation.ways else ""
        if subject.kind == "player" and other and way in _FACING:  # "I am facing the stove"
            subject, relation = other, Relation([] if other.kind == "wall" else [_FACING[way]])
        meant = [_seen(one.kind, relation) for one in subject.may_be or (subject,)]
        facts = [fact for fact in dict.fromkeys(meant) if fact is not None]
        if facts:
            fact = facts[0] if len(facts) == 1 else Unclear(tuple([(each,) for each in facts]))
            claims.append(Claim(stated.span, fact))
        else:
            unread.append((stated.span, _is_seen_from_agent(relation) and bool(relation.ways)))
    return Reading.of(claims, unread)


def _is_seen_from_agent(relation: Relation) -> bool:
    return relation.other is None or relation.other.kind in ("player", "wall")


def _seen(name: str, relation: Relation) -> Seen | None:
    ways = frozenset(relation.ways)
    unclear = len(ways) > 2 or ways >= {"left", "right"} or ways >= {"ahead", "back"} or relation.same or relation.near
    if unclear or relation.counts or name in ("player", "wall") or not _is_seen_from_agent(relation):
        return None
    return Seen(name, ways, relation.far) if ways or relation.far else None


def _objects(text: str, words: list[Word]) -> list[Word]:
    """Runs of unknown words are names of objects."""
    found: list[Word] = []
    for word in words:
        if word.kind in ("cell", "here", "unknown") and word.value[:1].isalpha():
            if found and found[-1].kind == "thing" and found[-1].label == "-" and word.span[0] - found[-1].span[1] == 1:
                span = (found[-1].span[0], word.span[1])
                found[-1] = Word("thing", " ".join(text[slice(*span)].lower().split()), span, False, "-")
                continue
            if found and found[-1].value == "target":  # "the target lamp"
                found.pop()
            found.append(Word("thing", text[slice(*word.span)].lower(), word.span, False, "-"))
        else:
            found.append(word)
    return [
        word._replace(label="", value=word.value.replace("_", " ")) if word.label == "-" else word for word in found
    ]


def _dictionary(text: str) -> Reading:
    """The dictionary of VAGEN, appendix D.1, or one like it."""
    claims: list[Claim] = []
    entries = list(_ENTRY.finditer(text)) if text.count("{") > 1 else []
    outer = text
    for entry in entries:
        outer = outer[: entry.start()] + " " * len(entry[0]) + outer[entry.end() :]
    whole = (0, len(text))
    kind, way, far = _TYPE.search(outer), _WAY.search(outer), _FAR.search(outer)
    if kind:
        claims.append(Claim(whole, Sought(kind[1].strip().lower())))
    if way:
        claims.append(Claim(whole, Seen("target", frozenset({way[1].lower()}), float(far[1]) if far else None)))
    for entry in entries:
        kind, way, far = _TYPE.search(entry[0]), _WAY.search(entry[0]), _FAR.search(entry[0])
        if kind and way:
            name = spoken(kind[1].strip()).lower() or kind[1].strip().lower()
            seen = Seen(name, frozenset({way[1].lower()}), float(far[1]) if far else None)
            claims.append(Claim(entry.span(), seen))
    return Reading(tuple(claims), () if claims else (whole,), () if claims else (whole,))


def mark(state: State, reading: Reading, _part: Part) -> Marks:
    """The target's direction must be stated; other objects count as claims."""
    facts = [claim.key for claim in reading.claims if claim.holds(state)]
    found = any(isinstance(fact, Seen) and fact.is_target(state) and fact.ways for fact in facts)
    return dataclasses.replace(Marks.of(state, reading, 1), found=int(found), essential=found)
