"""Levels: a room with boxes whose shortest solution has a wanted length."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from vagen_envs.errors import LevelError
from vagen_envs.grid import canonical
from vagen_envs.seeding import HashStream, Split
from vagen_envs.sokoban.solver import MOST_STATES, Solutions
from vagen_envs.sokoban.splits import split_of_board

_FEW_STATES = 2_000
"""Placements searched of the first room, twice as many of each next once one had more: of the
boards of rung 5 three in 100 have more, and took 20 to 80 ms where the median is 3."""
_MOST_ROOMS = (
    10_000  # of 300 seeds of rungs 0 and 5 none needs 30; windows that few rooms fit need more
)
_TARGETS_A_ROOM = 4  # before another room is drawn: its split may lie with few of its cells
_TARGETS_OF_ONE_BOX = (
    3  # where the first has no start, a second has one in three of ten times, a third in two
)

_LONGEST = {
    (5, 5): ((10, 14, 8, 0), (10, 14, 9, 9)),
    (5, 6): ((18, 22, 29, 20), (18, 22, 29, 20)),
    (5, 7): ((25, 35), (25, 35)),
    (6, 6): ((25, 39), (25, 42)),
}
"""The longest shortest solution, in moves, of any room of a size, with 1, 2 … boxes: first where no
box starts on a target, then where some may."""
_ANY = 60


def longest_solution(height: int, width: int, num_boxes: int, on_target: bool) -> int:
    """No board has a shortest solution of more moves; `_ANY` where nobody has counted. 0 where
    there is no board.
    """
    small, large = sorted((height, width))
    counted = _LONGEST.get((small, large), ((), ()))[on_target]
    return counted[num_boxes - 1] if num_boxes <= len(counted) else _ANY


@dataclass(frozen=True, slots=True)
class Level:
    """A board with its start. Cells are numbered row by row; sets of cells are integers, a bit a
    cell.

    Attributes:
        height, width: in cells, the surrounding wall included.
        floor: all cells that aren't wall.
        targets, boxes: as many of one as of the other.
        player: the number of a cell.
        board: floor and targets in a form that is the same for boards equal up to turning and
            mirroring.
    """

    height: int
    width: int
    floor: int
    targets: int
    boxes: int
    player: int
    board: bytes

    def steps(self) -> tuple[int, int, int, int]:
        """How each of `ACTIONS` changes a cell's number."""
        return -self.width, self.width, -1, 1


def canonical_board(width: int, floor: int, targets: int) -> bytes:
    """What `Level.board` is, whatever the start; boards with the same are of the same split, so
    that no board leaks.

    Only the rectangle around the floor counts: a board that lies elsewhere within its wall, or
    within a larger one, is the same.
    """
    top = ((floor & -floor).bit_length() - 1) // width
    rows = (floor.bit_length() - 1) // width - top + 1
    floor >>= top * width
    columns = 0
    row = floor
    while row:
        columns |= row
        row >>= width
    columns &= (1 << width) - 1
    left = (columns & -columns).bit_length() - 1
    digits = bytearray(f"{floor >> left:0{rows * width}b}".encode()[::-1])
    for cell in cells(targets):
        digits[cell - top * width - left] = ord("3")
    return b"sokoban" + canonical(bytes(digits), rows, columns.bit_length() - left, width)


