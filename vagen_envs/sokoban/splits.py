"""The split of a drawn board, the same for boards equal up to turning, mirroring and moving.

It follows from how far the targets are from the cells of the floor and from each other, which is told in a third of
the time of `canonical_board`: most boards that are drawn are of another split. Sums over rows come from tables.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from vagen_envs.seeding import HashStream, Split, split_at

SHARES = 40, 10
"""Of 100 boards so many are for train and for val; half is left for test. In a room of 6x6 there are
only 5,512 boards with one box and a solution of five to nine moves, counted up to turning, mirroring and moving, and
a tenth of them would be a poor test."""
LANE = 72
"""Bits from one cell to the next in what `targets_of` gives: a sum of 64 bits, and room for the carries of 64 cells."""

_LARGEST = 10
"""Cells of a side."""
_ONE = 1 << 64
_SPLITS = tuple(split_at(bucket, SHARES) for bucket in range(100))


def split_of_board(rows: Sequence[int], targets: Sequence[int], width: int) -> Split:
    """The split of a board with this floor.

    Args:
        rows: the cells of each row within the wall, a bit a cell from the left.
        targets: the numbers of their cells, on the whole board.
        width: of the board in cells.
    """
    far, sums = _numbers(width), _sums(width, len(rows))
    if len(targets) == 1:  # as `targets_of` has it for all cells at once, which squares would forbid
        total = sum(map(operator.getitem, sums[targets[0]], rows))
        return _SPLITS[total % _ONE * 100 >> 64]
    total = 0
    for target in targets:
        near = far[target]
        seen = sum(map(operator.getitem, sums[target], rows))
        for other in targets:
            seen += 3 * near[other]
        total += seen * seen
    # 2**64 over the golden ratio, Knuth's multiplicative hash: it spreads sums that lie close together.
    return _SPLITS[total * 0x9E3779B97F4A7C15 % _ONE * 100 >> 64]


def targets_of(split: Split, rows: Sequence[int], width: int) -> int:
    """The cells within the wall, of floor or not, that make a board of this split as the only target in it.

    A set: bit `LANE * cell`, of cells numbered row by row within the wall. `rows` as in `split_of_board`.
    """
    ones, numbers, sums, bounds = _lanes(width, len(rows))
    total = sum(map(operator.getitem, sums, rows)) & numbers
    low, high = bounds[split]
    # A sum of at least a bound carries into bit 64.
    return (total + low & ~(total + high)) >> 64 & ones


@functools.cache
def _lanes(width: int, rows: int) -> tuple[int, int, list[list[int]], dict[Split, tuple[int, int]]]:
    """Tables for rooms of a size: what is added up and compared for all targets at once.

    A 1 in each lane; 64 of them; the sums of all targets, `[row][set of its cells]`; what carries from a split's
    bounds on.
    """
    sums = _sums(width, rows)
    targets = [row * width + column for row in range(1, rows + 1) for column in range(1, width - 1)]
    added = [
        [sum(sums[at][row][floor] << LANE * lane for lane, at in enumerate(targets)) for floor in range(1 << width - 2)]
        for row in range(rows)
    ]
    ones = sum(1 << LANE * lane for lane in range(len(targets)))
    first = {split: -(-_ONE * _SPLITS.index(split) // 100) for split in _SPLITS}
    ends = {"train": first["val"], "val": first["test"], "test": _ONE}
    return (
        ones,
        ones * (_ONE - 1),
        added,
        {split: (ones * (_ONE - first[split]), ones * (_ONE - ends[split])) for split in first},
    )


@functools.cache
def _numbers(width: int) -> list[list[int]]:
    """A number of 64 bits for each pair of cells, by how many rows and columns, or columns and rows, they are apart."""
    drawn: dict[tuple[int, int], int] = {}
    stream = HashStream("splits of Sokoban's boards")
    for far in range(_LARGEST):
        for near in range(far + 1):
            drawn[near, far] = drawn[far, near] = stream.bits(64)
    places = [divmod(cell, width) for cell in range(width * _LARGEST)]
    return [[drawn[abs(a - c), abs(b - d)] for c, d in places] for a, b in places]


@functools.cache
def _sums(width: int, rows: int) -> list[list[list[int]]]:
    """`_sums(...)[target][row][set]`: a target's numbers added up over a set of cells of a row."""
    numbers = _numbers(width)

    def added(apart: int, column: int) -> list[int]:
        far = numbers[column][apart * width + 1 : (apart + 1) * width - 1]
        return [sum(number for at, number in enumerate(far) if row >> at & 1) for row in range(1 << width - 2)]

    by_distance = [[added(apart, column) for column in range(width)] for apart in range(rows)]
    targets = [divmod(cell, width) for cell in range(width, (rows + 1) * width)]
    outside: list[list[list[int]]] = [[] for _ in range(width)]
    return outside + [[by_distance[abs(row - at)][column] for at in range(1, rows + 1)] for row, column in targets]
