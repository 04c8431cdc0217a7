"""What is true on the lake, in the paper's three representations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vagen_envs.grid import Position, on_board, outside, relation
from vagen_envs.things import Thing
from vagen_envs.turn import State


@dataclass(frozen=True, slots=True)
class FrozenLakeState(State):
    """A moment on the lake.

    Attributes:
        size: rows and columns.
        player, target: (row, column), counted from 0 at the upper left; the target is the goal.
        holes: (row, column) each, in reading order.
    """

    kind: ClassVar[str] = "frozen_lake"

    size: int
    player: Position
    target: Position
    holes: tuple[Position, ...]

    def sentences(self) -> tuple[str, ...]:
        """Target and holes seen from the player (VAGEN, appendix D.1)."""
        return (
            relation("target", self.target, "the player", self.player),
            *(relation(f"hole{i}", hole, "the player", self.player) for i, hole in enumerate(self.holes)),
        )

    def natural_language(self) -> str:
        """The sentences as prose, with "the target"."""
        return "The t" + State.natural_language(self)[1:]

    def structured(self) -> str:
        """As in VAGEN, appendix C.2."""
        return (
            f"{{player_position: {self.player}, target_position: {self.target}, "
            f"hole_positions: {list(self.holes)}, grid_size: {(self.size, self.size)}}}"
        )

    def symbolic(self) -> str:
        """As in VAGEN, appendix C.1.

        `_` frozen, `O` hole, `G` goal, `P` you, `X` you in a hole, `*` you on the goal.
        """
        rows = [["_"] * self.size for _ in range(self.size)]
        for row, column in self.holes:
            rows[row][column] = "O"
        rows[self.target[0]][self.target[1]] = "G"
        row, column = self.player
        rows[row][column] = {"_": "P", "O": "X", "G": "*"}[rows[row][column]]
        return "\n".join(map("".join, rows))

    def things(self) -> tuple[Thing, ...]:
        """Player, target and holes, each with what is beside it and the way to the target or the player."""
        size = (self.size, self.size)
        beside = {"hole": self.holes, "edge": outside(*size)}
        to_target, to_player = {"target": self.target}, {"player": self.player}
        return (
            on_board("player", self.player, size, beside=beside, ways=to_target),
            on_board("target", self.target, size, beside=beside, ways=to_player),
            *(on_board("hole", hole, size, beside=beside, ways=to_target | to_player) for hole in self.holes),
        )
