"""The geometry of SVG's basic shapes: their outlines as points, and transforms."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from vagen_envs.svg.check import local_name

Points = NDArray[np.float64]
"""Of shape (count, 2): x and y."""
Matrix = tuple[float, float, float, float, float, float]
"""As in SVG: x' = a x + c y + e, y' = b x + d y + f."""

IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
Length = Callable[[str | None, str], float]
"""Pixels of a length: its text and its axis, `x`, `y` or `r` for neither."""

_NUMBER = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?")
_TRANSFORM = re.compile(r"(?<!\w)(\w++)\s*+\(([^()]*+)\)")
_SHARES = np.arange(1, 9)[:, None] / 8  # 8 points of a curve: boxes are then right to 1 % of its size
_TURN = np.linspace(0, 2 * math.pi, 32, endpoint=False)
_CIRCLE = np.stack((np.cos(_TURN), np.sin(_TURN)), axis=1)


def numbers(text: str) -> list[float]:
    """The numbers in a text."""
    return [float(word) for word in _NUMBER.findall(text)]


def times(one: Matrix, other: Matrix) -> Matrix:
    """The transform that does `other` first."""
    a, b, c, d, e, f = one
    g, h, i, j, k, m = other
    return a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * m + e, b * k + d * m + f


def apply(matrix: Matrix, points: Points) -> Points:
    """The transformed points."""
    a, b, c, d, e, f = matrix
    return points @ np.array([[a, b], [c, d]]) + (e, f)


def read_transform(text: str | None) -> Matrix:
    """The matrix of a `transform`; functions that aren't known, or lack numbers, change nothing."""
    matrix = IDENTITY
    for name, inside in _TRANSFORM.findall(text or ""):
        values = numbers(inside)
        if "rad" in inside and "grad" not in inside:
            values[:1] = [math.degrees(each) for each in values[:1]]
        matrix = times(matrix, _function(name, values))
    return matrix


def _function(name: str, values: list[float]) -> Matrix:
    if not values:
        return IDENTITY
    first, second = values[0], values[1] if len(values) > 1 else None
    if name == "matrix" and len(values) == 6:
        return tuple(values)  # type: ignore[return-value]
    if name.startswith("translate"):
        x, y = (0.0, first) if name == "translateY" else (first, second or 0.0)
        return 1.0, 0.0, 0.0, 1.0, x, y
    if name.startswith("scale"):
        x, y = (first, first if second is None else second) if name == "scale" else (first, 1.0)
        return (x if name != "scaleY" else 1.0), 0.0, 0.0, (y if name != "scaleY" else first), 0.0, 0.0
    turn = math.radians(first)
    if name == "rotate":
        x, y = (values[1], values[2]) if len(values) == 3 else (0.0, 0.0)
        spin = (math.cos(turn), math.sin(turn), -math.sin(turn), math.cos(turn), 0.0, 0.0)
        return times(times((1.0, 0.0, 0.0, 1.0, x, y), spin), (1.0, 0.0, 0.0, 1.0, -x, -y))
    if name == "skewX":
        return 1.0, 0.0, math.tan(turn), 1.0, 0.0, 0.0
    if name == "skewY":
        return 1.0, math.tan(turn), 0.0, 1.0, 0.0, 0.0
    return IDENTITY


def outlines_of(element: Element, length: Length) -> tuple[str | None, list[Points]]:
    """The name of a shape, if its element says it, and its outlines. Empty for elements that draw no shape."""
    name, get = local_name(element), element.get
    if name == "path":
        return None, _path(get("d", ""))
    if name in ("polygon", "polyline"):
        values = numbers(get("points", ""))
        points = np.array(values[: len(values) // 2 * 2]).reshape(-1, 2)
        return ("line" if name == "polyline" else None), [points] if len(points) > 1 else []
    if name == "line":
        ends = [[length(get("x1"), "x"), length(get("y1"), "y")], [length(get("x2"), "x"), length(get("y2"), "y")]]
        return "line", [np.array(ends)]
    if name == "rect":
        x, y = length(get("x"), "x"), length(get("y"), "y")
        width, height = length(get("width"), "x"), length(get("height"), "y")
        corners = [[x, y], [x + width, y], [x + width, y + height], [x, y + height]]
        return "rectangle", [np.array(corners)] if width > 0 and height > 0 else []
    if name in ("circle", "ellipse"):
        if name == "circle":
            wide = high = length(get("r"), "r")
        else:  # one that isn't stated is the other (SVG 2, "auto")
            wide, high = length(get("rx", get("ry")), "x"), length(get("ry", get("rx")), "y")
        centre = np.array([length(get("cx"), "x"), length(get("cy"), "y")])
        return name, [centre + _CIRCLE * (wide, high)] if wide > 0 and high > 0 else []
    return None, []


def _path(data: str) -> list[Points]:
    from fontTools.pens.recordingPen import DecomposingRecordingPen
    from fontTools.svgLib.path.parser import parse_path

    pen = DecomposingRecordingPen({})
    with contextlib.suppress(Exception):  # what stands before an error is drawn (SVG 2, section 9.5.4)
        parse_path(data, pen)
    found: list[list[Any]] = []
    for kind, points in pen.value:
        if kind == "moveTo":
            found.append([np.array(points, float)])
        elif kind == "lineTo":
            found[-1].append(np.array(points, float))
        elif kind in ("curveTo", "qCurveTo"):
            controls = np.array([found[-1][-1][-1], *points])
            found[-1].append(_cubic(controls) if len(controls) == 4 else _quadratic(controls))
    return [np.concatenate(each) for each in found if len(each) > 1]


def _cubic(p: Points) -> Points:
    t, s = _SHARES, 1 - _SHARES
    return s**3 * p[0] + 3 * s * s * t * p[1] + 3 * s * t * t * p[2] + t**3 * p[3]


def _quadratic(p: Points) -> Points:
    t, s = _SHARES, 1 - _SHARES
    return s * s * p[0] + 2 * s * t * p[1] + t * t * p[2]


def shape_of(outlines: list[Points]) -> str:
    """What outlines look like: circle, ellipse, rectangle (maybe rounded), triangle, line or just shape."""
    if len(outlines) != 1:
        return "shape"
    points = outlines[0]
    points = points[np.concatenate(([True], (points[1:] != points[:-1]).any(axis=1)))]
    low, high = points.min(axis=0), points.max(axis=0)
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
    # A circle fills 0.785 of its box; a square whose corners are rounded by a quarter of its side passes, by 0.3 not.
    if area > 0.9 * width * height:
        return "rectangle"
    radii = np.hypot(*((points - (low + high) / 2) / (width, height)).T)
    # Within 3 % of an ellipse: a regular octagon passes, a hexagon doesn't.
    if len(points) >= 6 and radii.max() < 0.515 and radii.min() > 0.485:
        return "circle" if 0.95 < width / height < 1.05 else "ellipse"
    return "shape"
