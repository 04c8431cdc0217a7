"""Pictures of generated samples: coloured shapes and signs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from vagen_envs.pictures import Pixels
from vagen_envs.seeding import HashStream

Colour = tuple[int, int, int]

SIDE = 224
"""Pixels a side of a picture."""
_DATA = tomllib.loads(Path(__file__).with_name("generated.toml").read_text(encoding="utf-8"))
COLOURS: dict[str, Colour] = {name: tuple(colour) for name, colour in _DATA["colours"].items()}
GROUNDS: tuple[Colour, ...] = tuple(map(tuple, _DATA["grounds"]))
_FINE = 4  # drawn so many times larger, then averaged, so that edges are smooth


class Shape(NamedTuple):
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
    def box(self) -> tuple[int, ...]:
        """Left, upper, right and lower edge in thousandths of the picture."""
        edges = (self.left, self.top, self.left + self.side, self.top + self.side)
        return tuple(round(edge * 1000 / SIDE) for edge in edges)

    def overlaps(self, other: Shape, margin: int) -> bool:
        """Whether the two are nearer to each other than `margin` pixels."""
        wide = self.side if self.left < other.left else other.side
        high = self.side if self.top < other.top else other.side
        return (
            abs(self.left - other.left) < margin + wide
            and abs(self.top - other.top) < margin + high
        )


def scatter(
    stream: HashStream, names: Sequence[tuple[str, str]], smallest: int = 26, largest: int = 52
) -> list[Shape]:
    """Shapes of these (kind, colour) at random places and sizes, none touching another."""
    while True:
        placed: list[Shape] = []
        for kind, colour in names:
            # Where a shape finds no room all are drawn again, which is quicker than a longer search
            # in a full picture.
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


def draw(shapes: Iterable[Shape], ground: Colour) -> Pixels:
    """The shapes as pixels, uint8 (SIDE, SIDE, 3)."""
    canvas, pen = _canvas(ground)
    for shape in shapes:
        left, top, side = (value * _FINE for value in shape[2:])
        right = left + side - 1
        bottom = top + side - 1
        third = side // 3
        fill = COLOURS[shape.colour]
        match shape.kind:
            case "circle":
                pen.ellipse((left, top, right, bottom), fill)
            case "square":
                pen.rectangle((left, top, right, bottom), fill)
            case "cross":
                pen.rectangle((left + third, top, right - third, bottom), fill)
                pen.rectangle((left, top + third, right, bottom - third), fill)
            case polygon:
                corners = _DATA["corners"][polygon]
                pen.polygon(
                    [(left + x * (side - 1), top + y * (side - 1)) for x, y in corners], fill
                )
    return np.array(canvas.reduce(_FINE))


def draw_signs(text: str, colour: str, ground: Colour, top: int) -> Pixels:
    """Pixels, uint8 (SIDE, SIDE, 3), of digits, `+`, `−`, `×` and spaces in one line, as wide as
    fits.
    """
    canvas, pen = _canvas(ground)
    cell = min(22.0, (SIDE - 32) / (1.6 * len(text)))  # pixels; a sign is followed by 0.6 of it
    left = (SIDE - cell * (1.6 * len(text) - 0.6)) / 2
    thick = cell * 0.24 * _FINE
    for i, sign in enumerate(text):
        corner = left + 1.6 * cell * i
        for name in _DATA["signs"][sign]:
            ends = [
                ((corner + x * cell) * _FINE, (top + y * cell) * _FINE)
                for x, y in _DATA["segments"][name]
            ]
            pen.line(ends, COLOURS[colour], round(thick))
            for x, y in ends:
                pen.ellipse(
                    (x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), COLOURS[colour]
                )
    return np.array(canvas.reduce(_FINE))


def _canvas(ground: Colour) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    canvas = Image.new("RGB", (SIDE * _FINE, SIDE * _FINE), ground)
    return canvas, ImageDraw.Draw(canvas)
