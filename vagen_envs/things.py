"""The things in a picture, and what a look at each should tell: for eyes that are taught, and for probes of them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from vagen_envs.grid import Position

SIDES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


class Thing(NamedTuple):
    """A thing in a picture.

    Attributes:
        name: of its kind. A board may have several things of one name; they are told alike.
        at: (x, y) of its middle, as shares of the picture's width and height from the upper left; `None` where the
            state doesn't know the picture. No two such things of a state have the same name.
        relations: what is true of it, in numbers: how far away what matters is, what is beside it (1.0, else 0.0).
    """

    name: str
    at: tuple[float, float] | None
    relations: Mapping[str, float]


def on_board(
    name: str,
    at: Position,
    size: tuple[int, int],
    *,
    beside: Mapping[str, Container[Position]],
    ways: Mapping[str, Position],
) -> Thing:
    """A thing in a cell of a board of (rows, columns).

    Args:
        name: of its kind.
        at: its cell.
        size: of the board.
        beside: cells by what is there; each side of the thing has it (1.0) or not.
        ways: cells of what matters; it is so many rows below and columns to the right of the thing.
    """
    (row, column), (rows, columns) = at, size
    relations = {
        f"{what} {side}": float((row + down, column + right) in cells)
        for what, cells in beside.items()
        for side, (down, right) in SIDES.items()
    }
    for what, (there_row, there_column) in ways.items():
        relations |= {f"rows to {what}": float(there_row - row), f"columns to {what}": float(there_column - column)}
    return Thing(name, ((column + 0.5) / columns, (row + 0.5) / rows), relations)


def outside(rows: int, columns: int) -> frozenset[Position]:
    """The cells around a board, which its edge keeps one from."""
    sides = {(row, column) for row in range(rows) for column in (-1, columns)}
    return frozenset(sides | {(row, column) for row in (-1, rows) for column in range(columns)})


def nearest(at: Position, cells: tuple[Position, ...]) -> Position:
    """Of some cells the one with the fewest moves between, the first of several."""
    return min(cells, key=lambda cell: abs(cell[0] - at[0]) + abs(cell[1] - at[1]))
