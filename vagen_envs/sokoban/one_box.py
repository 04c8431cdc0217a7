"""Starts of boards with one box, ten times as fast as by the search for any number.

A set of positions is one integer: bit `box * cells + player`. So all positions walk at once by a shift, and so do
all that a push could have led to. Players' cells have one column and one row of the wall around the board among them,
which is enough to keep shifts from wrapping. Boxes need none: a box that is pulled goes to where the player stood.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vagen_envs.seeding import HashStream, Split
from vagen_envs.sokoban.splits import LANE, targets_of

_TARGETS = 3
"""That are tried in a room: where the first has no start, a second has one in three of ten times, a third in two."""


def board(
    stream: HashStream, split: Split, rows: Sequence[int], ends: Sequence[int], width: int, length: int
) -> tuple[int, int, int] | None:
    """A target and a box (sets of one cell of the whole board) and a player's cell, `length` moves from done.

    A target is one of `ends` that makes a board of the split; each of them is as likely, and each start of it. `None`
    where none of those tried has such a start.

    Args:
        stream: what is drawn comes from it.
        split: of the board.
        rows: the floor, the cells of each row within the wall.
        ends: the cells that a push can end on, likewise.
        width: of the whole board.
        length: of a shortest solution.
    """
    spread = _spread(width, LANE)
    at = pushed = 0
    for row in ends:
        pushed |= spread[row] << at
        at += LANE * (width - 2)
    fitting = pushed & targets_of(split, rows, width)
    if not fitting:
        return None
    room = _positions(rows, width)
    for _ in range(_TARGETS):
        one = fitting
        for _ in range(stream.below(fitting.bit_count())):
            one &= one - 1
        one &= -one
        target = one.bit_length() // LANE
        found = _at_distance(len(rows), width, *room, target, length)
        if found:
            box, player = cells_of(len(rows), width, _drawn(stream, found))
            row, column = divmod(target, width - 2)
            return 1 << (row + 1) * width + column + 1, 1 << box, player
        fitting ^= one
        if not fitting:
            break
    return None


def at_distance(rows: Sequence[int], width: int, target: int, length: int) -> int:
    """All positions from which exactly `length` moves, at least one and no fewer, bring the box onto the target.

    `target` is the number of its cell within the wall. `cells_of` says what each bit of the set means.
    """
    return _at_distance(len(rows), width, *_positions(rows, width), target, length)


def _at_distance(rows: int, width: int, inner: int, free: int, target: int, length: int) -> int:
    columns = width - 1
    count = (rows + 1) * columns
    right, left, below, above = _beside(rows, width)
    sideways, upright = count + 1, (width - 2) * count + columns
    unseen = free & ~(inner << target * count)
    layer = unseen & _pulled(rows, width)[target]
    unseen ^= layer
    for _ in range(length - 1):
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
    box, player = divmod(bit, (rows + 1) * (width - 1))
    return box + 2 * (box // (width - 2)) + width + 1, player + player // (width - 1) + width + 1


def _positions(rows: Sequence[int], width: int) -> tuple[int, int]:
    """The floor without its wall, and all positions with box and player on it, but not on the same cell."""
    columns = width - 1
    count = (len(rows) + 1) * columns
    boxes, together = _spread(width, count), _spread(width, count + 1)
    inner = boxed = same = at = box = 0
    for row in rows:
        inner |= row << at
        boxed |= boxes[row] << box * count
        same |= together[row] << box * count + at
        at += columns
        box += width - 2
    return inner, boxed * inner ^ same


@functools.cache
def _spread(width: int, apart: int) -> tuple[int, ...]:
    """For each set of cells of a row, a number with their bits so far `apart`."""
    return tuple(sum(1 << cell * apart for cell in range(width) if row >> cell & 1) for row in range(1 << width - 2))


@functools.cache
def _beside(rows: int, width: int) -> tuple[int, ...]:
    """The positions in which the box is right of the player, left of it, below it, above it."""
    count = (rows + 1) * (width - 1)

    def beside(down: int, right: int) -> int:
        places = ((row, column) for row in range(rows) for column in range(width - 2))
        return sum(
            1 << (row * (width - 2) + column) * count + (row - down) * (width - 1) + column - right
            for row, column in places
            if 0 <= row - down < rows and 0 <= column - right < width - 2
        )

    return beside(0, 1), beside(0, -1), beside(1, 0), beside(-1, 0)


@functools.cache
def _pulled(rows: int, width: int) -> list[int]:
    """For each target the positions from which one push brings the box there, in a room without an inner wall."""
    inner, free = _positions([(1 << width - 2) - 1] * rows, width)
    count = (rows + 1) * (width - 1)
    sideways, upright = count + 1, (width - 2) * count + width - 1
    pulled = []
    for target in range(rows * (width - 2)):
        done = inner << target * count
        right, left, below, above = (done & beside for beside in _beside(rows, width))
        before = right >> sideways | left << sideways | below >> upright | above << upright
        pulled.append(before & free)
    return pulled


def _drawn(stream: HashStream, bits: int) -> int:
    """The place of one of the set bits, each as likely."""
    count = bits.bit_count()
    nth = stream.below(count)
    return len(f"{bits:b}".split("1", count - nth)[-1])
