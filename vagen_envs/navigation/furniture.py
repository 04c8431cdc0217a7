"""What rooms are furnished with. Things that stand at a wall have their back at y = +depth/2."""

# ruff: noqa: ARG001 - all builders are called alike

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vagen_envs.navigation.shapes import (
    BLACK,
    GRAPHITE,
    STEEL,
    WHITE,
    WOOD,
    Color,
    Part,
    ball,
    bar,
    box,
    disc,
    rod,
    shade,
    taper,
)


@dataclass(frozen=True, slots=True)
class Surface:
    """Where small things can stand: a rectangle at a height, in the furniture's own frame, in metres."""

    kind: str
    x0: float
    y0: float
    x1: float
    y1: float
    z: float


@dataclass(frozen=True, slots=True)
class Furniture:
    """A type of furniture.

    Attributes:
        build: its parts in a main and a second colour.
        width, depth, height: the room it takes in metres.
        surfaces: where small things can stand.
        aisle: free space in front of it, in metres, where a person would stand.
    """

    build: Callable[[Color, Color], list[Part]]
    width: float
    depth: float
    height: float
    surfaces: tuple[Surface, ...] = ()
    aisle: float = 0.55


def _legs(width: float, depth: float, height: float, thick: float, color: Color) -> list[Part]:
    x, y = width / 2 - thick, depth / 2 - thick
    return [box(thick, thick, height, (i * x, j * y, 0), color) for i in (-1, 1) for j in (-1, 1)]


def _fronts(columns: int, rows: int, width: float, y: float, low: float, high: float, color: Color) -> list[Part]:
    """Doors or drawers with handles on a front at `y`, between two heights."""
    parts = []
    wide, tall = width / columns, (high - low) / rows
    for i in range(columns):
        for j in range(rows):
            x, z = -width / 2 + wide * (i + 0.5), low + tall * j
            parts.append(box(wide - 0.03, 0.02, tall - 0.03, (x, y - 0.01, z + 0.015), color))
            parts.append(box(0.12, 0.025, 0.02, (x, y - 0.03, z + tall - 0.075), STEEL, shine=0.8))
    return parts


def _counter(main: Color, top: Color) -> list[Part]:
    return [
        box(1.2, 0.56, 0.86, (0, 0.02, 0), shade(main, 0.85)),
        box(1.2, 0.60, 0.04, (0, 0, 0.86), top, shine=0.4),
        *_fronts(2, 1, 1.2, -0.26, 0.10, 0.66, main),
        *_fronts(2, 1, 1.2, -0.26, 0.66, 0.85, main),
    ]


def _sink(main: Color, top: Color) -> list[Part]:
    tap = [
        bar((0, 0.22, 0.90), (0, 0.22, 1.16), 0.018, STEEL, 0.9),
        bar((0, 0.22, 1.16), (0, 0.04, 1.14), 0.016, STEEL, 0.9),
    ]
    return [
        box(0.9, 0.56, 0.86, (0, 0.02, 0), shade(main, 0.85)),
        box(0.9, 0.60, 0.04, (0, 0, 0.86), top, shine=0.4),
        *_fronts(2, 1, 0.9, -0.26, 0.10, 0.82, main),
        box(0.62, 0.40, 0.006, (0, -0.03, 0.90), STEEL, shine=0.9),
        box(0.54, 0.32, 0.006, (0, -0.03, 0.903), shade(STEEL, 0.45)),
        *tap,
        *[ball((x, 0.22, 0.93), STEEL, 0.035) for x in (-0.10, 0.10)],
    ]


