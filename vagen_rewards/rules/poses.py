"""Reading which thing is said to be at which coordinates, for PrimitiveSkill."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from vagen_rewards.rules.lexicon import nouns, pattern_of
from vagen_rewards.rules.modality import denies, hedges, mentions
from vagen_rewards.rules.scene_facts import Point

UNIT = r"(?:mm|cm|m|(?:milli|centi)?met(?:er|re)s?)"
_UNIT_AFTER = rf"(?:\s?{UNIT}\b)?"
_N = rf"[-+]?\d{{1,6}}(?:\.\d{{1,6}})?{_UNIT_AFTER}"
_BY = r"(?:\s*[,;/]\s*|\s+)"
_IS = r"(?:[- ]?coordinate)?\s*(?:=|:|is|of|at)?\s*"
_POINT = (
    rf"[(\[{{<⟨]\s*(?:(?:position|pos|coordinates|location|at)\s*[:=]?\s*)?(?:x{_IS})?{_N}{_BY}(?:y{_IS})?{_N}(?:{_BY}(?:z{_IS})?{_N})?\s*[)\]}}>⟩]{_UNIT_AFTER}"
    rf"|\bx{_IS}{_N}[ ,]*(?:and )?(?:its |the |an? )?y{_IS}{_N}(?:[ ,]*(?:and )?(?:its |the |an? )?z{_IS}{_N})?"
    rf"|(?<![\d.(\[,])(?<![\d.(\[,] ){_N}\s*,\s*{_N}\s*,\s*(?:and )?{_N}(?![\d.]*\s*[)\],])"
    rf"|(?<![\d./]){_N}\s?/\s?{_N}\s?/\s?{_N}"
    rf"|(?<![\d.]){_N} in x[ ,]*(?:and )?{_N} in y(?:[ ,]*(?:and )?{_N} in z)?"
)
_NUMBER = re.compile(rf"([-+]?\d{{1,6}}(?:\.\d{{1,6}})?)\s?({UNIT})?")
_UNIT_LAST = re.compile(rf"[)\]}}>⟩]\s?({UNIT})$")
_BARE = re.compile(r"[-+]?\d{1,6}(?:\.\d{1,6})?")
_SCALES = {"c": 10.0, "me": 1000.0, "m": 1000.0}

_NOUNS = {name: f"{pattern_of(phrases)}|one" for name, phrases in nouns("primitive_skill").items()}
_PLANNED = re.compile(
    r"\b(?:needs?|wants?|try|tries|trying|attempts?|have|has|plans?|hopes?|intends?|aims?|like) to\b"
    r"|\bi (?:will|shall)(?: now| then| next)? (?:put|place|move|bring|pick|grasp|lift|push|stack|drop|release)\b"
)
_CLAUSE = re.compile(r"[.;:,)\]}\n]|\bbut\b")
_STOP = re.compile(r"[.;](?!\d)|\n")
_IT = re.compile(r"[.;\n]\s*(?:now |then |currently )?it(?:s)?\b")
_JOINED = re.compile(r"\s*(?:,|,? ?and|&)\s*(?:the |a )?")
_ONTO = re.compile(
    r"\b(?:on|onto|on top of|under|underneath|beneath|above|below|beside|next to|behind|supports|supporting|carries"
    r"|holds|holding|touches|touching|(?:left|right|front|side) of|near|close to|than)(?: (?:the|a|top|of))*\s*$"
)
"""Before a thing that only says where another is."""

_WHOSE = re.compile(
    r",? (?:whose (?:coordinates|position|location|cent(?:er|re))|which (?:is|are|lies|sits|stands) at)\b"
)
"""After it: "to the right of the green cube, whose coordinates are …"."""

_ELSEWHERE = re.compile(
    r"\b(?:from|was|were|above|over|towards?|between|far|away|(?:left|right|side|front|north|south) of|behind|next to"
    r"|(?:needs?|needed|wants?|tr(?:y|ies|ying)|attempts?|has|have|must|ought|intends?|plans?|hopes?|aims?) to"
    r"|should (?:be )?(?:go|move|moved|placed|put|brought|carried|taken)"
    r"|(?<!in the )(?<!by the )(?<!of the )(?<!in my )(?:gripper|arm|hand|end[- ]effector|robot)(?:'s)?"
    r" (?:is|will|moves?|goes|hovers|stays|at|position|tip))\b"
)
"""Before coordinates at which the thing isn't, not any more or not yet."""

