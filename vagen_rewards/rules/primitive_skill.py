"""PrimitiveSkill: coordinates of things, right within 10 mm an axis (VAGEN, appendix D.1), and how things stand."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import collections
import functools
import re
from bisect import bisect_right
from typing import Any

from vagen_envs.core import State
from vagen_rewards.rules.front import prepare
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.modality import mentions
from vagen_rewards.rules.poses import read as read_poses
from vagen_rewards.rules.readings import Claim, Reading
from vagen_rewards.rules.scene_facts import At, Lies, OffTargets, near
from vagen_rewards.rules.scene_relations import Said, relations_of
from vagen_rewards.scores import Part

COLOURS = ("red", "green", "yellow", "blue", "purple", "orange", "white", "black")
NAMES = (*[f"{colour}_cube" for colour in COLOURS], "left_target", "right_target", "apple", "drawer", "handle")

_NESTED = re.compile(
    r"[,{]?\s*\n[\s\-]*(?=[\"']?(?:[xyz]|position|coordinates|pos|location|center|centre)[\"']?\s*[:=])"
)
_POINT = re.compile(r"[(\[] ?-?\d+(?:\.\d+)? ?,")
_IN_TABLE = re.compile(r"\|\s*(-?\d+(?:\.\d+)?)\s*\|\s*(-?\d+(?:\.\d+)?)\s*\|\s*(-?\d+(?:\.\d+)?)(?=\s*\||$)")
_MARKUP = str.maketrans({'"': " ", "'": " ", "`": " ", "*": " ", "$": " ", "\\": " ", "|": " "})
_THE_OTHER = re.compile(
    rf"\b(?:one|the other(?: one)?|another(?: one)?|the (?:first|second|third|last)(?: one)?)(?: of them)?(?: cube)?"
    rf" is ({'|'.join(COLOURS)})\b(?! cube)"
)
_GREATER = re.compile(
    r"\bhas (?:a |an )?(smaller|lower|larger|greater|higher|bigger) ([xy])(?:[- ]?(?:coordinate|value))? than\b"
)
_ONLY_COLOUR = re.compile(
    rf"\b({'|'.join(COLOURS)})(?=(?: is)? ?(?:at|@|=|:|near|→)? ?[(\[] ?-?\d|(?: ?[:=@]| is at| at) ?-?\d{{1,4}}(?:\.\d+)? ?,)"
)
"""In "two cubes: red at (10, 20, 20), green at …" the colours are the cubes'."""
_COLOUR_ALONE = re.compile(
    rf"(?<!is )(?<!are )(?<!in )(?<!looks )(?<!painted )(?<!colored )(?<!coloured )"
    rf"\b(?:{'|'.join(COLOURS)})(?= (?:is|has been|sits|rests|lies|stands|remains)\b(?! (?:a|an|the|not)? ?colou?r))"
    rf"|(?:(?<= of )|(?<= on )|(?<= than )|(?<= behind )|(?<= under )|(?<= below )|(?<= above )|(?<= of the )|(?<= than the )|(?<= behind the ))"
    rf"(?:{'|'.join(COLOURS)})(?=\s*(?:[.,;)]|$|and\b))"
)
"""In "red is right of green" they are as well."""
_THE_MOST = re.compile(
    r"\b(?:the )?(leftmost|rightmost|nearest|closest|farthest|furthest)(?: (?:cube|block|one|object))?( is|:) (?:the )?"
    rf"({'|'.join(COLOURS)})(?: (?:cube|one|block))?(?=\s*(?:[.,;)]|$|and\b|while\b))"
)
"""In "the leftmost cube is the red one" the red cube is the leftmost."""

_SIDES = {
    ("y", True): "is left of", ("y", False): "is right of", ("x", True): "is behind", ("x", False): "is in front of"
}  # fmt: skip
"""By axis, and whether there is less of it."""

_MATTERS = re.compile(
    r"\d|\b(?:left|right|front|behind|on|onto|under|above|below|between|next|near|inside|in|into|outside|open|closed|shut"
    r"|holds?|holding|held|stacked|higher|lower|closer|closest|leftmost|rightmost|nearest|further|farthest)\b"
)


