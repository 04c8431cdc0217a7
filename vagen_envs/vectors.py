"""What vector environments of this package have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError, ReplyTypeError

Stepped = tuple[dict[str, Any], float, bool, bool, dict[str, Any]]
"""What `step` of one environment gives."""


class TurnVectorEnv(VectorEnv[dict[str, Any], Any, Any]):
    """Environments whose ended episodes begin anew at the next step. Subclasses play; this lays results together."""

    metadata: dict[str, Any] = {**VagenEnv.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    envs: Sequence[Any]

    def _take_over(self, envs: Sequence[Any]) -> None:
        """Set the environments, and the spaces that follow from them."""
        self.envs = envs
        self.num_envs = len(envs)
        self.single_action_space = envs[0].action_space
        self.single_observation_space = envs[0].observation_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._ended = np.ones(self.num_envs, bool)

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        """A seed for each environment; a single one is counted up from one to the next. Raises ConfigError."""
        if seed is None or isinstance(seed, int | np.integer):
            return [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        if not self._one_each(seed):
            raise ConfigError(f"seed={seed!r:.80} is not valid: it must be an integer, or a list of {self.num_envs}")
        return seed

    def _replies(self, actions: Sequence[str]) -> Sequence[str]:
        """The replies, checked: one for each environment, those to ended episodes aside, which nobody reads.

        Raises:
            ReplyTypeError: there are more or fewer, or one isn't text.
        """
        if not self._one_each(actions) or not all(
            over or isinstance(action, str) for over, action in zip(self._ended, actions, strict=True)
        ):
            raise ReplyTypeError(
                f"actions={actions!r:.80} can't be played; give a list of text, one reply for each of "
                f"the {self.num_envs} environments"
            )
        return actions

    def _one_each(self, values: Any) -> bool:
        return hasattr(values, "__len__") and not isinstance(values, str) and len(values) == self.num_envs

    def _together_stepped(self, results: Sequence[Stepped]) -> tuple[dict[str, Any], Any, Any, Any, dict[str, Any]]:
        """What `step` of all gives; remembers which episodes have ended."""
        rewards = np.array([result[1] for result in results], np.float64)
        terminated = np.array([result[2] for result in results], bool)
        truncated = np.array([result[3] for result in results], bool)
        self._ended = terminated | truncated
        infos = self._infos([result[4] for result in results])
        return self._batch([result[0] for result in results]), rewards, terminated, truncated, infos

    def _batch(self, observations: Sequence[dict[str, Any]]) -> dict[str, Any]:
        empty: Any = create_empty_array(self.single_observation_space, self.num_envs)
        batch: Any = concatenate(self.single_observation_space, observations, empty)
        return dict(batch)

    def _infos(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        batched: dict[str, Any] = {}
        for i, info in enumerate(infos):
            batched = self._add_info(batched, info, i)
        return batched
