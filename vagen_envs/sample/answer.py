r"""What an answer says here: a value in `\boxed{…}`, or a list of boxes (V-Triune, section 3.2 and
figure 8).
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from vagen_envs.bounds import Number, Several
from vagen_envs.errors import NotBoxesError
from vagen_envs.replies import Action, Refused
from vagen_envs.seeding import HashStream

MOST_BOXES = 1_000
"""Matching is cubic in their number: a reply must not choose how long its score takes."""
LONGEST = 200_000
"""Characters of a list of boxes; longer ones aren't read."""

_EDGES = Several(Number(), 4, 4)
_BRACES = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)


def boxed(text: str) -> str | None:
    r"""What stands in the last `\boxed{…}` whose braces are balanced, else `None`. Linear in the
    text.
    """
    opened: list[tuple[bool, int]] = []  # whether it is a box's brace, and where its content begins
    last = (-1, -1)
    for match in _BRACES.finditer(text, max(0, text.find("\\boxed"))):
        if match[0] == "}":
            if opened:
                is_box, start = opened.pop()
                last = max(last, (start, match.start())) if is_box else last
        elif match[0].endswith("{") and match[0] != "\\{":
            opened.append((match[0] != "{", match.end()))
    return text[slice(*last)].strip() if last[0] >= 0 else None


class AnswerText:
    r"""A reply's answer: `\boxed{…}`, or from the first `[` to the last `]`; what stands around it
    is dropped.
    """

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        if value := boxed(piece):
            return Action("boxed", (), f"\\boxed{{{value}}}", start, end)
        if boxes := bracketed(piece):
            return Action("boxes", (), boxes, start, end)
        return Refused(
            "unknown_action", "the answer has neither \\boxed{…} nor a list of boxes […]"
        )

    def summary(self) -> str:
        return "\\boxed{value}, or a list of boxes [{'bbox_2d': …, 'label': …}, …]"

    def random(self, stream: HashStream, count: int) -> Sequence[str]:
        """Numbers from 0 to 20."""
        return [f"\\boxed{{{stream.below(21)}}}" for _ in range(count)]


class Box(NamedTuple):
    """A box: left, upper, right and lower edge in whatever unit the sample has, and what is in
    it.
    """

    x1: float
    y1: float
    x2: float
    y2: float
    label: str

    @property
    def area(self) -> float:
        """0 for a box that is turned inside out."""
        return max(0.0, self.x2 - self.x1) * max(0.0, self.y2 - self.y1)


def read_boxes(text: str) -> list[Box]:
    """The boxes of a list in JSON or Python's notation, whatever stands around it. Linear in the
    text.

    Labels are compared without regard to case and white space around them, so they are stored that
    way. Other entries, such as a confidence, are passed over.

    Raises:
        NotBoxesError: it isn't such a list.
    """
    words = bracketed(text)
    if words is None:
        raise NotBoxesError("there is no list […]")
    found = _literal(words)
    if not isinstance(found, list):
        raise NotBoxesError("it is not one list")
    if len(found) == 4 and all(isinstance(each, int | float) for each in found):
        raise NotBoxesError("it is four numbers; each box needs bbox_2d and label")
    if len(found) > MOST_BOXES:
        raise NotBoxesError(f"it has {len(found)} boxes; at most {MOST_BOXES} are read")
    return [_box(each, i) for i, each in enumerate(found)]


def bracketed(text: str) -> str | None:
    """From the first `[` to the last `]`."""
    first = text.find("[")
    last = text.rfind("]")
    return text[first : last + 1] if 0 <= first < last else None


def _literal(text: str) -> object:
    if len(text) > LONGEST:
        raise NotBoxesError(f"it has {len(text)} characters; at most {LONGEST} are read")
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return read(text)
    raise NotBoxesError("it is neither JSON nor Python")


def _box(entry: object, number: int) -> Box:
    if not isinstance(entry, dict):
        raise NotBoxesError(f"entry {number} is not a dictionary")
    edges = entry.get("bbox_2d", ())
    label = entry.get("label", "")
    if not _EDGES.admits(edges):
        raise NotBoxesError(f"bbox_2d of entry {number} is not a list of four numbers, all finite")
    if not isinstance(label, str):
        raise NotBoxesError(f"label of entry {number} is not a string")
    x1, y1, x2, y2 = map(float, edges)
    return Box(x1, y1, x2, y2, " ".join(label.split()).casefold())


def iou(one: Box, other: Box) -> float:
    """Intersection over union of two boxes, 0 to 1 (V-Triune, equation 3); 0 if both are empty.
    Labels aside.
    """
    width = min(one.x2, other.x2) - max(one.x1, other.x1)
    height = min(one.y2, other.y2) - max(one.y1, other.y1)
    shared = 0.0
    if one.area and other.area:
        shared = max(0.0, width) * max(0.0, height)
    union = one.area + other.area - shared
    return shared / union if union > 0 else 0.0
