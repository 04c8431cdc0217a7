"""The geometry of SVG's basic shapes: their outlines as points, and transforms."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
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
_SHARES = np.arange(1, 9) / 8  # 8 points of a curve: boxes are then right to 1 % of its size
_CUBIC = np.stack([math.comb(3, i) * _SHARES**i * (1 - _SHARES) ** (3 - i) for i in range(4)], axis=1)
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
            values[:1] = [math.degrees(angle) for angle in values[:1]]
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


class _PointPen:
    """Collects the contours of a path as points, eight for each curve. The methods are those of fontTools' pens."""

    def __init__(self) -> None:
        self.points: list[tuple[float, float]] = []
        self.begins: list[int] = []
        self.curves: list[tuple[tuple[float, float], ...]] = []
        self.places: list[int] = []

    def moveTo(self, point: tuple[float, float]) -> None:  # noqa: N802
        self.begins.append(len(self.points))
        self.points.append(point)

    def lineTo(self, point: tuple[float, float]) -> None:  # noqa: N802
        self.points.append(point)

    def curveTo(self, *controls: tuple[float, float]) -> None:  # noqa: N802
        self.curves.append((self.points[-1], *controls))
        self.places.append(len(self.points))
        self.points += controls[-1:] * len(_CUBIC)

    def qCurveTo(self, control: tuple[float, float], end: tuple[float, float]) -> None:  # noqa: N802
        (x0, y0), (x1, y1), (x2, y2) = self.points[-1], control, end
        self.curveTo(((x0 + 2 * x1) / 3, (y0 + 2 * y1) / 3), ((x2 + 2 * x1) / 3, (y2 + 2 * y1) / 3), end)

    def closePath(self) -> None:  # noqa: N802
        pass

    endPath = closePath  # noqa: N815

    def contours(self) -> list[Points]:
        points = np.array(self.points, float).reshape(-1, 2)
        if self.curves:  # all at once: a call of NumPy takes longer than a curve
            places = np.array(self.places)[:, None] + np.arange(len(_CUBIC))
            points[places] = _CUBIC @ np.array(self.curves)
        return [contour for contour in np.split(points, self.begins[1:]) if len(contour) > 1]


def _path(data: str) -> list[Points]:
    from fontTools.svgLib.path.parser import parse_path

    pen = _PointPen()
    with contextlib.suppress(Exception):  # what stands before an error is drawn (SVG 2, section 9.5.4)
        parse_path(data, pen)
    return pen.contours()


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
