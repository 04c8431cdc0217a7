"""The game itself: one level being played."""

from __future__ import annotations

from vagen_envs.grid import Position
from vagen_envs.sokoban.levels import ACTIONS, Level, push
from vagen_envs.sokoban.state import SokobanState

# Order of the tiles in tiles.png.
WALL, FLOOR, TARGET, BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET = range(7)


class Simulator:
    """A level being played.

    Attributes:
        boxes: a bit a cell; player: a cell's number.
        tiles: the tile of each cell now, row by row.
    """

    def __init__(self, level: Level) -> None:
        self.level = level
        self.boxes = level.boxes
        self.player = level.player
        self._steps = dict(zip(ACTIONS, level.steps(), strict=True))
        self._positions: list[Position] = [divmod(i, level.width) for i in range(level.height * level.width)]
        self._targets = self._where(level.targets)
        self.tiles = [FLOOR if level.floor >> i & 1 else WALL for i in range(len(self._positions))]
        for cell in range(len(self.tiles)):
            self._retile(cell)

    def step(self, action: str) -> int | None:
        """Move the player. `None` if nothing moved, else by how much the boxes on targets became more (-1, 0, 1)."""
        step = self._steps[action]
        moved = push(self.level.floor, self.boxes, self.player, step)
        if moved is None:
            return None
        was, boxes = self.player, self.boxes
        self.boxes, self.player = moved
        self._retile(was)
        self._retile(self.player)
        if self.boxes == boxes:
            return 0
        self._retile(self.player + step)
        targets = self.level.targets
        return (self.boxes & targets).bit_count() - (boxes & targets).bit_count()

    @property
    def solved(self) -> bool:
        """Whether every box stands on a target."""
        return self.boxes == self.level.targets

    def state(self) -> SokobanState:
        """The truth now."""
        level = self.level
        return SokobanState(
            level.height, level.width, level.floor, self._positions[self.player], self._where(self.boxes), self._targets
        )

    def _where(self, cells: int) -> tuple[Position, ...]:
        found = []
        while cells:
            low = cells & -cells
            found.append(self._positions[low.bit_length() - 1])
            cells ^= low
        return tuple(found)

    def _retile(self, cell: int) -> None:
        target = self.level.targets >> cell & 1
        if cell == self.player:
            tile = PLAYER_ON_TARGET if target else PLAYER
        elif self.boxes >> cell & 1:
            tile = BOX_ON_TARGET if target else BOX
        elif target:
            tile = TARGET
        else:
            tile = FLOOR if self.level.floor >> cell & 1 else WALL
        self.tiles[cell] = tile
