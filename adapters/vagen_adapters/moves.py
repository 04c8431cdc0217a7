"""Numbers for actions and pictures for observations: an environment for classic RL.

>>> import gymnasium as gym, vagen_envs
>>> from vagen_adapters.moves import Moves
>>> env = Moves(gym.make("vagen/FrozenLake-v0", difficulty=0, num_levels=4, max_turns=20))
>>> env.action_space, env.observation_space.shape
(Discrete(4), (96, 96, 3))
"""

from __future__ import annotations

from typing import Any, SupportsFloat, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import ConfigError, shown
from vagen_envs.replies import Names

THOUGHTS = dict.fromkeys(("observation", "reasoning", "prediction", "think"), ".")
"""What stands in the fields of a reply that must not be empty."""
FORMAT_TERMS = ("format", "remaining_format")
"""Reward terms of the format; a solved episode also earns that of the turns that are left."""


class Moves(gym.Wrapper[np.ndarray[Any, Any], Any, dict[str, Any], str], RecordConstructorArgs):
    """Actions are numbers of the environment's named actions, observations are its pictures.

    The action space is `Discrete(n)` over the n names, or `MultiDiscrete([n] * moves_per_turn)`;
    the observation space is the picture's `Box`, uint8 of shape (height, width, 3). The reply's
    format is written here, so its reward is left out. `info` has `is_success` after a step, as
    Stable-Baselines3 reads it, and nothing else: vector environments copy or pickle it in each
    step. The whole turn is `env.turn`.

    Args:
        env: an environment of this package whose actions are names, with pictures.
        moves_per_turn: actions in each turn, at most the environment's `max_actions_per_turn`.

    Raises:
        ConfigError: the actions aren't names, observations have no picture, or a turn has no room
            for so many actions.
    """

    def __init__(self, env: gym.Env[dict[str, Any], str], moves_per_turn: int = 1) -> None:
        RecordConstructorArgs.__init__(self, moves_per_turn=moves_per_turn)
        super().__init__(cast("gym.Env[Any, str]", env))
        core = cast(VagenEnv, env.unwrapped)
        actions = core.grammar.actions
        most = core.config.max_actions_per_turn
        if not isinstance(actions, Names):
            raise ConfigError(
                f"{core.id}: actions are not names but {actions.summary()[:80]!r}, which no number "
                "stands for; use an environment with named actions, such as vagen/FrozenLake-v0"
            )
        if core.config.observation == "text":
            raise ConfigError(
                f'{core.id}: observation="text" has no picture; use observation="image"'
            )
        if not 1 <= moves_per_turn <= most:
            raise ConfigError(
                f"{core.id}: moves_per_turn={shown(moves_per_turn)} is not valid: it must be "
                f"from 1 to max_actions_per_turn={most}"
            )
        self.names: tuple[str, ...] = tuple(actions.names)
        """The action of each number."""
        self.turn: Turn | None = None
        """The latest turn; None after a reset."""
        self.moves_per_turn = moves_per_turn
        if moves_per_turn == 1:
            self.action_space = spaces.Discrete(len(self.names))
        else:
            self.action_space = spaces.MultiDiscrete([len(self.names)] * moves_per_turn)
        self.observation_space = cast("spaces.Dict", env.observation_space)["image"]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Begin an episode and return its first picture."""
        observation, _ = self.env.reset(seed=seed, options=options)
        self.turn = None
        return observation["image"], {}

    def step(
        self, action: Any
    ) -> tuple[np.ndarray[Any, Any], SupportsFloat, bool, bool, dict[str, Any]]:
        """Play a turn with the action of this number, or with those of these numbers."""
        chosen = [self.names[number] for number in np.atleast_1d(action).tolist()]
        reply = cast(VagenEnv, self.unwrapped).grammar.render(chosen, **THOUGHTS)
        observation, reward, terminated, truncated, info = self.env.step(reply)
        turn: Turn = info["turn"]
        self.turn = turn
        of_format = sum(term.value for term in turn.rewards if term.name in FORMAT_TERMS)
        info = {"is_success": turn.success}
        return observation["image"], float(reward) - of_format, terminated, truncated, info
