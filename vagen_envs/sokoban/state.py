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
        floor: cells that aren't wall, as an integer: bit `row * width + column`, from the upper
            left.
        player: (row, column), counted from 0 at the upper left.
        boxes, targets: (row, column) each, in reading order.
    """

    kind: ClassVar[str] = "sokoban"
    related: ClassVar[tuple[tuple[str, str], ...]] = (
        ("box", "player"),
        ("target", "player"),
        ("target", "box"),
    )
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
        cells = [
            divmod(i, self.width) for i in range(self.height * self.width) if self.floor >> i & 1
        ]
        rows, columns = zip(*cells, strict=True)
        return (min(rows), max(rows)), (min(columns), max(columns))

    def sentences(self) -> tuple[str, ...]:
        """Boxes and targets seen from the player, then targets seen from boxes (VAGEN, appendix
        D.1).
        """
        boxes = [(f"box{i}", at) for i, at in enumerate(self.boxes)]
        targets = [(f"target{i}", at) for i, at in enumerate(self.targets)]
        found = [relation(name, at, "the player", self.player) for name, at in (*boxes, *targets)]
        for target, at in targets:
            found += [relation(target, at, box, box_at) for box, box_at in boxes]
        return tuple(found)

    def natural_language(self) -> str:
        """The sentences as prose; with one box there is nothing to number."""
        prose = State.natural_language(self)
        if len(self.boxes) > 1:
            return prose
        return (
            prose.replace("Box0", "The box")
            .replace("Target0", "The target")
            .replace("box0", "the box")
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
        cells = ["_" if self.floor >> i & 1 else "#" for i in range(self.height * self.width)]
        rows = [cells[i : i + self.width] for i in range(0, len(cells), self.width)]
        for row, column in self.targets:
            rows[row][column] = "O"
        for row, column in self.boxes:
            rows[row][column] = "*" if rows[row][column] == "O" else "X"
        row, column = self.player
        rows[row][column] = "S" if rows[row][column] == "O" else "P"
        return "\n".join(map("".join, rows))
