"""The geometry of SVG's basic shapes: their outlines as points, and transforms."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from xml.etree.ElementTree import Element

import numpy as np
from fontTools.misc.transform import Identity, Offset, Scale, Transform
from fontTools.pens.recordingPen import RecordingPen
from fontTools.svgLib.path.parser import parse_path
from numpy.typing import NDArray

from vagen_envs.svg.check import local_name

Points = NDArray[np.float64]
"""(count, 2) x and y of points."""
Length = Callable[..., float]
"""Pixels of a length: its text, its axis (`x`, `y` or `r` for neither), and what counts for a text
that is none.
"""

_NUMBER = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?")
_TRANSFORM = re.compile(r"(?<!\w)(\w++)\s*+\(([^()]*+)\)")
_SHARES = np.arange(1, 9) / 8  # 8 points of a curve: boxes are then right to 1 % of its size


def _bernstein(n: int) -> Points:
    """(8, n + 1) How much each control point of a curve of degree n counts at each share."""
    shares = [math.comb(n, i) * _SHARES**i * (1 - _SHARES) ** (n - i) for i in range(n + 1)]
    return np.stack(shares, axis=1)


_CUBIC = _bernstein(3)
_QUADRATIC = _bernstein(2)
_FUNCTIONS: dict[str, Callable[..., Transform]] = {
    "matrix": lambda *six: Transform._make(six),
    "translate": lambda x, y=0.0, *_: Offset(x, y),
    "translateX": lambda x, *_: Offset(x, 0.0),
    "translateY": lambda y, *_: Offset(0.0, y),
    "scale": lambda x, y=None, *_: Scale(x, y),
    "scaleX": lambda x, *_: Scale(x, 1.0),
    "scaleY": lambda y, *_: Scale(1.0, y),
    "rotate": lambda angle, *at: _rotation(angle, *at or (0.0, 0.0)),
    "skewX": lambda angle, *_: Identity.skew(math.radians(angle)),
    "skewY": lambda angle, *_: Identity.skew(0.0, math.radians(angle)),
}
_TURN = np.linspace(0, 2 * math.pi, 32, endpoint=False)
_CIRCLE = np.stack((np.cos(_TURN), np.sin(_TURN)), axis=1)


def numbers(text: str) -> list[float]:
    """The numbers in a text."""
    return [float(word) for word in _NUMBER.findall(text)]


def apply(matrix: Transform, points: Points) -> Points:
    """The transformed points."""
    a, b, c, d, e, f = matrix
    return points @ np.array([[a, b], [c, d]]) + (e, f)


def _rotation(degrees: float, x: float, y: float) -> Transform:
    return Offset(x, y).rotate(math.radians(degrees)).translate(-x, -y)


def read_transform(text: str | None) -> Transform:
    """The matrix of a `transform`; functions that aren't known, or have too few numbers, change
    nothing.
    """
    matrix = Identity
    for name, inside in _TRANSFORM.findall(text or ""):
        values = numbers(inside)
        with contextlib.suppress(KeyError, TypeError):
            matrix = matrix.transform(_FUNCTIONS[name](*values))
    return matrix


def outlines_of(element: Element, length: Length) -> tuple[str | None, list[Points]]:
    """The name of a shape, if its element says it, and its outlines. Empty for elements that draw
    no shape.
    """
    name = local_name(element)
    if name == "path":
        return None, _path(element.get("d", ""))
    if name in ("polygon", "polyline"):
        values = numbers(element.get("points", ""))
        points = np.array(values[: len(values) // 2 * 2]).reshape(-1, 2)
        outlines = [points] if len(points) > 1 else []
        return ("line" if name == "polyline" else None), outlines
    if name == "line":
        first = [length(element.get("x1"), "x"), length(element.get("y1"), "y")]
        last = [length(element.get("x2"), "x"), length(element.get("y2"), "y")]
        return "line", [np.array([first, last])]
    if name == "rect":
        return "rectangle", _rectangle(element, length)
    if name in ("circle", "ellipse"):
        return name, _ellipse(element, length)
    return None, []


def _rectangle(element: Element, length: Length) -> list[Points]:
    x = length(element.get("x"), "x")
    y = length(element.get("y"), "y")
    width = length(element.get("width"), "x")
    height = length(element.get("height"), "y")
    if width <= 0 or height <= 0:
        return []
    corners = [[x, y], [x + width, y], [x + width, y + height], [x, y + height]]
    return [np.array(corners)]


def _ellipse(element: Element, length: Length) -> list[Points]:
    if local_name(element) == "circle":
        across = length(element.get("r"), "r")
        down = across
    else:
        across = length(element.get("rx"), "x", -1.0)
        down = length(element.get("ry"), "y", -1.0)
        # One that isn't stated, or negative, is the other (SVG 2, "auto").
        if across < 0:
            across = down
        elif down < 0:
            down = across
    if across <= 0 or down <= 0:
        return []
    centre = np.array([length(element.get("cx"), "x"), length(element.get("cy"), "y")])
    return [centre + _CIRCLE * (across, down)]


def _path(data: str) -> list[Points]:
    """The contours of a path, with eight points for each curve."""
    pen = RecordingPen()
    # What stands before an error is drawn (SVG 2, section 9.5.4).
    with contextlib.suppress(Exception):
        parse_path(data, pen)
    contours: list[list[tuple[float, float]]] = []
    for command, points in pen.value:
        if command == "moveTo":
            contours.append([*points])
        elif command == "lineTo":
            contours[-1] += points
        elif points:
            curve = np.array([contours[-1][-1], *points])
            contours[-1] += ((_CUBIC if len(curve) == 4 else _QUADRATIC) @ curve).tolist()
    return [np.array(contour) for contour in contours if len(contour) > 1]


def shape_of(outlines: list[Points]) -> str:
    """What outlines look like: circle, ellipse, rectangle (maybe rounded), triangle, line or just
    shape.
    """
    if len(outlines) != 1:
        return "shape"
    points = outlines[0]
    points = points[np.concatenate(([True], (points[1:] != points[:-1]).any(axis=1)))]
    low = points.min(axis=0)
    high = points.max(axis=0)
    # A path that ends where it began, but for rounded decimals, has no corner more.
    if len(points) > 1 and math.dist(points[0], points[-1]) < 0.01 * math.dist(low, high):
        points = points[:-1]
    width, height = high - low
    if len(points) < 3 or min(width, height) <= 0:
        return "line"
    if len(points) == 3:
        return "triangle"
    x, y = points.T
    area = abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
    # A circle fills 0.785 of its box; a square whose corners are rounded by a quarter of its side
    # passes, by 0.3 not.
    if area > 0.9 * width * height:
        return "rectangle"
    radii = np.hypot(*((points - (low + high) / 2) / (width, height)).T)
    # Within 3 % of an ellipse: a regular octagon passes, a hexagon doesn't.
    if len(points) >= 6 and radii.max() < 0.515 and radii.min() > 0.485:
        return "circle" if 0.95 < width / height < 1.05 else "ellipse"
    return "shape"