_OR_ELSE = re.compile(
    r"[^.;\n]{0,40}\b(?:or else|or not|guess|guessing|unless)\b"
    r"|\s*(?:,\s*)?(?:or|either|unless|perhaps|maybe|probably|possibly|i guess)\b"
)
_ALTERNATIVES = ("or", "guess", "either", "unless", "perhaps", "maybe", "probably", "possibly")
_FRONT = re.compile(
    r"(?:^|[.;,\n]|\band\b)\s*(?:at|near|around)?(?: the)?(?: (?:positions?|coordinates|location|point))*\s*$"
)
_FRONTED = re.compile(
    r"(?:[,:]| -)?\s*(?:there )?(?:is|for|(?:(?:belongs?|corresponds?) )?to|as|are|lies|sits|stands|rests|i see|i find"
    r"|we see|we have|we find|you see)?\s*(?:where )?"
    r"(?:(?:the|a|an|our) )?(?:(?:position|location|place|coordinates) of (?:the |a )?)?"
)


_AT = re.compile(r"\bat\s*$")
_COMES = re.compile(
    r"\s*,?\s*(?:there (?:is|are)|is (?:the|an?)|(?:(?:belongs?|corresponds?) )?to (?:the|an?)|(?:for|as) (?:the|an?)"
    r"|i see|we (?:see|have|find))\b"
)
"""After coordinates whose thing comes next."""


class Pose(NamedTuple):
    """Coordinates said of a thing, whether with a doubt, and where in the text."""

    at: Point
    hedged: bool
    start: int


@functools.lru_cache(maxsize=4096)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    things = "|".join(
        f"(?P<n{names.index(name)}>(?:{_words(name)})(?:[ _]position)?\\b)"
        for name in sorted(names, key=len, reverse=True)
    )
    point = rf"(?=[-+\d(\[{{<⟨x])(?P<point>{_POINT})"  # within words there is neither: most places are given up at once
    return re.compile(rf"\b(?=\w)(?:{things})|{point}" if names else point)


def _words(name: str) -> str:
    """What a thing goes by: "red_cube" also as "the red one", "the block that is red", "the red and …"."""
    first, _, noun = name.lower().removesuffix("_position").partition("_")
    if not noun:
        return pattern_of(nouns("primitive_skill").get(first, [first]))
    called = _NOUNS.get(noun, re.escape(noun).replace("_", "[ _]"))
    first = re.escape(first)
    of_noun = rf"(?:{called.removesuffix('|one')}) (?:that is|which is|on the|to the) {first}"
    return rf"{first}[ _](?:{called})|{of_noun}|{first}(?=(?:,| and) (?:the )?[a-z]+ (?:{called})\b)"


def point_of(text: str) -> Point:
    """The coordinates of a match of a point, in millimetres."""
    if "m" not in text:
        return tuple([float(number) for number in _BARE.findall(text)])
    numbers = _NUMBER.findall(text)
    units = [unit for _, unit in numbers if unit] or _UNIT_LAST.findall(text) or ["mm"]
    scales = [_scale(unit or units[-1]) for _, unit in numbers]
    return tuple([float(number) * scale for (number, _), scale in zip(numbers, scales, strict=True)])


def _scale(unit: str) -> float:
    return 1.0 if unit.startswith(("mm", "milli")) else _SCALES.get(unit[:1] if unit[0] == "c" else unit[:2], 1.0)


