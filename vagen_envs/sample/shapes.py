"""Coloured shapes and strokes on a plain ground, drawn by this module alone: no font, no file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from vagen_envs.pictures import Pixels
from vagen_envs.seeding import HashStream

SIDE = 224
"""Pixels a side of a picture."""

THOUSAND = 1_000
"""Boxes are told in thousandths of the picture's width and height."""

COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 160, 70),
    "blue": (40, 90, 220),
    "yellow": (245, 200, 30),
    "purple": (140, 70, 190),
    "orange": (245, 130, 30),
    "black": (30, 30, 30),
    "pink": (240, 130, 180),
}
GROUNDS = ((255, 255, 255), (244, 240, 232), (232, 240, 246), (236, 244, 234))
SHAPES = ("circle", "square", "triangle", "star", "diamond", "cross")

_FINE = 4  # drawn so many times larger, then averaged, so that edges are smooth


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape and the square it fills: left and upper edge and side, in pixels."""

    kind: str
    colour: str
    left: int
    top: int
    side: int

    @property
    def name(self) -> str:
        """Such as `a red circle`."""
        return f"{'an' if self.colour == 'orange' else 'a'} {self.colour} {self.kind}"

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, upper, right and lower edge in thousandths of the picture."""
        edges = (self.left, self.top, self.left + self.side, self.top + self.side)
        left, top, right, bottom = (round(edge * THOUSAND / SIDE) for edge in edges)
        return left, top, right, bottom

    def overlaps(self, other: Shape, margin: int) -> bool:
        """Whether the two are nearer to each other than `margin` pixels."""
        wide = self.side if self.left < other.left else other.side
        high = self.side if self.top < other.top else other.side
        return abs(self.left - other.left) < margin + wide and abs(self.top - other.top) < margin + high


def scatter(stream: HashStream, names: Sequence[tuple[str, str]], smallest: int = 26, largest: int = 52) -> list[Shape]:
    """Shapes of these (kind, colour) at random places and sizes, none touching another."""
    while True:
        placed: list[Shape] = []
        for kind, colour in names:
            # Where a shape finds no room all are drawn again, which is quicker than a longer search in a full picture.
            for _ in range(60):
                side = smallest + stream.below(largest - smallest + 1)
                left, top = (6 + stream.below(SIDE - side - 12) for _ in range(2))
                shape = Shape(kind, colour, left, top, side)
                if not any(shape.overlaps(other, 5) for other in placed):
                    placed.append(shape)
                    break
            else:
                break
        if len(placed) == len(names):
            return placed


def draw(shapes: Iterable[Shape], ground: tuple[int, int, int]) -> Pixels:
    """The shapes as pixels, uint8 (SIDE, SIDE, 3)."""
    canvas, pen = _canvas(ground)
    for shape in shapes:
        _draw_shape(pen, shape)
    return np.array(canvas.reduce(_FINE))


def _canvas(ground: tuple[int, int, int]) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    canvas = Image.new("RGB", (SIDE * _FINE, SIDE * _FINE), ground)
    return canvas, ImageDraw.Draw(canvas)


def _draw_shape(pen: ImageDraw.ImageDraw, shape: Shape) -> None:
    left, top, side = (value * _FINE for value in (shape.left, shape.top, shape.side))
    right, bottom = left + side - 1, top + side - 1
    fill = COLOURS[shape.colour]
    if shape.kind == "circle":
        pen.ellipse((left, top, right, bottom), fill)
    elif shape.kind == "square":
        pen.rectangle((left, top, right, bottom), fill)
    elif shape.kind == "cross":
        third = side // 3
        pen.rectangle((left + third, top, right - third, bottom), fill)
        pen.rectangle((left, top + third, right, bottom - third), fill)
    else:
        corners = _CORNERS[shape.kind]
        pen.polygon([(left + x * (side - 1), top + y * (side - 1)) for x, y in corners], fill)


def _star() -> list[tuple[float, float]]:
    """A five-pointed star, stretched so that it fills the unit square."""
    points = []
    for i in range(10):
        radius, angle = (1.0 if i % 2 == 0 else 0.42), math.pi * (i / 5 - 0.5)
        points.append((radius * math.cos(angle), radius * math.sin(angle)))
    lows, highs = ([pick(point[axis] for point in points) for axis in (0, 1)] for pick in (min, max))
    return [((x - lows[0]) / (highs[0] - lows[0]), (y - lows[1]) / (highs[1] - lows[1])) for x, y in points]


_CORNERS = {
    "triangle": [(0.5, 0.0), (1.0, 1.0), (0.0, 1.0)],
    "diamond": [(0.5, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 0.5)],
    "star": _star(),
}

# Strokes of the signs in a cell 1 wide and 2 high, as the segments of a pocket calculator and three signs.
_SEGMENTS = {
    "a": ((0, 0), (1, 0)),
    "b": ((1, 0), (1, 1)),
    "c": ((1, 1), (1, 2)),
    "d": ((0, 2), (1, 2)),
    "e": ((0, 1), (0, 2)),
    "f": ((0, 0), (0, 1)),
    "g": ((0, 1), (1, 1)),
    "|": ((0.5, 0.5), (0.5, 1.5)),
    "/": ((0.1, 0.6), (0.9, 1.4)),
    "\\": ((0.9, 0.6), (0.1, 1.4)),
}
_SIGNS = {
    "0": "abcdef",
    "1": "bc",
    "2": "abged",
    "3": "abgcd",
    "4": "fgbc",
    "5": "afgcd",
    "6": "afgedc",
    "7": "abc",
    "8": "abcdefg",
    "9": "abcdfg",
    "+": "g|",
    "−": "g",
    "×": "/\\",
    " ": "",
}


def draw_signs(text: str, colour: str, ground: tuple[int, int, int], top: int) -> Pixels:
    """Pixels, uint8 (SIDE, SIDE, 3), of digits, `+`, `−`, `×` and spaces in one line, as wide as fits."""
    canvas, pen = _canvas(ground)
    cell = min(22.0, (SIDE - 32) / (1.6 * len(text)))  # pixels; a sign is followed by 0.6 of it
    left = (SIDE - cell * (1.6 * len(text) - 0.6)) / 2
    thick = cell * 0.24
    for i, sign in enumerate(text):
        corner = left + 1.6 * cell * i
        for name in _SIGNS[sign]:
            (x0, y0), (x1, y1) = _SEGMENTS[name]
            ends = [((corner + x * cell) * _FINE, (top + y * cell) * _FINE) for x, y in ((x0, y0), (x1, y1))]
            pen.line(ends, COLOURS[colour], round(thick * _FINE))
            for x, y in ends:
                half = thick * _FINE / 2
                pen.ellipse((x - half, y - half, x + half, y + half), COLOURS[colour])
    return np.array(canvas.reduce(_FINE))
