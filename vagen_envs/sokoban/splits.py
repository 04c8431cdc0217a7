"""The split of a drawn board, the same for boards equal up to turning, mirroring and moving.

It follows from how far the targets are from the cells of the floor and from each other. Most boards
that are drawn are of another split than the one asked for, and `canonical_board` takes three times
as long to say so.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from vagen_envs.seeding import HashStream, Split, split_at

SHARES = 40, 10
"""Percent of the boards in train and in val; half is left for test. In a room of 6x6 there
are only 5,512 boards with one box and a solution of five to nine moves, counted up to turning,
mirroring and moving, and a tenth of them would be a poor test."""

_LARGEST = 10
"""Cells of a side."""
_ONE = 1 << 64


def split_of_board(floor: Sequence[int], targets: Sequence[int], width: int) -> Split:
    """The split of a board of `width` columns: the numbers of the cells of its floor, and of its
    targets.
    """
    numbers = _numbers(width)
    total = 0
    for target in targets:
        near = numbers[target]
        seen = sum([near[cell] for cell in floor])
        if len(targets) == 1:
            return split_at(seen % _ONE * 100 >> 64, SHARES)
        seen += 3 * sum([near[other] for other in targets])
        total += seen * seen
    # 2**64 over the golden ratio, Knuth's multiplicative hash: it spreads sums that lie close
    # together.
    return split_at(total * 0x9E3779B97F4A7C15 % _ONE * 100 >> 64, SHARES)


@functools.cache
def _numbers(width: int) -> list[list[int]]:
    """A number of 64 bits for each pair of cells, by how many rows and columns, or columns and
    rows, they are apart.
    """
    drawn: dict[tuple[int, int], int] = {}
    stream = HashStream("splits of Sokoban's boards")
    for far in range(_LARGEST):
        for near in range(far + 1):
            drawn[near, far] = drawn[far, near] = stream.bits(64)
    places = [divmod(cell, width) for cell in range(width * _LARGEST)]

    def of(row: int, column: int) -> list[int]:
        return [drawn[abs(row - c), abs(column - d)] for c, d in places]

    return list(itertools.starmap(of, places))