class Reading(NamedTuple):
    """What a text says of things.

    Attributes:
        poses: the coordinates said of each.
        spans: each mention that stands in a text, as (name, start, end), in its order.
    """

    poses: dict[str, list[Pose]]
    spans: tuple[tuple[str, int, int], ...]


@functools.lru_cache(maxsize=8192)
def read(text: str, names: tuple[str, ...]) -> Reading:
    """Coordinates follow the name of their thing ("the cube is at …") or lead up to it ("at … is the cube")."""
    reader = _Reader(text)
    for match in list(_pattern(names).finditer(text))[:400]:
        if match.lastgroup == "point":
            reader.point(match)
        else:
            reader.thing(names[int((match.lastgroup or "n0")[1:])], match)
    reader.close()
    return Reading(reader.said, tuple(reader.spans))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.end = text, 0
        self.said: dict[str, list[Pose]] = {}
        self.spans: list[tuple[str, int, int]] = []
        self.group: list[str] = []
        self.points: list[Pose] = []
        self.waiting: Pose | None = None  # coordinates whose thing is still to come
        self.inverted = self.doubtful = self.denied = False
        self.or_else = mentions(text, _ALTERNATIVES)

    def close(self) -> None:
        """Give the points to the things named before them."""
        if len(self.group) > 1 and len(self.points) in (1, len(self.group)):
            each = self.points if len(self.points) > 1 else self.points * len(self.group)
            for name, pose in zip(self.group, each, strict=True):
                self.said.setdefault(name, []).append(pose)
        elif self.group and self.points:
            self.said.setdefault(self.group[-1], []).extend(self.points)
        self.points = []

    def thing(self, name: str, match: re.Match[str]) -> None:
        between = self._between(match)
        self.spans.append((name, match.start(), match.end()))
        if self.waiting is not None:
            if _FRONTED.fullmatch(between):
                self.said.setdefault(name, []).append(self.waiting)
                self.group, self.inverted = [name], True
            self.waiting = None
            return
        if self.group and len(between) > 3 and _ONTO.search(between) and not _WHOSE.match(self.text, match.end()):
            return
        lead = _CLAUSE.split(between[-60:])[-1] if len(between) > 2 else ""
        if self.group and not self.points and not self.denied and _JOINED.fullmatch(between):
            self.group.append(name)
            return
        self.close()
        self.group, self.inverted = [name], False
        # "I don't see the cube at …", "I want the cube at …"
        self.denied = bool(lead) and (denies(lead) or _PLANNED.search(lead) is not None)
        self.doubtful = bool(lead) and hedges(lead)

    def point(self, match: re.Match[str]) -> None:
        between = self._between(match)
        hedged = len(between) > 6 and hedges(between)
        pose = Pose(point_of(match[0]), self.doubtful or hedged or self._or_else(match.end()), match.start())
        if (
            not self.group
            or self.inverted
            or (self.points and _AT.search(between) and _COMES.match(self.text, self.end))
        ):
            before = self.text[max(0, match.start() - 40) : match.start()]
            self.waiting = pose if _COMES.match(self.text, self.end) or _FRONT.search(before) else None
        elif not self.denied and (
            len(between) < 6 or (len(between) <= 80 and not _ELSEWHERE.search(between) and not denies(between))
        ):
            self.points.append(pose)

    def _or_else(self, end: int) -> bool:
        return self.or_else and _OR_ELSE.match(self.text, end) is not None

    def _between(self, match: re.Match[str]) -> str:
        """The words since the last thing or point; after the end of a sentence only "it" goes on with its thing."""
        between = self.text[self.end : match.start()]
        self.end = match.end()
        if len(between) > 1 and _STOP.search(between):
            self.waiting = None
            if not _IT.search(between):
                self.close()
                self.group, self.inverted = [], False
            self.denied = self.doubtful = False
        return between
