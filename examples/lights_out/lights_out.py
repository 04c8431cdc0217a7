"""Lights Out: a press switches a lamp and its neighbours; all must go out. An environment outside
the package.

Run it to see the oracle play, or: PYTHONPATH=examples/lights_out vagen bench -e
lights_out:example/LightsOut-v0
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
from vagen_envs.grid import canonical
from vagen_envs.replies import Action, Names
from vagen_envs.seeding import HashStream, Split, content_hash, split_of

LAMP = 32
"""Pixels of a lamp."""


@dataclass(frozen=True, kw_only=True)
class LightsOutConfig(EnvConfig):
    """Options of `example/LightsOut-v0`."""

    level_fields: ClassVar[tuple[str, ...]] = ("size", "max_presses")

    prompt_pack: str = str(Path(__file__).parent / "prompts")
    size: Annotated[int, Whole(2, 5), Open()] = 3
    """Rows and columns; 2 to 5."""
    max_presses: Annotated[int, Whole(1, 25), Open()] = 9
    """A level can be solved with at most so many presses: 9 is what three turns of three actions
    can do.
    """

    def __post_init__(self) -> None:
        EnvConfig.__post_init__(self)
        self.require(self.max_presses <= self.size**2, "max_presses", f"from 1 to {self.size**2}")


@dataclass(frozen=True, slots=True)
class LightsOutState(State):
    """The names of the lamps that are on, in reading order."""

    kind: ClassVar[str] = "lights_out"

    size: int
    lit: tuple[str, ...]

    def sentences(self) -> tuple[str, ...]:
        return (
            f"the lamps that are on are {', '.join(self.lit)}" if self.lit else "no lamp is on",
        )

    def structured(self) -> str:
        return f"{{lamps_on: [{', '.join(self.lit)}], grid_size: {(self.size, self.size)}}}"


class LightsOutEnv(VagenEnv):
    """Switch all lamps off. Actions: the lamps' names, `A1` at the upper left.

    Version history:
        v0: first release.
    """

    id = "example/LightsOut-v0"
    config_class = LightsOutConfig
    prompt_folder = "lights_out"
    config: LightsOutConfig

    def _actions(self) -> Names:
        size = self.config.size
        self.names = [
            f"{'ABCDE'[row]}{column + 1}" for row in range(size) for column in range(size)
        ]
        cells = np.arange(size * size)
        rows, columns = np.divmod(cells, size)
        near = abs(rows[:, None] - rows) + abs(columns[:, None] - columns) <= 1
        self.switched = [cells[row].tolist() for row in near]  # by a press of each lamp
        return Names(*self.names)

    def _picture_shape(self) -> tuple[int, int, int]:
        return self.config.size * LAMP, self.config.size * LAMP, 3

    def _load(self, stream: HashStream, split: Split) -> None:
        for _ in range(10_000):
            presses = 1 + stream.below(self.config.max_presses)
            self.to_press = set(stream.sample(range(self.config.size**2), presses))
            self.lit: set[int] = set()
            for lamp in self.to_press:
                self.lit ^= set(self.switched[lamp])
            if self.lit and split_of(self._board()) == split:
                return
        raise LevelError(f"no board of split {split!r} found in 10,000; raise size or max_presses")

    def _board(self) -> bytes:
        size = self.config.size
        return b"lights_out" + canonical(
            bytes(i in self.lit for i in range(size * size)), size, size
        )

    def _content(self) -> str:
        return content_hash(self._board())

    def _extract(self) -> LightsOutState:
        return LightsOutState(self.config.size, tuple(self.names[i] for i in sorted(self.lit)))

    def _picture(self) -> Picture:
        size = self.config.size
        row, column = np.mgrid[:LAMP, :LAMP] - (LAMP - 1) / 2
        disc = row**2 + column**2 < (0.4 * LAMP) ** 2
        pixels = np.full((size, LAMP, size, LAMP, 3), 40, np.uint8)
        for i in range(size * size):
            pixels[i // size, :, i % size][disc] = (
                (255, 214, 64) if i in self.lit else (90, 90, 100)
            )
        return Picture(pixels.reshape(size * LAMP, size * LAMP, 3))

    def _execute(self, action: Action) -> Executed:
        lamp = self.names.index(action.name)
        self.lit ^= set(self.switched[lamp])
        self.to_press ^= {lamp}
        term = RewardTerm("step", -0.1) if self.lit else RewardTerm("success", 10.0)
        return Executed(action.text, effective=True, rewards=(term,))

    def _solved(self) -> bool:
        return not self.lit

    def _reason(self, actions: Sequence[str]) -> str:
        return f"Pressing {' and '.join(actions)} brings all lamps nearer to being off."

    def plan(self) -> Sequence[str]:
        return [self.names[lamp] for lamp in sorted(self.to_press)]

    def imagine(self, actions: Sequence[str]) -> LightsOutState:
        lit = set(self.lit)
        for name in actions:
            lit ^= set(self.switched[self.names.index(name)])
        return LightsOutState(self.config.size, tuple(self.names[i] for i in sorted(lit)))


if "example/LightsOut-v0" not in gym.registry:
    gym.register("example/LightsOut-v0", "lights_out:LightsOutEnv")

if __name__ == "__main__":
    env = gym.make("example/LightsOut-v0")
    env.reset(seed=7)
    over = False
    while not over:
        *_, over, _, info = env.step(env.unwrapped.oracle_reply())
        print(info["turn"].reply, info["turn"].rewards, sep="\n")
