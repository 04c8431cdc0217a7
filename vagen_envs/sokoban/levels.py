"""Levels and exact solutions by retrograde search.

From the solved states, moves are undone breadth-first; a state's depth is its exact distance, in
moves, from the nearest solved state. All player positions of one placement of the boxes are one
integer, a bit a cell, so a whole set of them moves with a shift. Boards have walls all around, so
nothing wraps around an edge.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from vagen_envs.errors import LevelError
from vagen_envs.grid import canonical
from vagen_envs.seeding import HashStream, Split, split_of

ACTIONS = ("Up", "Down", "Left", "Right")

_MOST_STATES = 3_000_000
_MOST_ROOMS = 10_000
_TARGETS_A_ROOM = 2


@dataclass(frozen=True, slots=True)
class Level:
    """A board with its start. Cells are numbered row by row; sets of cells are integers, a bit a cell.

    Attributes:
        height, width: in cells, the surrounding wall included.
        floor: all cells that aren't wall.
        targets, boxes: as many of one as of the other.
        player: the number of a cell.
        board: floor and targets in a form that is the same for boards equal up to turning and mirroring.
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

    def to_json(self) -> list[Any]:
        """All but the size."""
        return [self.floor, self.targets, self.boxes, self.player, self.board.hex()]

    @classmethod
    def from_json(cls, height: int, width: int, data: Any) -> Level:
        """What `to_json` gave. Raises ValueError or TypeError if it can't be a level of this size."""
        floor, targets, boxes, player, board = data
        if not 0 <= floor == floor & inside(height, width) or targets & ~floor:
            raise ValueError("the board isn't walled, or a target is in a wall")
        return cls(height, width, floor, targets, boxes, player, bytes.fromhex(board))


def canonical_board(height: int, width: int, floor: int, targets: int) -> bytes:
    """What `Level.board` is; splits go by it, whatever the start, so that no board leaks."""
    # Binary digits read as hexadecimal ones leave room to add two sets cell by cell.
    digits = int(f"{floor:b}", 16) + 2 * int(f"{targets:b}", 16)
    return b"sokoban" + canonical(f"{digits:0{height * width}x}"[::-1].encode(), height, width)


class Solutions:
    """Exact distances to the solved states of one board, searched as deep as anybody has asked."""

    def __init__(self, width: int, floor: int, targets: int) -> None:
        self._floor = floor
        self._width = width
        self._seen: dict[int, int] = {targets: floor & ~targets}
        self.layers: list[dict[int, int]] = [dict(self._seen)]
        """`layers[d]` maps a placement of the boxes to the player cells from which d moves solve it."""

    def extend(self, depth: int) -> None:
        """Search until `layers` reaches `depth` or there are no more states.

        Raises:
            LevelError: the board has more states than fit a sensible time and memory.
        """
        while len(self.layers) <= depth and self.layers[-1]:
            self.layers.append(self._before(self.layers[-1]))
            if len(self._seen) > _MOST_STATES:
                raise LevelError(
                    f"more than {_MOST_STATES} placements of boxes lie within {len(self.layers)} moves of the goal; "
                    "ask for a smaller board, fewer boxes or a shorter solution"
                )

    def _before(self, layer: dict[int, int]) -> dict[int, int]:
        """The states from which one move leads into `layer` and that no shorter way was found for."""
        floor, width, seen = self._floor, self._width, self._seen
        found: dict[int, int] = {}
        for boxes, players in layer.items():
            free = floor & ~boxes
            walked = (players << 1 | players >> 1 | players << width | players >> width) & free & ~seen[boxes]
            if walked:
                seen[boxes] |= walked
                found[boxes] = found.get(boxes, 0) | walked
            if not players & (boxes << 1 | boxes >> 1 | boxes << width | boxes >> width):
                continue
            for step in (1, width):
                # The player stands on p, the box it just pushed on p + step, and it came from p - step.
                pulls = players & boxes >> step & free << step
                while pulls:
                    p = pulls & -pulls
                    pulls ^= p
                    self._note(found, boxes ^ p ^ p << step, p >> step)
                pulls = players & boxes << step & free >> step
                while pulls:
                    p = pulls & -pulls
                    pulls ^= p
                    self._note(found, boxes ^ p ^ p >> step, p << step)
        return found

    def _note(self, found: dict[int, int], boxes: int, player: int) -> None:
        seen = self._seen.get(boxes, 0)
        if not seen & player:
            self._seen[boxes] = seen | player
            found[boxes] = found.get(boxes, 0) | player

    def distance(self, boxes: int, player: int) -> int | None:
        """The fewest moves that solve this state; `None` if nothing does. `player` is a cell's number."""
        bit = 1 << player
        depth = 0
        while True:
            self.extend(depth)
            if depth >= len(self.layers) or not self.layers[depth]:
                return None
            if self.layers[depth].get(boxes, 0) & bit:
                return depth
            depth += 1

    def moves(self, boxes: int, player: int) -> list[int]:
        """A shortest solution as indices into `ACTIONS`. Raises LevelError if there is none."""
        depth = self.distance(boxes, player)
        if depth is None:
            raise LevelError("no sequence of moves solves this position: a box is stuck; reset for another level")
        path = []
        steps = (-self._width, self._width, -1, 1)
        for left in range(depth - 1, -1, -1):
            for action, step in enumerate(steps):
                moved = push(self._floor, boxes, player, step)
                if moved is not None and self.layers[left].get(moved[0], 0) >> moved[1] & 1:
                    boxes, player = moved
                    path.append(action)
                    break
        return path