def _stove(main: Color, top: Color) -> list[Part]:
    knobs = [disc(0.028, 0.03, (x, -0.31, 0.83), BLACK) for x in (-0.22, -0.11, 0.11, 0.22)]
    return [
        box(0.62, 0.58, 0.90, (0, 0.01, 0), WHITE),
        box(0.56, 0.02, 0.48, (0, -0.29, 0.16), GRAPHITE, shine=0.8),
        box(0.46, 0.02, 0.30, (0, -0.295, 0.22), BLACK, shine=0.9),
        box(0.50, 0.03, 0.025, (0, -0.32, 0.68), STEEL),
        *knobs,
        box(0.62, 0.03, 0.16, (0, 0.285, 0.90), WHITE),
    ]


def _fridge(main: Color, top: Color) -> list[Part]:
    return [
        box(0.72, 0.66, 1.80, (0, 0.02, 0), shade(top, 0.9), shine=0.5),
        box(0.70, 0.03, 0.60, (0, -0.325, 1.18), top, shine=0.5),
        box(0.70, 0.03, 1.08, (0, -0.325, 0.06), top, shine=0.5),
        box(0.03, 0.05, 0.40, (-0.29, -0.36, 1.28), STEEL, shine=0.9),
        box(0.03, 0.05, 0.60, (-0.29, -0.36, 0.45), STEEL, shine=0.9),
    ]


def _wall_cabinet(main: Color, top: Color) -> list[Part]:
    return [box(1.2, 0.32, 0.60, (0, 0, 0), shade(main, 0.9)), *_fronts(3, 1, 1.2, -0.16, 0.02, 0.58, main)]


def _dining_table(main: Color, top: Color) -> list[Part]:
    return [
        box(1.5, 0.9, 0.04, (0, 0, 0.72), main, shine=0.3),
        *_legs(1.42, 0.82, 0.72, 0.07, shade(main, 0.8)),
        box(1.34, 0.74, 0.07, (0, 0, 0.65), shade(main, 0.75)),
    ]


def _chair(main: Color, top: Color) -> list[Part]:
    slats = [box(0.05, 0.03, 0.38, (x, 0.20, 0.48), main) for x in (-0.12, 0, 0.12)]
    return [
        box(0.44, 0.44, 0.04, (0, 0, 0.43), top),
        *_legs(0.44, 0.44, 0.43, 0.04, main),
        box(0.44, 0.04, 0.10, (0, 0.20, 0.82), main),
        *[box(0.04, 0.04, 0.42, (x, 0.20, 0.44), main) for x in (-0.2, 0.2)],
        *slats,
    ]


def _coffee_table(main: Color, top: Color) -> list[Part]:
    return [
        box(1.1, 0.6, 0.05, (0, 0, 0.39), main, shine=0.3),
        *_legs(1.04, 0.54, 0.39, 0.06, shade(main, 0.75)),
        box(0.96, 0.46, 0.03, (0, 0, 0.14), shade(main, 0.85)),
    ]


def _side_table(main: Color, top: Color) -> list[Part]:
    return [
        box(0.5, 0.46, 0.04, (0, 0, 0.56), main, shine=0.3),
        box(0.44, 0.40, 0.40, (0, 0, 0.16), shade(main, 0.9)),
        *_legs(0.46, 0.42, 0.16, 0.05, shade(main, 0.7)),
        *_fronts(1, 2, 0.44, -0.20, 0.17, 0.55, main),
    ]


def _sofa(main: Color, top: Color) -> list[Part]:
    cushions = [box(0.80, 0.62, 0.16, (x, -0.10, 0.28), shade(main, 1.15)) for x in (-0.41, 0.41)]
    backs = [box(0.80, 0.18, 0.36, (x, 0.24, 0.44), shade(main, 1.1), (-8, 0, 0)) for x in (-0.41, 0.41)]
    arms = [
        part
        for x in (-0.93, 0.93)
        for part in (box(0.20, 0.86, 0.50, (x, 0, 0.06), main), bar((x, -0.40, 0.57), (x, 0.36, 0.57), 0.10, main))
    ]
    return [
        box(1.9, 0.86, 0.24, (0, 0, 0.06), shade(main, 0.85)),
        box(1.9, 0.16, 0.74, (0, 0.36, 0.06), main),
        *cushions,
        *backs,
        *arms,
        *[box(0.06, 0.06, 0.06, (x, y, 0), WOOD) for x in (-0.9, 0.9) for y in (-0.36, 0.36)],
    ]


