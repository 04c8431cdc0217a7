"""Boxes as models write them: `[{'bbox_2d': [x1, y1, x2, y2], 'label': 'name'}, …]` (V-Triune, figure 8)."""

from __future__ import annotations

import ast
import contextlib
import json
import math
from typing import NamedTuple

MOST_BOXES = 1_000
"""Matching is cubic in their number: a reply must not choose how long its score takes."""
LONGEST = 200_000
"""Characters of a list of boxes; longer ones aren't read."""


class Box(NamedTuple):
    """A box: left, upper, right and lower edge in whatever unit the sample has, and what is in it."""

    x1: float
    y1: float
    x2: float
    y2: float
    label: str

    @property
    def area(self) -> float:
        """0 for a box that is turned inside out."""
        return max(0.0, self.x2 - self.x1) * max(0.0, self.y2 - self.y1)


class NotBoxesError(ValueError):
    """A text isn't a list of boxes. The message says why."""


def read_boxes(text: str) -> list[Box]:
    """The boxes of a list in JSON or Python's notation, whatever stands around it. Linear in the text.

    Labels are compared without regard to case and white space around them, so they are stored that way. Other
    entries, such as a confidence, are passed over.

    Raises:
        NotBoxesError: it isn't such a list.
    """
    first, last = text.find("["), text.rfind("]")
    if not 0 <= first < last:
        raise NotBoxesError("there is no list […]")
    found = _literal(text[first : last + 1])
    if isinstance(found, list) and len(found) == 4 and all(isinstance(each, int | float) for each in found):
        raise NotBoxesError("it is four numbers; each box needs bbox_2d and label")
    if not isinstance(found, list):
        raise NotBoxesError("it is not one list")
    if len(found) > MOST_BOXES:
        raise NotBoxesError(f"it has {len(found)} boxes; at most {MOST_BOXES} are read")
    return [_box(each, i) for i, each in enumerate(found)]


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
    edges = entry.get("bbox_2d")
    if not isinstance(edges, list | tuple) or len(edges) != 4:
        raise NotBoxesError(f"bbox_2d of entry {number} is not a list of four numbers")
    label = entry.get("label", "")
    if not isinstance(label, str):
        raise NotBoxesError(f"label of entry {number} is not a string")
    for edge in edges:
        if isinstance(edge, bool) or not isinstance(edge, int | float) or not math.isfinite(edge):
            raise NotBoxesError(f"bbox_2d of entry {number} is not four finite numbers")
    x1, y1, x2, y2 = map(float, edges)
    return Box(x1, y1, x2, y2, " ".join(label.split()).casefold())


def iou(one: Box, other: Box) -> float:
    """Intersection over union of two boxes, 0 to 1 (V-Triune, equation 3); 0 if both are empty. Labels aside."""
    width = min(one.x2, other.x2) - max(one.x1, other.x1)
    height = min(one.y2, other.y2) - max(one.y1, other.y1)
    shared = max(0.0, width) * max(0.0, height) if one.area and other.area else 0.0
    union = one.area + other.area - shared
    return shared / union if union > 0 else 0.0
