"""PrimitiveSkill: coordinates of named things, right within 10 mm an axis (VAGEN, appendix D.1)."""

from __future__ import annotations

import functools
import re
from typing import Any

from vagen_envs.core import State
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.modality import DENIALS, DOUBTS, plain
from vagen_rewards.scores import Part

TOLERANCE = 10
"""Millimetres on each axis, and of the drawer's opening."""

_NUMBER = r"-?\d{1,6}(?:\.\d{1,6})?"
_POINT = re.compile(
    rf"[(\[{{]\s*(?:x\s*[=:]\s*)?({_NUMBER})(?:\s*mm)?\s*,\s*(?:y\s*[=:]\s*)?({_NUMBER})(?:\s*mm)?"
    rf"(?:\s*,\s*(?:z\s*[=:]\s*)?({_NUMBER})(?:\s*mm)?)?\s*[)\]}}]"
    rf"|x\s*[=:]\s*({_NUMBER})\s*,?\s*y\s*[=:]\s*({_NUMBER})\s*,?\s*(?:and )?z\s*[=:]\s*({_NUMBER})"
)
_HEDGE = re.compile(rf"\b(?:or|{DOUBTS})\b")
_NOT = re.compile(rf"\b(?:no|without|{DENIALS})\b")
_GRIPS = re.compile(r"hold|held|grasp|grip")
_OR = re.compile(r"\s*(?:,\s*)?(?:or|either)\b")
_CLAUSE = re.compile(r"[.;,)\]}\n]|\bbut\b")
_PLAIN = frozenset((" ", ": ", " is at ", " at ", " = ", " will be at ", '": '))
"""Words before a point that need no second look."""

_FROM = re.compile(r"\b(?:from|was|were|above|over|towards?|left of|right of)\b")
_OPEN = re.compile(rf"drawer(?:_open_value| is)?[\"']?\s*[:=]?\s*({_NUMBER})\s*(?:mm)?")
_ON = (
    r"(?:is|will be|now|lies|sits|rests|placed|stacked|put|be|,|_| ){0,12}"
    r"\b(?:on top of|onto|stacked on|on)\b(?: the| top| of)* "
)


@functools.lru_cache(maxsize=4096)
def _thing_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    ordered = sorted(names, key=len, reverse=True)
    return re.compile("|".join(f"(?P<n{names.index(name)}>\\b{_words(name)}(?:[ _]position)?\\b)" for name in ordered))


def _words(name: str) -> str:
    return name.lower().removesuffix("_position").replace("_", "[ _]")


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over named things with coordinates; what is held, stacked or open counts as further claims."""
    truth: Any = state
    names = tuple(truth.positions)
    marks = Marks(wanted=len(names))
    lowered = plain(text)
    said = _points(lowered, names)
    for name, points in said.items():
        place = truth.positions[name]
        near = [_near(point, place) for point, _ in points]
        if any(hedged for _, hedged in points) or (len(points) > 1 and not all(near) and not _agree(points)):
            marks.fault(f"{name}: {len(points)} places, or a doubtful one", len(points))
        elif all(near):
            marks.right += 1
            marks.found += 1
        else:
            marks.fault(f"{name} at {tuple(points[0][0])}, truly at {tuple(place)}")
    if _GRIPS.search(lowered):
        _held(marks, truth, lowered, names)
    if " on" in lowered or "_on" in lowered:
        _stacked(marks, truth, lowered, names)
    opened = _OPEN.search(lowered) if truth.drawer_open_value is not None else None
    if opened:
        if abs(float(opened[1]) - truth.drawer_open_value) <= TOLERANCE:
            marks.right += 1
        else:
            marks.fault(f"drawer {opened[1]} mm open")
    return marks


Point = tuple[float, ...]


@functools.lru_cache(maxsize=8192)
def _points(text: str, names: tuple[str, ...]) -> dict[str, list[tuple[Point, bool]]]:
    """The coordinates said of each thing, and whether with a doubt: those that follow its name."""
    if not names:
        return {}
    said: dict[str, list[tuple[Point, bool]]] = {}
    mentions = list(_thing_pattern(names).finditer(text))[:200]
    starts = [*[mention.start() for mention in mentions[1:]], len(text)]
    end = 0
    for mention, start in zip(mentions, starts, strict=False):
        lead = text[max(end, mention.start() - 60) : mention.start()]
        end = mention.end()
        doubtful = False
        if len(lead) > 5:
            lead = _CLAUSE.split(lead)[-1]
            if _NOT.search(lead):
                continue  # "I don't see the cube at …"
            doubtful = _HEDGE.search(lead) is not None
        between = text[end : min(start, end + 400)]
        last = 0
        for point in _POINT.finditer(between):
            words = between[last : point.start()]
            if words not in _PLAIN:
                if "." in words or "\n\n" in words or len(words) > 80 or _FROM.search(words):
                    break
                if _NOT.search(words):
                    last = point.end()
                    continue
            last = point.end()
            numbers = tuple([float(number) for number in point.groups() if number is not None])
            hedged = doubtful or (words not in _PLAIN and _HEDGE.search(words) is not None)
            found = said.setdefault(names[int((mention.lastgroup or "n0")[1:])], [])
            found.append((numbers, hedged or _OR.match(between, last) is not None))
    return said


def _near(point: Point, truth: tuple[int, ...]) -> bool:
    return all(abs(a - b) <= TOLERANCE for a, b in zip(point, truth, strict=False))


def _agree(points: list[tuple[Point, bool]]) -> bool:
    first = points[0][0]
    return all(_near(point, first) for point, _ in points)  # type: ignore[arg-type]


def _held(marks: Marks, truth: Any, text: str, names: tuple[str, ...]) -> None:
    for name in names:
        claim = re.search(rf"(not )?\b(?:hold(?:s|ing)?|grasp(?:s|ing)|grip(?:s|ping))(?: the)? {_words(name)}", text)
        if claim is None:
            continue
        if (truth.held == name) != bool(claim[1]):
            marks.right += 1
        else:
            marks.fault(f"holding the {name}")
    if re.search(r"gripper (?:is|will be) empty|holds nothing|nothing is held", text):
        if truth.held:
            marks.fault("the gripper is empty")
        else:
            marks.right += 1


def _stacked(marks: Marks, truth: Any, text: str, names: tuple[str, ...]) -> None:
    for upper in names:
        for lower in names:
            if upper == lower or not re.search(rf"{_words(upper)} {_ON}{_words(lower)}", text):
                continue
            a, b = truth.positions[upper], truth.positions[lower]
            if abs(a[0] - b[0]) <= 2 * TOLERANCE and abs(a[1] - b[1]) <= 2 * TOLERANCE and a[2] > b[2]:
                marks.right += 1
            else:
                marks.fault(f"{upper} on {lower}")