def draw_level(
    stream: HashStream,
    split: Split,
    *,
    height: int,
    width: int,
    num_boxes: int,
    shortest: int,
    longest: int,
    on_target: bool = False,
) -> Level:
    """A level of `split` whose shortest solution has between `shortest` and `longest` moves.

    A length is drawn. Then rooms are drawn, and targets in them, until such a board belongs to the
    split and has a solution of that length, in whose start no box stands on a target unless
    `on_target`.

    Raises:
        LevelError: none was found; the message says what to change.
    """
    longest = max(shortest, min(longest, longest_solution(height, width, num_boxes, on_target)))
    length = shortest + stream.below(longest - shortest + 1)
    # Of rooms of 6x6 where pushes can end on fewer cells, one target in 60 has a start, of others
    # three in five.
    fewest = min(length - 1, height * width // 4)
    most = _FEW_STATES
    for _ in range(_MOST_ROOMS):
        floor = _room(stream, height, width)
        pushed = _pushed_onto(floor, width)
        if pushed.bit_count() < fewest:
            continue
        # Where no push can end, a target must have its box from the start.
        ends = cells(floor if on_target and num_boxes > 1 else pushed)
        for targets in _targets(stream, split, cells(floor), ends, width, num_boxes):
            try:
                start = _start(stream, Solutions(width, floor, targets), length, on_target, most)
            except LevelError:
                if most >= MOST_STATES:
                    raise
                most = min(2 * most, MOST_STATES)
                break
            if start is not None:
                return Level(
                    height, width, floor, targets, *start, canonical_board(width, floor, targets)
                )
    raise LevelError(
        f"no {height}x{width} board with {num_boxes} boxes has a shortest solution of {shortest} "
        f"to {longest} moves (tried {_MOST_ROOMS}); widen the window or change dim_room or "
        "num_boxes"
    )


def _room(stream: HashStream, height: int, width: int) -> int:
    """A floor in one piece: cells taken with a chance of five or six in eight, and what hangs
    together of them.
    """
    count = height * width
    dice = stream.bits(3 * count + 9)
    one = dice >> 1
    two = dice >> count + 1
    three = dice >> 2 * count + 1
    taken = (one | two & three if dice & 1 else one | two) & inside(height, width)
    middles = taken & (taken << 1 & taken >> 1 | taken << width & taken >> width)
    high = middles & -1 << (dice >> 3 * count + 1) % count or middles
    return spread(high & -high, taken, width)


def spread(cells: int, free: int, width: int) -> int:
    """All free cells that hang together with some. Row ends are wall or outside, so that nothing
    wraps around.
    """
    seen = 0
    while seen != cells:
        seen = cells
        cells |= (cells << 1 | cells >> 1 | cells << width | cells >> width) & free
    return cells


def _pushed_onto(floor: int, width: int) -> int:
    """The cells that a push can end on: the two cells before them in some direction are floor."""
    sideways = (floor << 1 & floor << 2) | (floor >> 1 & floor >> 2)
    upright = (floor << width & floor << 2 * width) | (floor >> width & floor >> 2 * width)
    return floor & (sideways | upright)


def pushed_to(floor: int, targets: int, width: int) -> int:
    """The cells from which a box could come to a target if it were alone: from all others it never
    does.
    """
    seen = 0
    found = targets
    while seen != found:
        seen = found
        # Pulled back from a cell, the box needs the next one in that direction, and whoever pulls
        # the one after it.
        found |= found << 1 & floor & floor >> 1 | found >> 1 & floor & floor << 1
        found |= found << width & floor & floor >> width | found >> width & floor & floor << width
    return found


@functools.cache
def inside(height: int, width: int) -> int:
    """All cells but the wall around the board."""
    return sum(((1 << width - 2) - 1) << 1 + row * width for row in range(1, height - 1))


def cells(mask: int) -> list[int]:
    """The numbers of the cells in a set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _targets(
    stream: HashStream, split: Split, floor: list[int], ends: list[int], width: int, num_boxes: int
) -> Iterator[int]:
    """Sets of targets among `ends` that make boards of the split, a few for each room."""
    if num_boxes == 1:
        fitting = [cell for cell in ends if split_of_board(floor, [cell], width) == split]
        for _ in range(min(_TARGETS_OF_ONE_BOX, len(fitting))):
            yield 1 << fitting.pop(stream.below(len(fitting)))
    elif len(ends) >= num_boxes:
        for _ in range(_TARGETS_A_ROOM):
            chosen = stream.sample(ends, num_boxes)
            if split_of_board(floor, chosen, width) == split:
                yield sum([1 << cell for cell in chosen])


def _start(
    stream: HashStream, solutions: Solutions, length: int, on_target: bool, most: int
) -> tuple[int, int] | None:
    """One (boxes, player) from which `length` moves solve the board, each equally likely; `None` if
    there is none.
    """
    solutions.extend(length, most)
    if length >= len(solutions.layers):
        return None
    bare = 0 if on_target else solutions.targets
    starts = [
        (boxes, players) for boxes, players in solutions.layers[length].items() if not boxes & bare
    ]
    if solutions.targets.bit_count() == 1:  # by cell; of several boxes as the search comes to them
        starts.sort()
    total = sum([players.bit_count() for _, players in starts])
    if not total:
        return None
    nth = stream.below(total)
    for boxes, players in starts:
        if nth < players.bit_count():
            return boxes, cells(players)[nth]
        nth -= players.bit_count()
    raise AssertionError("the layer holds fewer states than were counted")
