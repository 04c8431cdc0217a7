"""Rectangles in whole centimetres: west, south, east and north edge."""

from __future__ import annotations

from collections.abc import Iterable

Rect = tuple[int, int, int, int]


def overlap(a: Rect, b: Rect) -> bool:
    """Whether two rectangles share area."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def overlaps_any(rect: Rect, others: Iterable[Rect]) -> bool:
    """Whether a rectangle shares area with one of others."""
    return any(overlap(rect, other) for other in others)


def grown(rect: Rect, margin: int, along: int | None = None) -> Rect:
    """The rectangle with `margin` cm more to the west and east, and `along` or as many to the south and north."""
    x, y = margin, margin if along is None else along
    return rect[0] - x, rect[1] - y, rect[2] + x, rect[3] + y


def moved(rect: Rect, x: int, y: int) -> Rect:
    """The rectangle shifted by `x` and `y` cm."""
    return rect[0] + x, rect[1] + y, rect[2] + x, rect[3] + y


def is_inside(rect: Rect, width: int, depth: int) -> bool:
    """Whether a rectangle lies within a room of this size."""
    return rect[0] >= 0 and rect[1] >= 0 and rect[2] <= width and rect[3] <= depth


def turned(rect: Rect, turn: int) -> Rect:
    """The rectangle turned about the origin by 0, 90, 180 or 270 degrees, counter-clockwise."""
    for _ in range(turn // 90):
        x0, y0, x1, y1 = rect
        rect = -y1, x0, -y0, x1
    return rect
