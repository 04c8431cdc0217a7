"""The game itself: one level being played."""

from __future__ import annotations

import functools

from vagen_envs.grid import Position
from vagen_envs.sokoban.levels import ACTIONS, Level, cells, push
from vagen_envs.sokoban.state import SokobanState

# Order of the tiles in tiles.png.
WALL, FLOOR, TARGET, BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET = range(7)
_FLOOR_DIGITS = bytes.maketrans(b"01", bytes((WALL, FLOOR)))


class Simulator:
    """A level being played.

    Attributes:
        boxes: a bit a cell; player: a cell's number.
    """

    def __init__(self, level: Level) -> None:
        self.level = level
        self.boxes = level.boxes
        self.player = level.player
        self._steps = _steps(level.width)
        self._targets = _places(level.targets, level.width)
        digits = f"{level.floor:0{level.height * level.width}b}".encode()
        self._bare = bytearray(digits.translate(_FLOOR_DIGITS)[::-1])
        for row, column in self._targets:
            self._bare[row * level.width + column] = TARGET

    def step(self, action: str) -> int | None:
        """Move the player. `None` if nothing moved, else by how much the boxes on targets became more (-1, 0, 1)."""
        step = self._steps[action]
        moved = push(self.level.floor, self.boxes, self.player, step)
        if moved is None:
            return None
        were, targets = self.boxes, self.level.targets
        self.boxes, self.player = moved
        return (self.boxes & targets).bit_count() - (were & targets).bit_count()

    @property
    def solved(self) -> bool:
        """Whether every box stands on a target."""
        return self.boxes == self.level.targets

    def state(self) -> SokobanState:
        """The truth now."""
        level = self.level
        player, boxes = divmod(self.player, level.width), _places(self.boxes, level.width)
        return SokobanState(level.height, level.width, level.floor, player, boxes, self._targets)

    def tiles(self) -> bytes:
        """The tile of each cell now, row by row."""
        tiles, on_target = self._bare.copy(), self.level.targets
        for cell in cells(self.boxes):
            tiles[cell] = BOX_ON_TARGET if on_target >> cell & 1 else BOX
        tiles[self.player] = PLAYER_ON_TARGET if on_target >> self.player & 1 else PLAYER
        return bytes(tiles)


@functools.cache
def _steps(width: int) -> dict[str, int]:
    """How each action changes the number of a cell."""
    return dict(zip(ACTIONS, (-width, width, -1, 1), strict=True))


@functools.lru_cache(maxsize=4096)  # boxes often stand still, and a fork comes back to where they were
def _places(mask: int, width: int) -> tuple[Position, ...]:
    return tuple([divmod(cell, width) for cell in cells(mask)])
