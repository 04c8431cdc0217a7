"""Starts of boards with one box, ten times as fast as by the search for any number.

A set of positions is one integer: bit `box * cells + player`. So all positions walk at once by a shift, and so do
all that a push could have led to. Of the wall around the board one column and one row are enough to keep shifts from
wrapping, so the integers have half of the bits.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vagen_envs.seeding import HashStream


def start(stream: HashStream, rows: Sequence[int], width: int, target: int, length: int) -> tuple[int, int] | None:
    """One (boxes, player) whose shortest solution has `length` moves, each equally likely; `None` if there is none.

    `rows` is the floor, the cells of each row within the wall; `target` is a set of one cell of the whole board.
    """
    found = at_distance(rows, width, target, length)
    count = found.bit_count()
    if not count:
        return None
    box, player = cells_of(len(rows), width, _nth_bit(found, stream.below(count)))
    return 1 << box, player


def at_distance(rows: Sequence[int], width: int, target: int, length: int) -> int:
    """All positions from which exactly `length` moves, and no fewer, bring the box onto the target.

    `cells_of` says what each bit of the set means.
    """
    columns = width - 1
    count = (len(rows) + 1) * columns
    inner, free = _positions(rows, width)
    row, column = divmod(target.bit_length() - 1, width)
    box = (row - 1) * columns + column - 1
    right, left, below, above = _beside(len(rows), width)
    sideways, upright = count + 1, (count + 1) * columns
    layer = (inner ^ 1 << box) << box * count
    unseen = free ^ layer
    for _ in range(length):
        layer = unseen & (
            layer << 1
            | layer >> 1
            | layer << columns
            | layer >> columns
            | (layer & right) >> sideways
            | (layer & left) << sideways
            | (layer & below) >> upright
            | (layer & above) << upright
        )
        if not layer:
            break
        unseen ^= layer
    return layer


def cells_of(rows: int, width: int, bit: int) -> tuple[int, int]:
    """The cells of box and player, on the whole board, that a bit of `at_distance` stands for."""
    columns = width - 1
    box, player = divmod(bit, (rows + 1) * columns)
    return box + box // columns + width + 1, player + player // columns + width + 1


def _positions(rows: Sequence[int], width: int) -> tuple[int, int]:
    """The floor without its wall, and all positions with box and player on it, but not on the same cell."""
    columns = width - 1
    count = (len(rows) + 1) * columns
    boxes, together = _spread(width, count), _spread(width, count + 1)
    inner = boxed = same = at = 0
    for row in rows:
        inner |= row << at
        boxed |= boxes[row] << at * count
        same |= together[row] << at * (count + 1)
        at += columns
    return inner, boxed * inner ^ same


@functools.cache
def _spread(width: int, apart: int) -> tuple[int, ...]:
    """For each set of cells of a row, a number with their bits so far `apart`."""
    return tuple(sum(1 << cell * apart for cell in range(width) if row >> cell & 1) for row in range(1 << width - 2))


@functools.cache
def _beside(rows: int, width: int) -> tuple[int, ...]:
    """The positions in which the box is right of the player, left of it, below it, above it."""
    columns = width - 1
    count = (rows + 1) * columns
    return tuple(
        sum(1 << (cell + step) * count + cell for cell in range(count) if 0 <= cell + step < count)
        for step in (1, -1, columns, -columns)
    )


def _nth_bit(bits: int, nth: int) -> int:
    """The place of the set bit before which there are `nth` others."""
    return len(f"{bits:b}".split("1", bits.bit_count() - nth)[-1])
