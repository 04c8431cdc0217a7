"""Lakes: a map with a start whose shortest safe way has a wanted length."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from vagen_envs.errors import LevelError
from vagen_envs.grid import ACTIONS, canonical
from vagen_envs.seeding import HashStream, Split, split_of

MOVES = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}

FROZEN, HOLE, GOAL = range(3)

_MOST_LAKES = (
    20_000  # of 300 seeds of rungs 0 and 5 none needs 30; windows that few lakes fit need more
)

_SMALL = 4
"""Rows up to which all ways are known: 4x4 cells have 3,096 of 5 to 9 moves, found in 20 ms."""

SHARES = 40, 10
"""Percent of the maps in train and in val; half is left for test. Long ways are rare on 4x4
cells, and a tenth of their maps would be a poor test."""
_LONGEST = {3: 6, 4: 10}
"""Moves of the longest way on a small lake, of `_all_ways`."""


def longest_way(size: int) -> int:
    """No shortest safe way has more moves.

    Of its cells only neighbours on it are side by side. So all other pairs of cells have one that
    isn't on it, and there are at most four pairs to each of these: 2 m <= (2 size² + 2 size - 4) /
    3 for m moves.
    """
    return _LONGEST.get(size, (2 * size * size + 2 * size - 4) // 3)


def way_between_corners(size: int, shortest: int = 1) -> int:
    """The fewest moves, at least `shortest`, that a way from corner to corner can have: an even
    number.
    """
    return max(2 * (size - 1), shortest + shortest % 2)


@dataclass(frozen=True, slots=True)
class Lake:
    """A map with its start. Cells are numbered row by row.

    Attributes:
        size: columns.
        cells: `FROZEN`, `HOLE` or `GOAL`, one a cell.
        start: where the player begins.
    """

    size: int
    cells: bytes
    start: int

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.cells) // self.size

    def map(self) -> bytes:
        """The map without its start, the same for maps that are equal up to turning and
        mirroring.
        """
        return b"frozen_lake" + canonical(self.cells, self.rows, self.size)


def move(size: int, count: int, cell: int, action: str) -> int:
    """The cell that `action` leads to on a lake of `size` columns and `count` cells; the edge of
    the lake stops it.
    """
    rows, columns = MOVES[action]
    to = cell + rows * size + columns
    column = cell % size + columns
    return to if 0 <= to < count and 0 <= column < size else cell


@functools.cache
def neighbours(size: int, count: int) -> tuple[tuple[int, ...], ...]:
    """The cells beside each of `count` cells in rows of `size`."""
    found = []
    for cell in range(count):
        reached = {move(size, count, cell, action) for action in ACTIONS}
        found.append(tuple(sorted(reached - {cell})))
    return tuple(found)


def distances(size: int, cells: bytes) -> list[int | None]:
    """Fewest moves from each cell to a goal without touching a hole; `None` where there is no
    way.
    """
    found: list[int | None] = [0 if cell == GOAL else None for cell in cells]
    frontier = [i for i, cell in enumerate(cells) if cell == GOAL]
    around = neighbours(size, len(cells))
    depth = 0
    while frontier:
        depth += 1
        reached = []
        for cell in frontier:
            for near in around[cell]:
                if found[near] is None and cells[near] == FROZEN:
                    found[near] = depth
                    reached.append(near)
        frontier = reached
    return found


def draw_lake(
    stream: HashStream,
    split: Split,
    *,
    size: int,
    hole_probability: float,
    shortest: int,
    longest: int,
    corners: bool = False,
) -> Lake:
    """A lake of `split` whose shortest safe way has between `shortest` and `longest` moves.

    With `corners` maps are drawn as Gymnasium draws them until one is of the split and has such a
    way. Otherwise see `_wind`; no longer way is sought than `longest_way`.

    Raises:
        LevelError: none was found; the message says what to change.
    """
    longest = longest if corners else max(shortest, min(longest, longest_way(size)))
    length = shortest + stream.below(longest - shortest + 1)
    for _ in range(_MOST_LAKES):
        if corners:
            lake = _between_corners(stream, size, hole_probability, shortest, longest)
        else:
            lake = _wind(stream, size, hole_probability, length)
        # The split is the map's, whatever its start, so that no map leaks.
        if lake is not None and split_of(lake.map(), SHARES) == split:
            return lake
    raise LevelError(
        f"no {size}x{size} lake with hole_probability={hole_probability} has a shortest way of "
        f"{shortest} to {longest} moves in {split} (tried {_MOST_LAKES}); widen the window or "
        "change size or hole_probability"
    )


def _between_corners(
    stream: HashStream, size: int, hole_probability: float, shortest: int, longest: int
) -> Lake | None:
    """A map as Gymnasium draws it; `None` if its shortest safe way has fewer or more moves."""
    cells = _holes(stream, size, hole_probability)
    cells[0], cells[-1] = FROZEN, GOAL
    lake = Lake(size, bytes(cells), 0)
    way = distances(size, lake.cells)[0]
    return lake if way is not None and shortest <= way <= longest else None


def _wind(stream: HashStream, size: int, hole_probability: float, length: int) -> Lake | None:
    """A lake whose shortest safe way has `length` moves; `None` if the way that was begun found no
    room.

    First the way, at random and so that no two of its cells but neighbours on it touch; then holes
    elsewhere, each cell with `hole_probability`; then a further hole in every way that is shorter.
    Drawing maps until one has a long way instead gives the same few maps again and again.
    """
    if size <= _SMALL:
        known = _all_ways(size, length)
        way = list(stream.choice(known)) if known else []
    else:
        way = _wander(stream, size, length)
    if not way:
        return None
    cells = _holes(stream, size, hole_probability)
    for cell in way:
        cells[cell] = FROZEN
    cells[way[-1]] = GOAL
    kept = set(way)
    while shortcut := _shortcut(stream, size, cells, way[0], length):
        cells[stream.choice([cell for cell in shortcut if cell not in kept])] = HOLE
    return Lake(size, bytes(cells), way[0])


def _wander(stream: HashStream, size: int, length: int) -> list[int]:
    """A random way, empty if it got stuck."""
    around = neighbours(size, size * size)
    way = [stream.below(size * size)]
    closed = {way[0]}
    while len(way) <= length:
        open_ = [cell for cell in around[way[-1]] if cell not in closed]
        if not open_:
            return []
        closed.update(around[way[-1]])
        way.append(stream.choice(open_))
    return way


@functools.lru_cache(maxsize=64)
def _all_ways(size: int, length: int) -> tuple[tuple[int, ...], ...]:
    """All ways of this length, in order.

    One that wanders keeps to the edge, where there is room, so a blind string that runs along it
    solved 7 % of the levels; of these, with the default chance of a hole, the best string of nine
    moves solves 4 %.
    """
    around = neighbours(size, size * size)
    ways: list[tuple[tuple[int, ...], frozenset[int]]] = [
        ((cell,), frozenset((cell,))) for cell in range(size * size)
    ]
    for _ in range(length):
        longer = []
        for way, closed in ways:
            near = around[way[-1]]
            longer += [((*way, cell), closed.union(near)) for cell in near if cell not in closed]
        ways = longer
    return tuple([way for way, _ in ways])


def _shortcut(
    stream: HashStream, size: int, cells: bytearray, start: int, length: int
) -> list[int]:
    """The cells of a way from `start` to the goal with fewer than `length` moves, empty if there is
    none.
    """
    far = distances(size, bytes(cells))
    left = far[start]
    if left is None or left >= length:
        return []
    way = [start]
    while left:
        left -= 1
        way.append(
            stream.choice(
                [cell for cell in neighbours(size, size * size)[way[-1]] if far[cell] == left]
            )
        )
    return way


def _holes(stream: HashStream, size: int, hole_probability: float) -> bytearray:
    # 16 bits a cell meet a probability to 1/65,536; one long draw costs less than a draw a cell.
    dice = stream.bits(16 * size * size)
    most = int(hole_probability * 65536)
    return bytearray(
        [HOLE if dice >> i & 65535 < most else FROZEN for i in range(0, 16 * size * size, 16)]
    )
