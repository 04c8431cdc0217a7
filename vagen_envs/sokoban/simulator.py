"""The game itself: one level being played."""

from __future__ import annotations

from vagen_envs.grid import ACTIONS, Position
from vagen_envs.sokoban.levels import Level, cells
from vagen_envs.sokoban.solver import push
from vagen_envs.sokoban.state import SokobanState

# Order of the tiles in tiles.png.
WALL, FLOOR, TARGET, BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET = range(7)


class SokobanSimulator:
    """A level being played.

    Attributes:
        boxes: a bit a cell; player: a cell's number.
        lost: never: a stuck box doesn't end the game.
    """

    lost = False

    def __init__(self, level: Level, counted: int = 0) -> None:
        self.level = level
        self._counted = counted
        self.boxes = level.boxes
        self.player = level.player
        self._steps = dict(zip(ACTIONS, level.steps(), strict=True))

    def step(self, action: str) -> int | None:
        """Move the player. `None` if nothing moved, else by how much the boxes on targets became
        more (-1, 0, 1).
        """
        step = self._steps[action]
        moved = push(self.level.floor, self.boxes, self.player, step)
        if moved is None:
            return None
        were = self.boxes
        targets = self.level.targets
        self.boxes, self.player = moved
        return (self.boxes & targets).bit_count() - (were & targets).bit_count()

    def gain(self) -> int:
        """Whether more boxes stand on targets than when this was last asked: -1, 0 or 1
        (gym-sokoban's count).
        """
        now = (self.boxes & self.level.targets).bit_count()
        before = self._counted
        self._counted = now
        return (now > before) - (now < before)

    def copy(self) -> SokobanSimulator:
        """The same moment again."""
        twin = object.__new__(SokobanSimulator)  # five times as fast as `copy.copy`
        twin.__dict__.update(self.__dict__)
        return twin

    def __eq__(self, other: object) -> bool:
        """Whether it is the same moment of the same level, whatever was counted before."""
        return isinstance(other, SokobanSimulator) and (
            self.level is other.level and self.boxes == other.boxes and self.player == other.player
        )

    def __hash__(self) -> int:
        return hash((id(self.level), self.boxes, self.player))

    @property
    def solved(self) -> bool:
        """Whether every box stands on a target."""
        return self.boxes == self.level.targets

    def state(self) -> SokobanState:
        """The truth now."""
        level = self.level
        boxes = _places(self.boxes, level.width)
        targets = _places(level.targets, level.width)
        return SokobanState(
            level.height, level.width, level.floor, divmod(self.player, level.width), boxes, targets
        )

    def tiles(self) -> bytes:
        """The tile of each cell now, row by row."""
        floor = self.level.floor
        targets = self.level.targets
        tiles = bytearray(
            FLOOR if floor >> cell & 1 else WALL
            for cell in range(self.level.height * self.level.width)
        )
        for cell in cells(targets):
            tiles[cell] = TARGET
        for cell in cells(self.boxes):
            tiles[cell] = BOX_ON_TARGET if targets >> cell & 1 else BOX
        tiles[self.player] = PLAYER_ON_TARGET if targets >> self.player & 1 else PLAYER
        return bytes(tiles)


def _places(mask: int, width: int) -> tuple[Position, ...]:
    return tuple(divmod(cell, width) for cell in cells(mask))