def _arm_chair(main: Color, top: Color) -> list[Part]:
    arms = [
        part
        for x in (-0.37, 0.37)
        for part in (box(0.16, 0.78, 0.50, (x, 0, 0.06), main), bar((x, -0.36, 0.57), (x, 0.33, 0.57), 0.08, main))
    ]
    return [
        box(0.9, 0.80, 0.24, (0, 0, 0.06), shade(main, 0.85)),
        box(0.58, 0.60, 0.16, (0, -0.09, 0.28), shade(main, 1.15)),
        box(0.9, 0.16, 0.80, (0, 0.32, 0.06), main),
        box(0.58, 0.14, 0.36, (0, 0.20, 0.44), shade(main, 1.1), (-8, 0, 0)),
        *arms,
    ]


def _tv_stand(main: Color, top: Color) -> list[Part]:
    return [
        box(1.7, 0.42, 0.46, (0, 0, 0.06), shade(main, 0.9)),
        box(1.74, 0.44, 0.03, (0, 0, 0.52), main, shine=0.3),
        *_fronts(3, 1, 1.7, -0.21, 0.08, 0.50, main),
        box(1.5, 0.34, 0.06, (0, 0, 0), BLACK),
    ]


def _television(main: Color, top: Color) -> list[Part]:
    return [
        box(0.36, 0.20, 0.02, (0, 0, 0), BLACK),
        box(0.08, 0.04, 0.12, (0, 0.03, 0), BLACK),
        box(1.05, 0.05, 0.62, (0, 0, 0.08), BLACK, shine=0.6),
        box(0.98, 0.01, 0.55, (0, -0.026, 0.115), (0.10, 0.13, 0.18), shine=0.9),
    ]


def _shelf(main: Color, top: Color) -> list[Part]:
    boards = [box(0.94, 0.34, 0.03, (0, 0, z), main) for z in (0.05, 0.45, 0.85)]
    sides = [box(0.03, 0.34, 0.88, (x, 0, 0), shade(main, 0.85)) for x in (-0.485, 0.485)]
    tints = ((0.55, 0.15, 0.12), (0.15, 0.25, 0.45), (0.20, 0.40, 0.25), (0.75, 0.65, 0.35), (0.35, 0.20, 0.40))
    rows = [
        box(0.05, 0.20, 0.22 + 0.03 * ((7 * i + j) % 3), (-0.40 + 0.065 * i, 0.04, z), tints[(3 * i + j) % 5])
        for j, z in enumerate((0.08, 0.48))
        for i in range(13)
        if (i * 5 + j * 3) % 7
    ]
    return [*boards, *sides, *rows, box(1.0, 0.02, 0.88, (0, 0.16, 0), shade(main, 0.7))]


def _bed(main: Color, top: Color) -> list[Part]:
    frame = [box(1.5, 2.05, 0.22, (0, 0, 0.08), WOOD), box(1.56, 0.08, 0.95, (0, 1.0, 0), shade(WOOD, 0.85))]
    cover = [
        box(1.46, 1.90, 0.24, (0, 0.02, 0.28), WHITE),
        box(1.52, 1.30, 0.26, (0, -0.33, 0.285), main),
        box(1.52, 0.22, 0.268, (0, 0.30, 0.285), shade(main, 1.3)),
    ]
    return [*frame, *cover, *_legs(1.5, 2.05, 0.10, 0.08, shade(WOOD, 0.7))]


