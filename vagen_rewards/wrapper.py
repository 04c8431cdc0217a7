"""The visual reasoning reward as a Gymnasium wrapper (VAGEN, sections 5.1 and 5.3)."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from vagen_envs.core import Turn
from vagen_envs.errors import ConfigError
from vagen_rewards.reward import ReasoningReward
from vagen_rewards.scores import Judge, Tally


class VisualReasoningReward(
    gym.Wrapper[dict[str, Any], str, dict[str, Any], str], RecordConstructorArgs
):
    """Adds the terms `grounding` and `world_modeling` to the reward and to `info["turn"]`.

    r = β_g · score(observation, state before) + β_w · score(prediction, state after). The scores
    with their reasons stand in `info["scores"]` and, as values, in the turn's metrics. Unscored
    statements add nothing and is counted in `tally`.

    Args:
        env: an environment of this package.
        judge: of `ReasoningReward`, or a whole `ReasoningReward`.
        beta_grounding: weight of the observation's score.
        beta_world_modeling: weight of the prediction's score.
        max_unscored: share of statements that a judge failed at above which a step raises
            TooManyUnscoredError, once 20 statements have been seen. What a judge merely didn't
            understand doesn't count.
        options: further options of `ReasoningReward`: `gate`, `weighting`, `penalty`, `per_turn`.
    """

    def __init__(
        self,
        env: gym.Env[dict[str, Any], str],
        judge: ReasoningReward | Judge | str | None = None,
        beta_grounding: float = 0.5,
        beta_world_modeling: float = 0.5,
        max_unscored: float = 0.5,
        **options: Any,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            judge=judge,
            beta_grounding=beta_grounding,
            beta_world_modeling=beta_world_modeling,
            max_unscored=max_unscored,
            **options,
        )
        gym.Wrapper.__init__(self, env)
        if not 0.0 <= max_unscored <= 1.0:
            raise ConfigError(f"max_unscored {max_unscored} is a share; give a number from 0 to 1")
        if isinstance(judge, ReasoningReward):
            if options:
                raise ConfigError(
                    f"options {sorted(options)} belong to the ReasoningReward that is given already"
                )
            reward = judge
        else:
            reward = ReasoningReward(judge, beta_grounding, beta_world_modeling, **options)
        self.reward = reward.of(env)
        self.tally = Tally(max_unscored, at_least=20)
        self._earlier: list[Turn] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode."""
        self._earlier = []
        return self.env.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Play a turn and score what the reply says."""
        observation, _, terminated, truncated, info = self.env.step(action)
        played: Turn = info["turn"]
        # Restored to another moment, an environment's own turns say how many are its episode's.
        turn, scores = self.reward.paid(played, self._earlier[: played.index])
        self._earlier = [*self._earlier[: played.index], turn]
        self.tally.add(*[score for _, score in scores.by_part()])
        self.tally.check()
        info = {**info, "turn": turn, "scores": scores}
        return observation, turn.reward, terminated, truncated, info


def with_reasoning(
    env: gym.Env[Any, Any], reasoning: Mapping[str, Any] | ReasoningReward | None
) -> gym.Env[Any, Any]:
    """The environment, wrapped if a reward for reasoning is asked for; what adapters' option
    `reasoning` means.

    Args:
        env: an environment of this package.
        reasoning: options as `ReasoningReward.from_options` takes them (`{}` for its defaults), one
            that is made already, or `None` for no such reward.
    """
    if reasoning is None:
        return env
    if isinstance(reasoning, ReasoningReward):
        return VisualReasoningReward(env, reasoning)
    return VisualReasoningReward(env, _shared(json.dumps(dict(reasoning), sort_keys=True)))


@functools.lru_cache(maxsize=16)
def _shared(options: str) -> ReasoningReward:
    """One judge and one memory of wordings in a process, where each episode has an environment of
    its own.
    """
    return ReasoningReward.from_options(json.loads(options))
