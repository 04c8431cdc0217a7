"""PrimitiveSkill: coordinates of named things, right within 10 mm an axis (VAGEN, appendix D.1)."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from vagen_envs.core import State
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.modality import denies, mentions, plain
from vagen_rewards.rules.poses import UNIT, point_of, read
from vagen_rewards.rules.readings import Claim, Reading
from vagen_rewards.rules.scene_facts import At, Held, On, Open, near
from vagen_rewards.scores import Part

Spans = Sequence[tuple[str, int, int]]

_GRIPS = re.compile(
    r"(?<!to )(?<!can )(?<!could )(?<!should )\b(?:hold(?:s|ing)?|grasp(?:s|ing|ed)|grip(?:s|ping|ped)|held"
    r"|in (?:the|its|my) (?:gripper|hand|grip))\b(?: (?:the|a|onto|it|nothing|anything)\b)*"
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


NAMES = (
    "red_cube",
    "green_cube",
    "yellow_cube",
    "blue_cube",
    "left_target",
    "right_target",
    "apple",
    "drawer",
    "handle",
)


def claims_of(text: str, part: Part) -> Reading:
    """Coordinates of named things, what is on what, what is held, how far the drawer is open."""
    return _claims(text, NAMES)


@functools.lru_cache(maxsize=8192)
def _claims(text: str, names: tuple[str, ...]) -> Reading:
    lowered = plain(text)
    said, spans = read(lowered, names)
    facts: list[At | On | Held | Open] = [
        At(name, pose.at, pose.hedged) for name, poses in said.items() for pose in poses
    ]
    if mentions(lowered, _OF_THE_GRIPPER):
        facts += _held(lowered, spans)
    if len(spans) > 1:
        facts += _stacked(lowered, spans)
    if "drawer" in lowered:
        facts += _opened(lowered)
    return Reading(tuple([Claim((0, len(text)), fact) for fact in facts]))


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over named things with coordinates; what is held, stacked or open counts as further claims."""
    truth: Any = state
    names = tuple(truth.positions)
    marks = Marks(wanted=len(names))
    said: dict[str, list[At]] = {}
    for _, fact in _claims(text, names).claims:
        if isinstance(fact, At):
            said.setdefault(fact.name, []).append(fact)
    for name, poses in said.items():
        _place(marks, name, poses, truth.positions[name])
    for _, fact in _claims(text, names).claims:
        if isinstance(fact, At):
            continue
        holds = fact.holds(state)
        if holds:
            marks.right += 1
        elif holds is not None:
            marks.fault(str(fact))
    return marks


def _place(marks: Marks, name: str, poses: list[At], place: tuple[int, ...]) -> None:
    right, doubtful = [near(pose.point, place) for pose in poses], [pose.hedged for pose in poses]
    if any(doubtful) or not (all(right) or all(near(pose.point, poses[0].point) for pose in poses)):
        marks.fault(f"{name}: {len(poses)} places, or a doubtful one", len(poses))
    elif all(right):
        marks.right += 1
        marks.found += 1
    else:
        marks.fault(f"{name} at {poses[0].point}, truly at {tuple(place)}")


def _held(text: str, spans: Spans) -> Iterator[Held]:
    """The gripper holds the thing after the verb, or else the one before it."""
    for match in list(_EMPTY.finditer(text))[:20]:
        yield Held("", bool(match["full"]))
    for match in list(_GRIPS.finditer(text))[:20]:
        start = max(text.rfind(mark, 0, match.start()) for mark in (".", ";", "\n")) + 1
        before = text[start : match.start()]
        if "nothing" in match[0] or "anything" in match[0] or "nothing" in before[-20:]:
            continue
        after = [name for name, at, _ in spans if 0 <= at - match.end() <= 1]
        earlier = [name for name, at, _ in spans if at < match.start()]
        name = after[:1] or earlier[-1:]
        if name:
            yield Held(name[0], denies(before[-30:]))


def _stacked(text: str, spans: Spans) -> Iterator[On]:
    for (first, _, end), (second, start, _) in itertools.pairwise(spans):
        relation = _ON.fullmatch(text, end, start) if first != second and start - end < 60 else None
        if relation is None:
            continue
        upper, lower = (first, second) if relation["on"] else (second, first)
        yield On(upper, lower, bool(relation["no"]))


def _opened(text: str) -> Iterator[Open]:
    match = _OPENED.search(text)
    if match is None:
        return
    if match["by"]:
        yield Open(point_of(match["by"])[0])
    else:
        yield Open(None, (match["how"] != "open") != bool(match["no"]))