def _dresser(main: Color, top: Color) -> list[Part]:
    return [
        box(1.2, 0.46, 0.80, (0, 0.01, 0.05), shade(main, 0.9)),
        box(1.24, 0.48, 0.03, (0, 0, 0.85), main, shine=0.3),
        *_fronts(2, 3, 1.2, -0.22, 0.08, 0.83, main),
        box(1.1, 0.40, 0.05, (0, 0, 0), shade(main, 0.6)),
    ]


def _desk(main: Color, top: Color) -> list[Part]:
    return [
        box(1.3, 0.64, 0.04, (0, 0, 0.72), main, shine=0.3),
        box(0.42, 0.58, 0.70, (0.42, 0, 0.02), shade(main, 0.9)),
        *_drawers(0.42, -0.29, main),
        box(0.05, 0.58, 0.72, (-0.60, 0, 0), shade(main, 0.85)),
    ]


def _drawers(x: float, y: float, color: Color) -> list[Part]:
    parts = []
    for z in (0.05, 0.28, 0.50):
        parts += [
            box(0.38, 0.02, 0.20, (x, y - 0.01, z), color),
            box(0.12, 0.025, 0.02, (x, y - 0.03, z + 0.12), STEEL),
        ]
    return parts


def _house_plant(main: Color, top: Color) -> list[Part]:
    ring = [(0.18, 0), (0.13, 0.13), (0, 0.18), (-0.13, 0.13), (-0.18, 0), (-0.13, -0.13), (0, -0.18), (0.13, -0.13)]
    leaves = [
        ball((x, y, 0.72 + 0.09 * (i % 3)), (0.12 + 0.05 * (i % 3), 0.40 + 0.06 * (i % 2), 0.14), 0.14, 0.11, 0.17)
        for i, (x, y) in enumerate([*ring, (0, 0)])
    ]
    return [
        *taper(0.15, 0.20, 0.30, (0, 0, 0), (0.70, 0.36, 0.22), 4),
        rod(0.19, 0.01, (0, 0, 0.295), (0.20, 0.13, 0.08)),
        rod(0.025, 0.40, (0, 0, 0.30), (0.35, 0.25, 0.12)),
        *leaves,
    ]


def _painting(main: Color, top: Color) -> list[Part]:
    return [
        box(0.80, 0.03, 0.56, (0, 0, 0), shade(WOOD, 0.6)),
        box(0.70, 0.034, 0.46, (0, 0, 0.05), (0.86, 0.88, 0.85)),
        box(0.70, 0.036, 0.16, (0, 0, 0.05), shade(main, 0.9)),
        disc(0.08, 0.04, (0.16, 0, 0.36), (0.95, 0.75, 0.25)),
        box(0.30, 0.037, 0.12, (-0.14, 0, 0.20), shade(top, 0.8), (0, 25, 0)),
    ]


def _window(main: Color, top: Color) -> list[Part]:
    return [
        box(1.3, 0.06, 1.1, (0, 0, 0), WHITE),
        box(1.18, 0.066, 0.98, (0, 0, 0.06), (0.60, 0.80, 0.98), glow=0.75),
        box(1.18, 0.068, 0.26, (0, 0, 0.06), (0.45, 0.65, 0.40), glow=0.5),
        box(0.04, 0.075, 1.0, (0, 0, 0.05), WHITE),
        box(1.2, 0.075, 0.04, (0, 0, 0.53), WHITE),
    ]


def _on(kind: str, width: float, depth: float, z: float, y: float = 0.0, x: float = 0.0) -> Surface:
    return Surface(kind, x - width / 2, y - depth / 2, x + width / 2, y + depth / 2, z)


