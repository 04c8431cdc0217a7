"""Environments of this package for TRL: `environment_factory` of its `GRPOTrainer`, and levels as its dataset.

>>> from functools import partial
>>> from trl import GRPOTrainer
>>> from vagen_adapters.trl_env import Episode, levels
>>> trainer = GRPOTrainer(
...     "Qwen/Qwen3-VL-2B-Instruct",
...     train_dataset=levels("vagen/FrozenLake-v0", num_levels=100),
...     environment_factory=partial(Episode, "vagen/FrozenLake-v0"),
... )
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.errors import not_importable
from vagen_envs.chat import observation_parts, system_prompt_of
from vagen_envs.core import Observation, Turn, VagenEnv
from vagen_envs.errors import ConfigError, EpisodeOverError, ReplyTypeError
from vagen_envs.seeding import Split
from vagen_rewards import ReasoningReward, with_reasoning

try:
    from datasets import Dataset
except ImportError as error:
    raise not_importable("vagen_adapters.trl_env", "ppo", "datasets", error) from error

Content = str | list[dict[str, Any]]
"""What a message says: text, or parts with a picture between them."""

EACH_REPLY_PLAYS: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "close_pattern": r"<\|im_end\|>\s*",
            "content": "text",
            "transform": [{"type": "function", "function": {"name": "play", "arguments": {"reply": "{content}"}}}],
        },
    },
}
"""A tokenizer's `response_template`, for chat templates of Qwen: whatever the model writes is a turn, not only what
it writes as a call of the tool. TRL asks for a reply after each turn, so an episode ends with one that is not played
only if `max_tool_calling_iterations` is the number of turns."""


class Episode:
    """An environment as TRL plays it: `play` is the model's tool, `reset` the level, `get_reward` the return.

    Args:
        env: an id such as `"vagen/Sokoban-v0"`, or an environment, wrapped as you like.
        reasoning: options of `vagen_rewards.ReasoningReward` (`judge`, `gate`, `weighting`, `penalty`, `grounding`,
            `world_modeling`), which then pays what replies say beside the environment's reward. None by default.
        options: for `gym.make`, with an id.

    Attributes:
        turns: those of the episode that runs or ran last, for reward functions of your own.
    """

    def __init__(
        self,
        env: str | gym.Env[dict[str, Any], str],
        reasoning: Mapping[str, Any] | ReasoningReward | None = None,
        **options: Any,
    ) -> None:
        self._env = with_reasoning(gym.make(env, **options) if isinstance(env, str) else env, reasoning)
        self.turns: list[Turn] = []
        self._rewards: list[float] = []
        self._broken: Exception | None = None

    def reset(self, seed: int | None = None, split: Split | None = None, **_: Any) -> Content:
        """Begin at the level of a row of `levels`; what it returns is appended to the prompt.

        Raises:
            ConfigError: the row has no seed. A group of replies must be played on one level to be compared.
        """
        if seed is None:
            raise ConfigError(
                "a row has no seed, so the replies of a group would be compared on different levels; "
                "pass train_dataset=levels(…), or a dataset with a column 'seed'"
            )
        self.turns, self._rewards, self._broken = [], [], None
        self._env.reset(seed=seed, options={"split": split} if split else None)
        return content(cast(VagenEnv, self._env.unwrapped).observed)

    def play(self, reply: str) -> Content:
        """Play one turn and see what comes of it.

        Args:
            reply: Your whole reply for this turn, in exactly the format that the instructions ask for.

        Returns:
            What you see next.
        """
        if self.turns and (self.turns[-1].terminated or self.turns[-1].truncated):
            raise EpisodeOverError("the episode is over; don't play again")
        try:
            *_, reward, terminated, truncated, info = self._env.step(reply)
        except (ReplyTypeError, EpisodeOverError):  # the caller's mistakes, which TRL shows the model
            raise
        except Exception as error:  # TRL would show these, too, and score the episode
            self._broken = error
            raise
        self.turns.append(info["turn"])
        self._rewards.append(float(reward))
        seen = content(info["turn"].result)
        if not (terminated or truncated):
            return seen
        over = "The episode is over."
        return f"{seen}\n{over}" if isinstance(seen, str) else [*seen, {"type": "text", "text": f"\n{over}"}]

    def get_reward(self) -> float:
        """The sum of the episode's rewards, 0 if nothing was played.

        Raises:
            Exception: what broke the simulator in this episode, for it has no score.
        """
        if self._broken is not None:
            raise self._broken
        return math.fsum(self._rewards)


def content(observation: Observation) -> Content:
    """An observation as a message's content: parts if it has a picture, as transformers' chat templates take them."""
    parts = observation_parts(observation, "pil")
    return parts if observation.picture is not None else "".join(part["text"] for part in parts)


def levels(
    env_id: str, *, split: Split = "train", first_seed: int = 0, num_levels: int = 100, **options: Any
) -> Dataset:
    """Levels as a dataset for TRL: row `i` is the level of seed `first_seed + i`.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`; also the row's `environment`, for a dictionary of factories.
        split: splits share no level, whatever the seeds.
        first_seed: at least 0.
        num_levels: how many rows.
        options: for `gym.make`, the same as the factory's: they shape the system prompt.
    """
    prompt = [{"role": "system", "content": system_prompt_of(env_id, **options)}, {"role": "user", "content": ""}]
    seeds = range(first_seed, first_seed + num_levels)
    return Dataset.from_list(
        [{"prompt": prompt, "environment": env_id, "split": split, "seed": seed} for seed in seeds]
    )
