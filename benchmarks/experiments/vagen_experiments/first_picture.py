"""A world in which memory decides: FrozenLake whose picture is shown in the first turn only.

Importing this module registers `laboratory/FrozenLakeFirstPicture-v0`, with FrozenLake's options.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

import vagen_envs  # noqa: F401  (registers FrozenLake)

ENV_ID = "laboratory/FrozenLakeFirstPicture-v0"


class FirstPictureOnly(gym.Wrapper[Any, Any, Any, Any]):
    """Shows a grey picture in every turn but the first; texts stay as they are.

    An agent that is shown its earlier turns finds the board in the first one and can count its
    moves. To one that isn't, only the feedback to its last actions is left.
    """

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and hide its picture."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        hidden = np.full_like(observation["image"], 128)
        return {**observation, "image": hidden}, reward, terminated, truncated, info


def make(**options: Any) -> FirstPictureOnly:
    """The environment, as `gymnasium.make` does it by its id."""
    return FirstPictureOnly(gym.make("vagen/FrozenLake-v0", **options))


if ENV_ID not in gym.registry:
    gym.register(ENV_ID, make, disable_env_checker=True, order_enforce=False)
