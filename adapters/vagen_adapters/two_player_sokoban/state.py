"""The state of two-player Sokoban from one player's view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vagen_envs.grid import Position, relation
from vagen_envs.turn import State


@dataclass(frozen=True, slots=True)
class TwoPlayerSokobanState(State):
    """A position of the game from one player's view.

    Attributes:
        height: rows of the grid, including the surrounding wall.
        width: columns of the grid.
        floor: cells that aren't wall, as an integer: bit `row * width + column`, from the upper
            left.
        player: (row, column) of this player, counted from 0 at the upper left.
        other: (row, column) of the other player.
        boxes: (row, column) of each box, in reading order.
        targets: the same of each target.
    """

    kind: ClassVar[str] = "two_player_sokoban"

    height: int
    width: int
    floor: int
    player: Position
    other: Position
    boxes: tuple[Position, ...]
    targets: tuple[Position, ...]

    def sentences(self) -> tuple[str, ...]:
        """Relations of the other player, boxes and targets to this player, then of targets to
        boxes.
        """
        boxes = _named("box", self.boxes)
        targets = _named("target", self.targets)
        return (
            relation("the other player", self.other, "the player", self.player),
            *(relation(name, at, "the player", self.player) for name, at in (*boxes, *targets)),
            *(relation(target, at, box, box_at) for target, at in targets for box, box_at in boxes),
        )

    def structured(self) -> str:
        """Sokoban's dictionary with the other player's position."""
        return (
            f"{{player_position: {self.player}, other_player_position: {self.other}, "
            f"box_positions: {list(self.boxes)}, target_positions: {list(self.targets)}, "
            f"grid_size: {(self.height, self.width)}}}"
        )

    def symbolic(self) -> str:
        """Sokoban's grid with `Q` for the other player and `T` for the other player on a target."""
        boxes = set(self.boxes)
        targets = set(self.targets)

        def symbol(at: Position) -> str:
            if at == self.player:
                return "S" if at in targets else "P"
            if at == self.other:
                return "T" if at in targets else "Q"
            if at in boxes:
                return "*" if at in targets else "X"
            if at in targets:
                return "O"
            return "_" if self.floor >> at[0] * self.width + at[1] & 1 else "#"

        def line(row: int) -> str:
            return "".join(symbol((row, column)) for column in range(self.width))

        return "\n".join(map(line, range(self.height)))


def _named(name: str, positions: tuple[Position, ...]) -> list[tuple[str, Position]]:
    if len(positions) == 1:
        return [(f"the {name}", positions[0])]
    return [(f"{name}{i}", at) for i, at in enumerate(positions)]
