"""TRL: an `environment_factory` for `GRPOTrainer`, and levels as its dataset.

>>> from functools import partial
>>> from trl import GRPOTrainer
>>> from vagen_adapters.trl_env import TRLEnvironment, levels
>>> trainer = GRPOTrainer(
...     "Qwen/Qwen3-VL-2B-Instruct",
...     train_dataset=levels("vagen/FrozenLake-v0", num_levels=100),
...     environment_factory=partial(TRLEnvironment, "vagen/FrozenLake-v0"),
... )
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters import rows
from vagen_adapters.context import observation_parts
from vagen_adapters.env_thread import start
from vagen_adapters.errors import not_importable
from vagen_envs.core import Observation, Turn
from vagen_envs.errors import ConfigError, EpisodeOverError, ReplyTypeError
from vagen_envs.seeding import Split
from vagen_rewards import ReasoningReward, with_reasoning

try:
    from datasets import Dataset
except ImportError as error:
    raise not_importable("vagen_adapters.trl_env", "ppo", "datasets", error) from error

Content = str | list[dict[str, Any]]
"""A message's content: text, or parts with pictures."""

REPLY_AS_TOOL_CALL: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "close_pattern": r"<\|im_end\|>\s*",
            "content": "text",
            "transform": [
                {
                    "type": "function",
                    "function": {"name": "play", "arguments": {"reply": "{content}"}},
                }
            ],
        },
    },
}
"""A tokenizer's `response_template` for Qwen's chat templates that turns every reply into a call of
`play`.

TRL asks for one more reply after each turn. Set `max_tool_calling_iterations` to the number of
turns, so that only the reply after the last turn isn't played."""


class TRLEnvironment:
    """An environment for TRL: `reset` starts a level, `play` is the model's tool, `get_reward` is
    the return.

    Args:
        env: an id such as `"vagen/Sokoban-v0"`, or an environment, with or without wrappers.
        reasoning: options of `vagen_rewards.ReasoningReward`, which adds the reasoning reward to
            the environment's reward. None adds nothing.
        context: can only be `"all"`: TRL appends observations to the conversation.
        options: for `gym.make`, if `env` is an id.

    Attributes:
        turns: turns of the current or last episode, for your own reward functions.
    """

    def __init__(
        self,
        env: str | gym.Env[dict[str, Any], str],
        reasoning: Mapping[str, Any] | ReasoningReward | None = None,
        context: str = "all",
        **options: Any,
    ) -> None:
        rows.require_whole_context(context, "TRL")
        self._env = with_reasoning(
            gym.make(env, **options) if isinstance(env, str) else env, reasoning
        )
        self.turns: list[Turn] = []
        self._rewards: list[float] = []
        self._broken: Exception | None = None

    def reset(self, seed: int | None = None, split: Split | None = None, **_: Any) -> Content:
        """Start the level of a row of `levels`. Returns the first observation, which TRL appends to
        the prompt.

        Raises:
            ConfigError: the row has no seed. All replies of a group must play the same level.
        """
        if seed is None:
            raise ConfigError(
                "the row has no seed, so the replies of a group would play different levels; "
                "pass train_dataset=levels(…), or a dataset with a column 'seed'"
            )
        self.turns, self._rewards, self._broken = [], [], None
        return content(start(self._env, seed, split))

    def play(self, reply: str) -> Content:
        """Play one turn and receive the next observation.

        Args:
            reply: Your complete reply for this turn, in exactly the format that the instructions
                ask for.

        Returns:
            The next observation.
        """
        if self.turns and (self.turns[-1].terminated or self.turns[-1].truncated):
            raise EpisodeOverError("the episode is over; do not call play again")
        try:
            *_, reward, _, _, info = self._env.step(reply)
        except (
            ReplyTypeError,
            EpisodeOverError,
        ):  # the model's mistakes: TRL returns them to the model
            raise
        except (
            Exception
        ) as error:  # TRL would return these to the model as well, and score the episode
            self._broken = error
            raise
        self.turns.append(info["turn"])
        self._rewards.append(float(reward))
        return content(info["turn"].result)

    def get_reward(self) -> float:
        """Return the sum of the episode's rewards, 0 before the first turn.

        Raises:
            Exception: the error that broke the simulator; the episode has no score.
        """
        if self._broken is not None:
            raise self._broken
        return math.fsum(self._rewards)


def content(observation: Observation) -> Content:
    """Convert an observation to a message's content: parts if it has a picture, as chat templates
    expect, else text.
    """
    parts = observation_parts(observation, "pil")
    return parts if observation.picture is not None else "".join(part["text"] for part in parts)


def levels(env_id: str, **settings: Any) -> Dataset:
    """Return levels as a dataset for TRL; `env_id` is also a row's `environment`, for a dictionary
    of factories.

    Takes the arguments of `vagen_adapters.rows.levels` without `reasoning`, which is an argument of
    `TRLEnvironment`. Pass the same options of `gym.make` to `TRLEnvironment`, since they change the
    system prompt.
    """
    user = {"role": "user", "content": ""}
    return Dataset.from_list(
        [
            {
                "prompt": [*prompt, user],
                "environment": env_id,
                "split": row["split"],
                "seed": row["seed"],
            }
            for prompt, row in rows.levels(env_id, **settings)
        ]
    )
