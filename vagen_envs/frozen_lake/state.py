"""The true state of a lake, in the paper's three representations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from vagen_envs.grid import Position, relation
from vagen_envs.turn import State


@dataclass(frozen=True, slots=True)
class FrozenLakeState(State):
    """A moment on the lake.

    Attributes:
        size: rows, and columns unless there is a `width`.
        player, target: (row, column), counted from 0 at the upper left; the target is the goal, the
            first of several.
        holes: (row, column) each, in reading order.
        width: columns of a map that isn't square.
        more_targets: the other goals of a map that has several.
    """

    kind: ClassVar[str] = "frozen_lake"
    related: ClassVar[tuple[tuple[str, str], ...]] = (("target", "player"), ("hole", "player"))
    """Things whose relations a full description states."""
    symbols: ClassVar[dict[str, tuple[str, ...]]] = {
        "_": (),
        ".": (),
        "P": ("player",),
        "O": ("hole",),
        "H": ("hole",),
        "G": ("target",),
        "X": ("player", "hole"),
        "*": ("player", "target"),
    }
    """What each symbol of a grid stands for."""

    size: int
    player: Position
    target: Position
    holes: tuple[Position, ...]
    width: int | None = None
    more_targets: tuple[Position, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.size, self.width or self.size

    @property
    def cells(self) -> dict[str, tuple[Position, ...]]:
        """The cells of the things of each kind."""
        return {
            "player": (self.player,),
            "target": (self.target, *self.more_targets),
            "hole": self.holes,
        }

    @property
    def extent(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """First and last row, first and last column."""
        rows, columns = self.shape
        return (0, rows - 1), (0, columns - 1)

    def to_json(self) -> dict[str, Any]:
        """As any state's; what a square map with one goal lacks isn't written."""
        written = State.to_json(self)
        return {name: value for name, value in written.items() if name not in _RARE or value}

    def sentences(self) -> tuple[str, ...]:
        """Target and holes seen from the player (VAGEN, appendix D.1)."""
        return (
            relation("target", self.target, "the player", self.player),
            *(
                relation("another target", goal, "the player", self.player)
                for goal in self.more_targets
            ),
            *(
                relation(f"hole{i}", hole, "the player", self.player)
                for i, hole in enumerate(self.holes)
            ),
        )

    def natural_language(self) -> str:
        """The sentences as prose, with "the target"."""
        return "The t" + State.natural_language(self)[1:]

    def structured(self) -> str:
        """As in VAGEN, appendix C.2."""
        target = f"target_position: {self.target}"
        if self.more_targets:
            target = f"target_positions: {[self.target, *self.more_targets]}"
        holes = f"hole_positions: {list(self.holes)}"
        return f"{{player_position: {self.player}, {target}, {holes}, grid_size: {self.shape}}}"

    def symbolic(self) -> str:
        """As in VAGEN, appendix C.1.

        `_` frozen, `O` hole, `G` goal, `P` you, `X` you in a hole, `*` you on the goal.
        """
        rows = [["_"] * self.shape[1] for _ in range(self.size)]
        for row, column in self.holes:
            rows[row][column] = "O"
        for row, column in (self.target, *self.more_targets):
            rows[row][column] = "G"
        row, column = self.player
        rows[row][column] = {"_": "P", "O": "X", "G": "*"}[rows[row][column]]
        return "\n".join(map("".join, rows))


_RARE = ("width", "more_targets")
