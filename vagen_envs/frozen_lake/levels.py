"""Lakes: a map with a start whose shortest safe way has a wanted length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vagen_envs.errors import ConfigError, LevelError
from vagen_envs.grid import canonical
from vagen_envs.seeding import HashStream, Split, split_of

ACTIONS = ("Up", "Down", "Left", "Right")
MOVES = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}

FROZEN, HOLE, GOAL = range(3)

_MOST_LAKES = 20_000


@dataclass(frozen=True, slots=True)
class Lake:
    """A map with its start. Cells are numbered row by row.

    Attributes:
        size: rows and columns.
        cells: `FROZEN`, `HOLE` or `GOAL`, one a cell.
        start: where the player begins.
    """

    size: int
    cells: bytes
    start: int

    def map(self) -> bytes:
        """The map without its start, the same for maps that are equal up to turning and mirroring."""
        return b"frozen_lake" + canonical(self.cells, self.size, self.size)

    def to_json(self) -> list[Any]:
        """All but the size."""
        return [self.cells.hex(), self.start]

    @classmethod
    def from_json(cls, size: int, data: Any) -> Lake:
        """What `to_json` gave. Raises ValueError or TypeError if it can't be a lake of this size."""
        cells, start = data
        lake = cls(size, bytes.fromhex(cells), start)
        if len(lake.cells) != size * size or max(lake.cells) > GOAL or lake.cells.count(GOAL) != 1:
            raise ValueError(f"this isn't a lake of {size} rows with one goal")
        return lake


def move(size: int, cell: int, action: str) -> int:
    """The cell that `action` leads to; the edge of the lake stops it."""
    rows, columns = MOVES[action]
    row, column = cell // size + rows, cell % size + columns
    return row * size + column if 0 <= row < size and 0 <= column < size else cell


def distances(size: int, cells: bytes) -> list[int | None]:
    """Fewest moves from each cell to a goal without touching a hole; `None` where there is no way."""
    found: list[int | None] = [0 if cell == GOAL else None for cell in cells]
    frontier = [i for i, cell in enumerate(cells) if cell == GOAL]
    depth = 0
    while frontier:
        depth += 1
        reached = []
        for cell in frontier:
            row, column = divmod(cell, size)
            for near, inside in (
                (cell - size, row > 0),
                (cell + size, row < size - 1),
                (cell - 1, column > 0),
                (cell + 1, column < size - 1),
            ):
                if inside and found[near] is None and cells[near] == FROZEN:
                    found[near] = depth
                    reached.append(near)
        frontier = reached
    return found


def draw_lake(
    stream: HashStream, split: Split, *, size: int, hole_probability: float, shortest: int, longest: int
) -> Lake:
    """A lake of `split` whose shortest safe way has between `shortest` and `longest` moves.

    Each cell is a hole with `hole_probability`, as in Gymnasium; the goal is anywhere. Then a length
    is drawn among those that the map has, and a start among those of that length.

    Raises:
        LevelError: none was found; the message says what to change.
    """
    count = size * size
    for _ in range(_MOST_LAKES):
        dice = stream.bits(16 * count)
        holes = int(hole_probability * 65536)
        cells = bytearray(count)
        for i in range(count):
            cells[i] = HOLE if dice >> 16 * i & 65535 < holes else FROZEN
        cells[stream.below(count)] = GOAL
        if split_of(Lake(size, bytes(cells), 0).map()) != split:
            continue  # whatever the start, so no map leaks
        far = distances(size, bytes(cells))
        lengths = sorted({d for d in far if d is not None and shortest <= d <= longest})
        if lengths:
            length = stream.choice(lengths)
            start = stream.choice([i for i, d in enumerate(far) if d == length])
            return Lake(size, bytes(cells), start)
    raise LevelError(
        f"no {size}x{size} lake with hole_probability={hole_probability} has a shortest way of {shortest} to {longest} "
        f"moves (tried {_MOST_LAKES}); widen the window or change size or hole_probability"
    )


def read_lake(desc: Sequence[str]) -> Lake:
    """A lake from Gymnasium's letters: `S` start, `F` frozen, `H` hole, `G` goal.

    Raises:
        ConfigError: it isn't a square of these letters with one start and one goal that can be reached.
    """
    text = "".join(desc)
    size = len(desc)
    letters = {"S": FROZEN, "F": FROZEN, "H": HOLE, "G": GOAL}
    if (
        any(len(row) != size for row in desc)
        or set(text) - set(letters)
        or text.count("S") != 1
        or text.count("G") != 1
    ):
        raise ConfigError(
            f"desc={list(desc)!r} is not a lake: it must be a square of the letters S, F, H, G with one S and one G"
        )
    lake = Lake(size, bytes(letters[letter] for letter in text), text.index("S"))
    if distances(size, lake.cells)[lake.start] is None:
        raise ConfigError(f"desc={list(desc)!r} has no way from S to G; open one through F")
    return lake
