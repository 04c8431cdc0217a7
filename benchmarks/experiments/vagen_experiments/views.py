"""FrozenLake and Sokoban seen by picture, told by caption, or both, in prompts of one layout.

Importing this module registers `laboratory/FrozenLakeView-v0` and `laboratory/SokobanView-v0`, with
the options of the environments and `shown`: `picture`, `caption`, `both`, or `mixed`, in which
every level has one of the three, by its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from vagen_envs.turn import IMAGE_PLACEHOLDER

VIEWS = ("picture", "caption", "both")
GRIDS = ("FrozenLake", "Sokoban")


class View(gym.Wrapper[Any, Any, Any, Any]):
    """Writes the caption under the picture, and may grey the picture.

    The caption is the state in the sentences that replies describe it with: on which side of what
    things are, not how far away. A hidden picture keeps its place and size, where critics that are
    told the state find the turn.
    """

    def __init__(self, env: gym.Env[Any, Any], shown: str) -> None:
        super().__init__(env)
        if shown not in (*VIEWS, "mixed"):
            raise ValueError(f"shown={shown!r} is none of {', '.join(VIEWS)} and mixed")
        self._asked = self._view = shown

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset to the level; `mixed` views need its seed."""
        if self._asked == "mixed":
            if seed is None:
                raise ValueError("mixed views are given to levels by their seeds")
            self._view = VIEWS[seed % len(VIEWS)]
        observation, info = self.env.reset(seed=seed, options=options)
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._seen(observation), reward, terminated, truncated, info

    def _seen(self, observation: dict[str, Any]) -> dict[str, Any]:
        if self._view == "picture":
            return observation
        core: Any = self.env.unwrapped
        caption = f"{IMAGE_PLACEHOLDER}\n{core.true_state.describe('natural_language')}"
        told = {**observation, "text": observation["text"].replace(IMAGE_PLACEHOLDER, caption)}
        if self._view == "caption":
            told["image"] = np.full_like(observation["image"], 128)
        return told


def _maker(grid: str) -> Callable[..., View]:
    def make(shown: str = "both", **options: Any) -> View:
        """The environment, as `gymnasium.make` does it by its id."""
        return View(gym.make(f"vagen/{grid}-v0", **options), shown)

    return make


for _grid in GRIDS:
    if (_id := f"laboratory/{_grid}View-v0") not in gym.registry:
        gym.register(_id, _maker(_grid), disable_env_checker=True, order_enforce=False)