def claims_of(text: str, part: Part) -> Reading:
    """Coordinates of named things, how things stand, what is held, how far the drawer is open."""
    return _claims(text, NAMES)


@functools.lru_cache(maxsize=8192)
def _claims(text: str, names: tuple[str, ...]) -> Reading:
    if "\n" in text:
        text = _NESTED.sub(lambda match: ",".ljust(len(match[0])), text)
    prepared = prepare("primitive_skill", text)
    starts, pieces, length = [0], [], 0
    for words, _ in prepared.sentences:
        pieces.append(_plainer(words))
        length += len(pieces[-1]) + 2
        starts.append(length)
    joined = ". ".join(pieces)
    poses, spans = read_poses(joined, names)
    said = [Said(At(name, pose.at, pose.hedged), pose.start) for name, each in poses.items() for pose in each]
    said += relations_of(joined, spans)
    where = [prepared.sentences[bisect_right(starts, each.start) - 1][1] for each in said]
    read_of = set(where)
    placed = collections.Counter([span for span, each in zip(where, said, strict=True) if isinstance(each.fact, At)])
    unread, matters = {*prepared.left_out}, [*prepared.matters]
    for (_, span), start, piece in zip(prepared.sentences, starts, pieces, strict=False):
        if span in read_of and len(_POINT.findall(piece)) <= placed[span]:
            continue
        unread.add(span)
        named = any(start <= at < start + len(piece) for _, at, _ in spans)
        if (named or "cube" in piece or "(" in piece) and _MATTERS.search(piece):
            matters.append(span)
    claims = tuple([Claim(span, each.fact) for span, each in zip(where, said, strict=True)])
    return Reading(claims, tuple(sorted(unread)), tuple(matters))


def _plainer(words: str) -> str:
    """Without quotes and markup; "the other one is green" with its noun."""
    if "|" in words:
        words = _IN_TABLE.sub(r" (\1, \2, \3)", words)
    words = words.translate(_MARKUP)
    words = words.replace("-to-", " to ").replace("drawer s handle", "handle")
    if " is" in words or ":" in words:
        words = _THE_MOST.sub(r"\3 cube is the \1", words)
    if "(" in words or "[" in words or "," in words:
        words = _ONLY_COLOUR.sub(r"\1 cube", words)
    if " than " in words:
        words = _GREATER.sub(lambda match: _SIDES[match[2], match[1] in ("smaller", "lower")], words)
    if mentions(words, COLOURS):
        words = _COLOUR_ALONE.sub(lambda match: f"{match[0]} cube", words)
    if " is " in words:
        words = _THE_OTHER.sub(r"the \1 cube", words)
    return " ".join(words.split())


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over named things with coordinates; how things stand counts as further claims."""
    truth: Any = state
    names = tuple(dict.fromkeys((*NAMES, *truth.positions)))
    reading = _claims(text, names)
    marks = Marks(wanted=len(truth.positions), unread=reading.unread, matters=bool(reading.matters))
    said: dict[str, list[At]] = {}
    essential = False  # that things lie on the table, and not on their targets yet, is so in nearly every state
    for claim in reading.claims:
        fact: Any = claim.key
        if isinstance(fact, At):
            said.setdefault(fact.name, []).append(fact)
            continue
        essential = essential or not isinstance(fact, Lies | OffTargets)
        holds = fact.holds(state)
        if holds:
            marks.right += 1
        elif holds is not None:
            marks.fault(" ".join(text[slice(*claim.span)].split())[:60])
    for name, poses in said.items():
        if name in truth.positions:
            _place(marks, name, poses, truth.positions[name])
        else:
            marks.fault(f"there is no {name}", len(poses))
    marks.essential = essential or bool(said)
    # whether it is enough to say that no cube has come to its target, one may differ
    marks.matters = marks.matters or (
        not marks.essential and any(isinstance(each.key, OffTargets) for each in reading.claims)
    )
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
