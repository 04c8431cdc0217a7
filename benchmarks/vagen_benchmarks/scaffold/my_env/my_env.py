"""A player walks to a target on an empty board. Replace the game by your own; the comments say what
depends on what.

Check it:   python test_my_env.py
Play it:    vagen play my_env:example/MyEnv-v0
Benchmark:  vagen bench -e my_env:example/MyEnv-v0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import gymnasium as gym
import numpy as np

from vagen_envs import Executed, Picture, RewardTerm, State, VagenEnv
from vagen_envs.bounds import Open, Whole
from vagen_envs.config import EnvConfig
from vagen_envs.errors import LevelError
from vagen_envs.replies import Action, Names
from vagen_envs.seeding import HashStream, Split, content_hash, split_of

CELL = 40
"""Pixels of a cell."""
STEPS = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}


@dataclass(frozen=True, kw_only=True)
class MyEnvConfig(EnvConfig):
    """Options of `example/MyEnv-v0`."""

    level_fields: ClassVar[tuple[str, ...]] = ("size",)  # the options that a level depends on

    prompt_pack: str = str(Path(__file__).parent / "prompts")
    max_turns: int = 4
    # Its bounds; `Open`: a client of a server may set it.
    size: Annotated[int, Whole(5, 8), Open()] = 6
    """Rows and columns; 5 to 8."""


@dataclass(frozen=True, slots=True)
class MyEnvState(State):
    """The true state. Judges compare a reply's `<observation>` and `<prediction>` with it."""

    kind: ClassVar[str] = "my_env"

    size: int
    player: tuple[int, int]
    """Row and column, from 0 at the upper left."""
    target: tuple[int, int]

    def sentences(self) -> tuple[str, ...]:
        return (f"the player is at {self.player}", f"the target is at {self.target}")

    def structured(self) -> str:
        return (
            f"{{player: {self.player}, target: {self.target}, grid_size: {(self.size, self.size)}}}"
        )


class MyEnv(VagenEnv):
    """Walk to the target.

    Version history:
        v0: first release.
    """

    id = "example/MyEnv-v0"
    config_class = MyEnvConfig
    prompt_folder = "my_env"  # in the folder `prompts`
    test_episodes = 100  # of the 1,260 boards of 6 × 6 cells some 126 are in the test split
    config: MyEnvConfig

    def _actions(self) -> Names:
        return Names(*STEPS)

    def _picture_shape(self) -> tuple[int, int, int]:
        return self.config.size * CELL, self.config.size * CELL, 3

    def _load(self, stream: HashStream, split: Split) -> None:
        # All randomness comes from `stream`, so that a level is a function of its seed. Redraw
        # until the level's content belongs to the split: then no level of the training split is in
        # the test split.
        cells = range(self.config.size**2)
        for _ in range(10_000):
            self.player, self.target = (
                divmod(cell, self.config.size) for cell in stream.sample(cells, 2)
            )
            if split_of(self._board()) == split:
                return
        raise LevelError(f"no board of split {split!r} in 10,000 draws; raise size")

    def _board(self) -> bytes:
        size = self.config.size
        cells = [(row, column) for row in range(size) for column in range(size)]
        board = bytes((cell == self.player) + 2 * (cell == self.target) for cell in cells)
        # Each board is a content of its own. A game of many more boards can return
        # `vagen_envs.grid.canonical(board, size, size)`: a board's mirror images share its split.
        return b"my_env" + board

    def _content(self) -> str:
        return content_hash(self._board())

    def _extract(self) -> MyEnvState:
        return MyEnvState(self.config.size, self.player, self.target)

    def _picture(self) -> Picture:
        size = self.config.size
        pixels = np.full((size, CELL, size, CELL, 3), 235, np.uint8)
        pixels[:, 0, :, :] = pixels[:, :, :, 0] = 200  # lines between cells
        pixels[self.target[0], 4:-4, self.target[1], 4:-4] = (214, 69, 65)
        pixels[self.player[0], 10:-10, self.player[1], 10:-10] = (38, 110, 210)
        return Picture(pixels.reshape(size * CELL, size * CELL, 3))

    def _execute(self, action: Action) -> Executed:
        before = self.player
        self.player = self._moved(before, action.name)
        term = RewardTerm("success", 10.0) if self._solved() else RewardTerm("step", -0.1)
        blocked = self.player == before
        feedback = f"{action.name} was blocked by the edge." if blocked else ""
        return Executed(action.text, effective=not blocked, rewards=(term,), feedback=feedback)

    def _moved(self, cell: tuple[int, int], name: str) -> tuple[int, int]:
        row, column = (at + step for at, step in zip(cell, STEPS[name], strict=True))
        inside = 0 <= row < self.config.size and 0 <= column < self.config.size
        return (row, column) if inside else cell

    def _solved(self) -> bool:
        return self.player == self.target

    # The oracle: what it would do, and what that leads to.

    def plan(self) -> Sequence[str]:
        rows = self.target[0] - self.player[0]
        columns = self.target[1] - self.player[1]
        vertical = ["Down" if rows > 0 else "Up"] * abs(rows)
        return vertical + ["Right" if columns > 0 else "Left"] * abs(columns)

    def imagine(self, actions: Sequence[str]) -> MyEnvState:
        cell = self.player
        for name in actions:
            cell = self._moved(cell, name)
            if cell == self.target:  # the episode ends here
                break
        return MyEnvState(self.config.size, cell, self.target)

    def _reason(self, actions: Sequence[str]) -> str:
        return f"{', '.join(actions)} leads towards the target."


if "example/MyEnv-v0" not in gym.registry:
    gym.register("example/MyEnv-v0", "my_env:MyEnv")