def push(floor: int, boxes: int, player: int, step: int) -> tuple[int, int] | None:
    """The rules of the game: boxes and player after one move, `None` if a wall or a box stops it."""
    to = player + step
    if not floor >> to & 1:
        return None
    if boxes >> to & 1:
        beyond = to + step
        if not floor >> beyond & 1 or boxes >> beyond & 1:
            return None
        return boxes ^ (1 << to | 1 << beyond), to
    return boxes, to


def draw_level(
    stream: HashStream,
    split: Split,
    *,
    height: int,
    width: int,
    num_boxes: int,
    shortest: int,
    longest: int,
) -> tuple[Level, Solutions]:
    """A level of `split` whose shortest solution has between `shortest` and `longest` moves.

    The board is carved by a random walk, and dropped if its content belongs to another split. Then
    a length is drawn, the board dropped if it has no such solution, and a start of that length is drawn.

    Raises:
        LevelError: none was found; the message says what to change.
    """
    for _ in range(_MOST_ROOMS):
        floor = _carve(stream, height, width)
        inside = cells(floor)
        if len(inside) < 2 * num_boxes + 1:
            continue
        reachable = _pushed_onto(floor, width)
        for _ in range(_TARGETS_A_ROOM):
            targets = sum([1 << cell for cell in stream.sample(inside, num_boxes)])
            if not targets & reachable:
                continue
            board = canonical_board(height, width, floor, targets)
            if split_of(board) != split:
                continue
            solutions = Solutions(width, floor, targets)
            length = shortest + stream.below(longest - shortest + 1)
            solutions.extend(length)
            if length < len(solutions.layers) and solutions.layers[length]:
                boxes, player = _start(stream, solutions.layers[length])
                return Level(height, width, floor, targets, boxes, player, board), solutions
    raise LevelError(
        f"no {height}x{width} board with {num_boxes} boxes has a shortest solution of {shortest} to {longest} moves "
        f"(tried {_MOST_ROOMS}); widen the window or change dim_room or num_boxes"
    )


def _carve(stream: HashStream, height: int, width: int) -> int:
    """The floor left by a random walk with a brush, inside a wall all around.

    The walk goes on until a wall or a whim turns it, and each step clears three or four cells. Its length
    gives 6x6 boards of 12 floor cells on average; gym-sokoban's have 12.6 in the same window.
    """
    steps, free = (-width, width, -1, 1), inside(height, width)
    # Three rows of three cells around the walker: a row, a column, a square, a corner.
    brushes = (
        0b111 << width,
        0b010 | 0b010 << width | 0b010 << 2 * width,
        0b110 << width | 0b110 << 2 * width,
        0b010 | 0b110 << width,
    )
    cell = (1 + stream.below(height - 2)) * width + 1 + stream.below(width - 2)
    step = steps[stream.bits(2)]
    count = int(1.25 * (height + width))
    floor = 0
    for die in stream.bits(8 * count).to_bytes(count, "little"):
        if free >> cell + step & 1:
            cell += step
        if die & 3 == 0 or not free >> cell + step & 1:
            step = steps[die >> 2 & 3]
        floor |= brushes[die >> 4 & 3] << cell - width - 1
    return floor & free


def _pushed_onto(floor: int, width: int) -> int:
    """The cells that a push can end on: the two cells before them in some direction are floor."""
    sideways = (floor << 1 & floor << 2) | (floor >> 1 & floor >> 2)
    upright = (floor << width & floor << 2 * width) | (floor >> width & floor >> 2 * width)
    return floor & (sideways | upright)


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


def _start(stream: HashStream, layer: dict[int, int]) -> tuple[int, int]:
    """One (boxes, player) of a layer, each equally likely."""
    nth = stream.below(sum(players.bit_count() for players in layer.values()))
    for boxes, players in layer.items():
        count = players.bit_count()
        if nth < count:
            return boxes, cells(players)[nth]
        nth -= count
    raise AssertionError("the layer holds fewer states than were counted")
