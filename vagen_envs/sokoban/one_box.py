"""Starts of boards with one box, ten times as fast as by the search for any number.

A set of positions is one integer: bit `box * cells + player`. So all positions walk at once by a shift, and so do
all that a push could have led to. Of the wall around the board one column and one row are enough to keep shifts from
wrapping, so the integers have half of the bits.
"""

from __future__ import annotations

import functools

from vagen_envs.seeding import HashStream


def start(stream: HashStream, height: int, width: int, floor: int, target: int, length: int) -> tuple[int, int] | None:
    """One (boxes, player) whose shortest solution has `length` moves, each equally likely; `None` if there is none.

    `floor` and `target` are sets of cells, a bit a cell, with walls all around.
    """
    found = at_distance(height, width, floor, target, length)
    count = found.bit_count()
    if not count:
        return None
    box, player = cells_of(height, width, _nth_bit(found, stream.below(count)))
    return 1 << box, player


def at_distance(height: int, width: int, floor: int, target: int, length: int) -> int:
    """All positions from which exactly `length` moves, and no fewer, bring the box onto the target.

    `cells_of` says what each bit of the set means.
    """
    columns = width - 1
    count = (height - 1) * columns
    inner, free = _positions(height, width, floor)
    row, column = divmod(target.bit_length() - 1, width)
    box = (row - 1) * columns + column - 1
    right, left, below, above = _beside(height, width)
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


def cells_of(height: int, width: int, bit: int) -> tuple[int, int]:
    """The cells of box and player, on the whole board, that a bit of `at_distance` stands for."""
    columns = width - 1
    box, player = divmod(bit, (height - 1) * columns)
    return box + box // columns + width + 1, player + player // columns + width + 1


@functools.lru_cache(maxsize=64)  # several targets are tried in a room
def _positions(height: int, width: int, floor: int) -> tuple[int, int]:
    """The floor without its wall, and all positions with box and player on it, but not on the same cell."""
    columns, inside = width - 1, (1 << width - 2) - 1
    count = (height - 1) * columns
    boxes, together = _spread(width, count), _spread(width, count + 1)
    inner = boxed = same = at = 0
    for row in range(1, height - 1):
        cells = floor >> row * width + 1 & inside
        inner |= cells << at
        boxed |= boxes[cells] << at * count
        same |= together[cells] << at * (count + 1)
        at += columns
    return inner, boxed * inner ^ same


@functools.cache
def _spread(width: int, apart: int) -> tuple[int, ...]:
    """For each set of cells of a row, a number with their bits so far `apart`."""
    return tuple(sum(1 << cell * apart for cell in range(width) if row >> cell & 1) for row in range(1 << width - 2))


@functools.cache
def _beside(height: int, width: int) -> tuple[int, ...]:
    """The positions in which the box is right of the player, left of it, below it, above it."""
    columns = width - 1
    count = (height - 1) * columns
    return tuple(
        sum(1 << (cell + step) * count + cell for cell in range(count) if 0 <= cell + step < count)
        for step in (1, -1, columns, -columns)
    )


def _nth_bit(bits: int, nth: int) -> int:
    """The place of the set bit before which there are `nth` others."""
    place, width = 0, bits.bit_length()
    while width > 1:
        half = width // 2
        low = bits & (1 << half) - 1
        before = low.bit_count()
        if nth < before:
            bits, width = low, half
        else:
            bits, width, place, nth = bits >> half, width - half, place + half, nth - before
    return place
