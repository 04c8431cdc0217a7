"""Plane geometry in whole centimetres: rectangles, floor plans of several rooms, ways through a
furnished house.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vagen_envs.seeding import HashStream

Rect = tuple[int, int, int, int]
"""West, south, east and north edge."""


def overlap(a: Rect, b: Rect) -> bool:
    """Whether two rectangles share area."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def overlaps_any(rect: Rect, others: Iterable[Rect]) -> bool:
    """Whether a rectangle shares area with one of others."""
    return any(overlap(rect, other) for other in others)


def grown(rect: Rect, margin: int, along: int | None = None) -> Rect:
    """The rectangle with `margin` cm more to the west and east, and `along` or as many to the south
    and north.
    """
    x = margin
    y = margin if along is None else along
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


DOOR = 100
WALL = 10
"""Width of a doorway and thickness of a wall."""
_NARROWEST = 290
"""A room's shorter side."""
GRID = 25
"""Distance of the places that a way goes through."""
_CLEAR = 24
"""Half the side of a square around the agent with some cm to spare: where that is free, its
cylinder is.
"""


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """Rooms that share walls, which the doorways interrupt. Each is reached from each other one."""

    width: int
    depth: int
    rooms: tuple[Rect, ...]
    walls: tuple[Rect, ...]
    doors: tuple[Rect, ...]

    def content(self) -> bytes:
        """The canonical content."""
        return json.dumps(["navigation plan", self.width, self.depth, self.walls]).encode()


def draw_plan(stream: HashStream, rooms: int) -> FloorPlan:
    """A rectangle that is cut in two until it has so many rooms, with a doorway in each cut."""
    while True:
        side = 280 + 85 * rooms
        width = 10 * ((side + 10 * stream.below(16)) // 10)
        depth = max(400, 10 * (rooms * 19 * 100 * 100 // width // 10) + 10 * stream.below(11))
        plan = _cut(stream, width, depth, rooms)
        if plan is not None:
            return plan


def _cut(stream: HashStream, width: int, depth: int, rooms: int) -> FloorPlan | None:
    pieces: list[Rect] = [(0, 0, width, depth)]
    walls: list[Rect] = []
    doors: list[Rect] = []
    while len(pieces) < rooms:
        piece = max(pieces, key=lambda part: (part[2] - part[0]) * (part[3] - part[1]))
        across = piece[2] - piece[0] >= piece[3] - piece[1]
        x0, y0, x1, y1 = piece if across else _flipped(piece)
        spare = x1 - x0 - WALL - 2 * _NARROWEST
        # Walls and doors keep to a raster of 5 cm; 10 cm of wall stay at each side of a door.
        if spare < 0 or y1 - y0 < DOOR + 20:
            return None
        a = x0 + _NARROWEST + 5 * stream.below(spare // 5 + 1)
        b = a + WALL
        south = y0 + 10 + 5 * stream.below((y1 - y0 - DOOR - 20) // 5 + 1)
        north = south + DOOR
        made = [
            (a, y0, b, y1),
            (a, south, b, north),
            (x0, y0, a, y1),
            (b, y0, x1, y1),
            (a, y0, b, south),
            (a, north, b, y1),
        ]
        wall, gap, *rest = made if across else map(_flipped, made)
        if overlaps_any(grown(wall, 30), doors):  # it would end in a doorway
            return None
        pieces.remove(piece)
        pieces += rest[:2]
        walls += rest[2:]
        doors.append(gap)
    return FloorPlan(width, depth, tuple(pieces), tuple(walls), tuple(doors))


def _flipped(rect: Rect) -> Rect:
    """With x and y exchanged."""
    return rect[1], rect[0], rect[3], rect[2]


Field = NDArray[np.intp]


def moves_to(
    width: int,
    depth: int,
    obstacles: Iterable[Rect],
    x: int,
    y: int,
    near: int,
    ends: Callable[[int, int], bool] = lambda *_: True,
) -> Field:
    """From each place of the grid the moves of a way to within `near` cm of (x, y), or -1 where
    none is sure.

    `ends` says of a place within `near` cm, by its x and y, whether a way may end there.

    Place (i, j) is at x = `GRID` (i + 1), y = `GRID` (j + 1). A way is sure where the agent stays
    clear of every obstacle, so that there may be a shorter one.
    """
    columns = width // GRID - 1
    rows = depth // GRID - 1
    # A rim that isn't free, so that no way leads round an edge.
    free = np.zeros((columns + 2, rows + 2), np.bool_)
    across = GRID * np.arange(columns + 2)
    along = GRID * np.arange(rows + 2)
    free[1:-1, 1:-1] = True
    free[(across < _CLEAR) | (across > width - _CLEAR)] = False
    free[:, (along < _CLEAR) | (along > depth - _CLEAR)] = False
    for x0, y0, x1, y1 in obstacles:
        first_column = max(0, -(-(x0 - _CLEAR) // GRID))
        last_column = (x1 + _CLEAR) // GRID
        first_row = max(0, -(-(y0 - _CLEAR) // GRID))
        last_row = (y1 + _CLEAR) // GRID
        free[first_column : last_column + 1, first_row : last_row + 1] = False
    moves = np.full(free.shape, -1, np.intp)
    front = free & ((across[:, None] - x) ** 2 + (along - y) ** 2 <= (near - 1) ** 2)
    for i, j in np.argwhere(front).tolist():
        front[i, j] = ends(GRID * i, GRID * j)
    count = 0
    while front.any():
        moves[front] = count
        free &= ~front
        neighbours = [np.roll(front, by, axis) for by in (1, -1) for axis in (0, 1)]
        front = free & np.logical_or.reduce(neighbours)
        count = count + 1
    return moves[1:-1, 1:-1]


def out_of_sight(walls: Sequence[Rect], x: int, y: int, thing: Rect) -> bool:
    """Whether walls are between a point and everything of a thing, whatever their height."""
    left, low, right, high = thing
    across = np.linspace(left, right, 5)
    along = np.linspace(low, high, 5)
    ends = np.stack(np.meshgrid(across, along), -1).reshape(-1, 1, 2)
    boxes = np.array(walls, float).reshape(1, -1, 2, 2)
    start = np.array((x, y), float)
    way = ends - start
    with np.errstate(divide="ignore", invalid="ignore"):
        first = (boxes[:, :, 0] - start) / way
        second = (boxes[:, :, 1] - start) / way
    enter = np.fmin(first, second).max(2)
    leave = np.fmax(first, second).min(2)
    meets = (enter <= leave) & (enter <= 1) & (leave >= 0)
    return bool(meets.any(1).all())
