"""PrimitiveSkill: coordinates of named things, right within 10 mm an axis (VAGEN, appendix D.1)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from vagen_envs.core import State
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.modality import denies, mentions, plain
from vagen_rewards.rules.poses import UNIT, Point, Pose, point_of, read
from vagen_rewards.scores import Part

TOLERANCE = 10
"""Millimetres on each axis, and of the drawer's opening."""

Spans = Sequence[tuple[str, int, int]]

_GRIPS = re.compile(
    r"(?<!to )(?<!can )(?<!could )(?<!should )\b(?:hold(?:s|ing)?|grasp(?:s|ing|ed)|grip(?:s|ping|ped)|held"
    r"|in (?:the|its|my) (?:gripper|hand|grip))\b(?: (?:the|a|onto|it|nothing|anything))*"
)
_EMPTY = re.compile(
    r"(?:gripper|hand) (?:is|will be|remains|stays|was) (?:now |still |then )?(?P<full>not )?(?:empty|free)"
    r"|hold(?:s|ing)? nothing|(?:nothing|no (?:object|cube|thing)) (?:is|will be)? ?(?:being )?"
    r"(?:held|grasped|in the (?:gripper|hand))"
    r"|not hold(?:ing)? anything"
)
_OF_THE_GRIPPER = ("gri", "gra", "hold", "held", "hand")
"""One of these is in whatever says what is held."""

_ON = re.compile(
    r"(?:is|will be|be|now|then|lies|sits|rests|stands|placed|stacked|put|,|_| )*(?P<no>not |no longer )?"
    r"(?:now|placed|stacked|directly|standing|resting|sitting| )*"
    r"(?:(?P<on>on top of|onto|on)|(?P<under>under|underneath|beneath|below)|(?P<carries>supports|supporting|carries))"
    r"(?: (?:the|a|top|of))* "
)
_OPENED = re.compile(
    r"drawer(?:_open_value| is| will be| opens| has been)?(?: now| still)?[\"']?\s*[:=]?\s*"
    r"(?:(?:open(?:ed)?|pulled out) (?:by )?)?"
    rf"(?:about )?(?P<by>-?\d{{1,6}}(?:\.\d+)?\s?{UNIT}?)(?![\d,])"
    r"|drawer (?:is|will be|will|stays|remains|now|still|fully|completely|wide|slightly|already|be| )*"
    r"(?P<no>not |no longer )?(?:fully |completely )?(?P<how>closed|shut|open)"
)


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over named things with coordinates; what is held, stacked or open counts as further claims."""
    truth: Any = state
    names = tuple(truth.positions)
    marks = Marks(wanted=len(names))
    lowered = plain(text)
    said, spans = read(lowered, names)
    for name, poses in said.items():
        _place(marks, name, poses, truth.positions[name])
    if mentions(lowered, _OF_THE_GRIPPER):
        _held(marks, truth, lowered, spans)
    if len(spans) > 1:
        _stacked(marks, truth, lowered, spans)
    if truth.drawer_open_value is not None:
        _opened(marks, truth.drawer_open_value, lowered)
    return marks


def _place(marks: Marks, name: str, poses: list[Pose], place: tuple[int, ...]) -> None:
    near, doubtful = [_near(pose.at, place) for pose in poses], [pose.hedged for pose in poses]
    if any(doubtful) or not (all(near) or all(_near(pose.at, poses[0].at) for pose in poses)):
        marks.fault(f"{name}: {len(poses)} places, or a doubtful one", len(poses))
    elif all(near):
        marks.right += 1
        marks.found += 1
    else:
        marks.fault(f"{name} at {poses[0].at}, truly at {tuple(place)}")


def _near(point: Point, place: Sequence[float]) -> bool:
    return all(-TOLERANCE <= a - b <= TOLERANCE for a, b in zip(point, place, strict=False))


def _claim(marks: Marks, holds: bool, words: str) -> None:
    if holds:
        marks.right += 1
    else:
        marks.fault(words)


def _held(marks: Marks, truth: Any, text: str, spans: Spans) -> None:
    """The gripper holds the thing after the verb, or else the one before it."""
    for match in list(_EMPTY.finditer(text))[:20]:
        _claim(marks, (not truth.held) != bool(match["full"]), f"the gripper holds {truth.held or 'nothing'}")
    for match in list(_GRIPS.finditer(text))[:20]:
        start = max(text.rfind(mark, 0, match.start()) for mark in (".", ";", "\n")) + 1
        before = text[start : match.start()]
        if "nothing" in match[0] or "anything" in match[0] or "nothing" in before[-20:]:
            continue
        after = [name for name, at, _ in spans if 0 <= at - match.end() <= 1]
        earlier = [name for name, at, _ in spans if at < match.start()]
        name = after[:1] or earlier[-1:]
        if name:
            denied = denies(before[-30:])
            _claim(marks, (truth.held == name[0]) != denied, f"{'not ' if denied else ''}holding the {name[0]}")


def _stacked(marks: Marks, truth: Any, text: str, spans: Spans) -> None:
    for (first, _, end), (second, start, _) in itertools.pairwise(spans):
        relation = _ON.fullmatch(text, end, start) if first != second and start - end < 60 else None
        if relation is None:
            continue
        upper, lower = (first, second) if relation["on"] else (second, first)
        a, b = truth.positions[upper], truth.positions[lower]
        on = abs(a[0] - b[0]) <= 2 * TOLERANCE and abs(a[1] - b[1]) <= 2 * TOLERANCE and a[2] > b[2]
        _claim(marks, on != bool(relation["no"]), f"{upper} on {lower}")


def _opened(marks: Marks, truth: int, text: str) -> None:
    match = _OPENED.search(text)
    if match is None:
        return
    if match["by"]:
        _claim(marks, abs(point_of(match["by"])[0] - truth) <= TOLERANCE, f"drawer {match['by']} open")
    else:
        closed = (match["how"] != "open") != bool(match["no"])
        _claim(marks, closed == (truth <= TOLERANCE), f"drawer {'closed' if closed else 'open'}")
