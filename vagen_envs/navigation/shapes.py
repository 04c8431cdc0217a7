"""What things are made of: primitives with a colour, in metres.

A thing stands on z = 0, is centred on x = y = 0 and looks towards -y (its front). x is its right side
seen from behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

Vector = tuple[float, float, float]
Color = tuple[float, float, float]

WHITE: Color = (0.93, 0.93, 0.91)
BLACK: Color = (0.07, 0.07, 0.08)
STEEL: Color = (0.70, 0.72, 0.75)
GRAPHITE: Color = (0.25, 0.26, 0.29)
WOOD: Color = (0.55, 0.36, 0.20)


@dataclass(frozen=True, slots=True)
class Part:
    """One primitive.

    Attributes:
        shape: `box`, `cylinder`, `ellipsoid` or `capsule`.
        size: half width, depth and height; radius and half height; radii; radius and half length.
        at: its centre.
        turn: rotation about x, y, z in degrees, intrinsic, in this order.
        color: red, green, blue from 0 to 1.
        glow: how much light it gives off, 0 to 1.
        shine: how much it mirrors lamps, 0 to 1.
    """

    shape: str
    size: tuple[float, ...]
    at: Vector
    color: Color
    turn: Vector = (0.0, 0.0, 0.0)
    glow: float = 0.0
    shine: float = 0.1


def box(
    width: float,
    depth: float,
    height: float,
    at: Vector,
    color: Color,
    turn: Vector = (0, 0, 0),
    glow: float = 0.0,
    shine: float = 0.1,
) -> Part:
    """A box whose bottom is at `at[2]` before it is turned about its centre."""
    x, y, z = at
    return Part("box", (width / 2, depth / 2, height / 2), (x, y, z + height / 2), color, turn, glow, shine)


def rod(radius: float, height: float, at: Vector, color: Color, glow: float = 0.0, shine: float = 0.1) -> Part:
    """An upright cylinder whose bottom is at `at`."""
    x, y, z = at
    return Part("cylinder", (radius, height / 2), (x, y, z + height / 2), color, glow=glow, shine=shine)


def disc(radius: float, thick: float, at: Vector, color: Color, tilt: float = 0.0, glow: float = 0.0) -> Part:
    """A cylinder with its face to the front, leaning back by `tilt` degrees; `at` is its centre."""
    return Part("cylinder", (radius, thick / 2), at, color, (90.0 - tilt, 0.0, 0.0), glow)


def ball(
    at: Vector,
    color: Color,
    rx: float,
    ry: float | None = None,
    rz: float | None = None,
    turn: Vector = (0, 0, 0),
    glow: float = 0.0,
    shine: float = 0.1,
) -> Part:
    """An ellipsoid around `at`; a sphere if only one radius is given."""
    return Part("ellipsoid", (rx, ry or rx, rz or rx), at, color, turn, glow, shine)


def bar(start: Vector, end: Vector, radius: float, color: Color, shine: float = 0.1) -> Part:
    """A capsule between two points; they go into `at` and `turn` as they are."""
    return Part("capsule", (radius,), start, color, end, 0.0, shine)


def taper(
    low: float,
    high: float,
    height: float,
    at: Vector,
    color: Color,
    steps: int = 4,
    glow: float = 0.0,
    shine: float = 0.1,
) -> list[Part]:
    """A round body whose radius goes from `low` at its foot to `high` at its top, in steps."""
    x, y, z = at
    each = height / steps
    return [
        rod(low + (high - low) * (i + 0.5) / steps, each, (x, y, z + i * each), color, glow, shine)
        for i in range(steps)
    ]


def shade(color: Color, factor: float) -> Color:
    """The colour darker (below 1) or lighter (above 1)."""
    return tuple(min(1.0, channel * factor) for channel in color)  # type: ignore[return-value]