FURNITURE: Mapping[str, Furniture] = {
    "CounterTop": Furniture(_counter, 1.2, 0.60, 0.90, (_on("CounterTop", 1.16, 0.50, 0.90, -0.02),)),
    "Sink": Furniture(_sink, 0.9, 0.60, 0.90),
    "Stove": Furniture(_stove, 0.62, 0.62, 0.90, (_on("StoveTop", 0.62, 0.56, 0.90, -0.02),)),
    "Fridge": Furniture(_fridge, 0.72, 0.70, 1.80),
    "Cabinet": Furniture(_wall_cabinet, 1.2, 0.34, 0.60, (), 0.0),
    "DiningTable": Furniture(_dining_table, 1.5, 0.9, 0.76, (_on("DiningTable", 1.40, 0.80, 0.76),), 0.0),
    "Chair": Furniture(_chair, 0.46, 0.46, 0.92, (), 0.0),
    "CoffeeTable": Furniture(_coffee_table, 1.1, 0.6, 0.44, (_on("CoffeeTable", 1.04, 0.54, 0.44),), 0.0),
    "SideTable": Furniture(_side_table, 0.5, 0.46, 0.60, (_on("SideTable", 0.48, 0.44, 0.60),)),
    "Sofa": Furniture(_sofa, 2.06, 0.88, 0.80, (_on("Sofa", 1.5, 0.44, 0.44, -0.14),)),
    "ArmChair": Furniture(_arm_chair, 0.92, 0.82, 0.86, (_on("ArmChair", 0.60, 0.42, 0.44, -0.12),)),
    "TVStand": Furniture(
        _tv_stand,
        1.74,
        0.44,
        0.55,
        (_on("TVStand", 0.36, 0.40, 0.55, 0, -0.68), _on("TVStand", 0.36, 0.40, 0.55, 0, 0.68)),
    ),
    "Television": Furniture(_television, 1.05, 0.20, 0.70, (), 0.0),
    "Shelf": Furniture(_shelf, 1.0, 0.36, 0.88, (_on("Shelf", 0.92, 0.32, 0.88),)),
    "Bed": Furniture(_bed, 1.56, 2.10, 0.95, (_on("Bed", 1.3, 0.48, 0.52, 0.64),)),
    "Dresser": Furniture(_dresser, 1.24, 0.50, 0.88, (_on("Dresser", 1.18, 0.46, 0.88),)),
    "Desk": Furniture(_desk, 1.3, 0.66, 0.76, (_on("Desk", 1.24, 0.58, 0.76),)),
    "HousePlant": Furniture(_house_plant, 0.62, 0.62, 1.05, (), 0.0),
    "Painting": Furniture(_painting, 0.80, 0.04, 0.56, (), 0.0),
    "Window": Furniture(_window, 1.3, 0.08, 1.1, (), 0.0),
}
"""Furniture by its AI2-THOR name."""

CABINET_COLORS: tuple[Color, ...] = (
    (0.88, 0.86, 0.80),
    (0.60, 0.42, 0.26),
    (0.35, 0.47, 0.50),
    (0.72, 0.28, 0.22),
    (0.42, 0.50, 0.38),
    (0.90, 0.90, 0.92),
)
TOP_COLORS: tuple[Color, ...] = ((0.30, 0.29, 0.30), (0.82, 0.80, 0.76), (0.62, 0.46, 0.30), (0.55, 0.58, 0.60))
WOOD_COLORS: tuple[Color, ...] = ((0.55, 0.36, 0.20), (0.72, 0.54, 0.34), (0.36, 0.22, 0.14), (0.85, 0.80, 0.72))
CLOTH_COLORS: tuple[Color, ...] = (
    (0.30, 0.40, 0.55),
    (0.55, 0.30, 0.28),
    (0.45, 0.48, 0.42),
    (0.62, 0.58, 0.52),
    (0.28, 0.42, 0.40),
    (0.50, 0.40, 0.55),
)
WALL_COLORS: tuple[Color, ...] = (
    (0.90, 0.88, 0.82),
    (0.78, 0.84, 0.86),
    (0.86, 0.82, 0.72),
    (0.82, 0.86, 0.78),
    (0.90, 0.82, 0.78),
    (0.80, 0.80, 0.84),
)
