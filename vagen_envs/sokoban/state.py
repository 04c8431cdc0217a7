"""The true state of Sokoban, in the paper's three representations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vagen_envs.grid import Position, relation
from vagen_envs.turn import State


@dataclass(frozen=True, slots=True)
class SokobanState(State):
    """A position of the game.

    Attributes:
        height, width: of the grid in cells, the surrounding wall included.
        floor: cells that aren't wall, as an integer: bit `row * width + column`, from the upper left.
        player: (row, column), counted from 0 at the upper left.
        boxes, targets: (row, column) each, in reading order.
    """

    kind: ClassVar[str] = "sokoban"
    related: ClassVar[tuple[tuple[str, str], ...]] = (("box", "player"), ("target", "player"), ("target", "box"))
    """Things whose relations a full description states."""
    symbols: ClassVar[dict[str, tuple[str, ...]]] = {
        "#": (),
        "_": (),
        "P": ("player",),
        "S": ("player", "target"),
        "X": ("box",),
        "*": ("box", "target"),
        "O": ("target",),
    }
    """What each symbol of a grid stands for."""

    height: int
    width: int
    floor: int
    player: Position
    boxes: tuple[Position, ...]
    targets: tuple[Position, ...]

    @property
    def cells(self) -> dict[str, tuple[Position, ...]]:
        """The cells of the things of each kind."""
        return {"player": (self.player,), "box": self.boxes, "target": self.targets}

    @property
    def extent(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """First and last row, first and last column that have floor."""
        cells = [divmod(i, self.width) for i in range(self.height * self.width) if self.floor >> i & 1]
        rows, columns = zip(*cells, strict=True)
        return (min(rows), max(rows)), (min(columns), max(columns))

    def sentences(self) -> tuple[str, ...]:
        """Boxes and targets seen from the player, then targets seen from boxes (VAGEN, appendix D.1)."""
        return self._relations(_numbered("box", len(self.boxes)), _numbered("target", len(self.targets)))

    def natural_language(self) -> str:
        """The sentences as prose; with one box there is nothing to number."""
        if len(self.boxes) > 1:
            return State.natural_language(self)
        return " ".join(
            f"{sentence[0].upper()}{sentence[1:]}." for sentence in self._relations(["the box"], ["the target"])
        )

    def _relations(self, boxes: list[str], targets: list[str]) -> tuple[str, ...]:
        return (
            *(relation(name, at, "the player", self.player) for name, at in zip(boxes, self.boxes, strict=True)),
            *(relation(name, at, "the player", self.player) for name, at in zip(targets, self.targets, strict=True)),
            *(
                relation(target, at, box, box_at)
                for target, at in zip(targets, self.targets, strict=True)
                for box, box_at in zip(boxes, self.boxes, strict=True)
            ),
        )

    def structured(self) -> str:
        """As in VAGEN, appendix C.2."""
        return (
            f"{{player_position: {self.player}, box_positions: {list(self.boxes)}, "
            f"target_positions: {list(self.targets)}, grid_size: {(self.height, self.width)}}}"
        )

    def symbolic(self) -> str:
        """As in VAGEN, appendix C.1.

        `#` wall, `_` floor, `O` target, `X` box, `P` you, `*` box on target, `S` you on target.
        """
        boxes, targets, floor, width = set(self.boxes), set(self.targets), self.floor, self.width

        def symbol(row: int, column: int) -> str:
            at = (row, column)
            if at == self.player:
                return "S" if at in targets else "P"
            if at in boxes:
                return "*" if at in targets else "X"
            if at in targets:
                return "O"
            return "_" if floor >> row * width + column & 1 else "#"

        return "\n".join("".join(symbol(row, column) for column in range(width)) for row in range(self.height))


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}{i}" for i in range(count)]
