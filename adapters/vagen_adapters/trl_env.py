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

import json
import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakSet

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters import rows
from vagen_adapters.env_thread import start
from vagen_adapters.errors import not_importable
from vagen_adapters.message_parts import observation_parts
from vagen_adapters.prompt_check import require_options_of, require_prompt_of
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


class Batch:
    """Counts the episodes of TRL's current batch: TRL resets all, plays them, and asks all for
    their rewards.
    """

    def __init__(self) -> None:
        self._waiting: WeakSet[TRLEnvironment] = WeakSet()  # for the question about their reward
        self._ended = self._played = 0

    def begin(self, episode: TRLEnvironment) -> None:
        """Count a reset; the first one after rewards begins a batch."""
        if self._ended:
            self._waiting.clear()
            self._ended = self._played = 0
        self._waiting.add(episode)

    def end(self, episode: TRLEnvironment, was_played: bool) -> None:
        """Count an episode that is asked for its reward, and warn if it is the last of a batch
        without turns.
        """
        self._waiting.discard(episode)
        self._ended += 1
        self._played += was_played
        if not self._waiting and not self._played:
            warnings.warn(
                f"none of the batch's {self._ended} episodes played a turn: no reply called the "
                "tool `play`. Set the tokenizer's response_template to "
                "vagen_adapters.trl_env.REPLY_AS_TOOL_CALL, which takes every reply for a call, "
                "or train a model that calls tools; check that max_completion_length has room "
                "for a whole reply",
                stacklevel=2,
            )


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
        terminated: whether it ended by the rules: solved, or lost for good.
        truncated: whether a limit of the environment or of a wrapper ended it.
    """

    _batch: ClassVar[Batch] = Batch()

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
        self.terminated = self.truncated = False
        self._rewards: list[float] = []
        self._broken: Exception | None = None

    def reset(
        self,
        seed: int | None = None,
        split: Split | None = None,
        env_id: str | None = None,
        options: str | None = None,
        prompt_hash: str | None = None,
        **_: Any,
    ) -> Content:
        """Start the level of a row of `levels`. Returns the first observation, which TRL appends to
        the prompt.

        Raises:
            ConfigError: the row has no seed, though all replies of a group must play the same
                level, or its prompt or options are those of another environment.
        """
        if seed is None:
            raise ConfigError(
                "the row has no seed, so the replies of a group would play different levels; "
                "pass train_dataset=levels(…), or a dataset with a column 'seed'"
            )
        require_prompt_of(self._env, env_id, prompt_hash, options)
        if options is not None:
            require_options_of(self._env, options)
        self._batch.begin(self)
        self.turns = []
        self._rewards = []
        self._broken = None
        self.terminated = self.truncated = False
        return content(start(self._env, seed, split))

    def play(self, reply: str) -> Content:
        """Play one turn and receive the next observation.

        Args:
            reply: Your complete reply for this turn, in exactly the format that the instructions
                ask for.

        Returns:
            The next observation.
        """
        if self.terminated or self.truncated:
            raise EpisodeOverError("the episode is over; do not call play again")
        try:
            *_, reward, terminated, truncated, info = self._env.step(reply)
        except (
            ReplyTypeError,
            EpisodeOverError,
        ):
            # The model's mistakes: TRL returns them to the model.
            raise
        except Exception as error:
            # TRL would return these to the model as well, and score the episode.
            self._broken = error
            raise
        self.terminated = bool(terminated)
        self.truncated = bool(truncated)
        self.turns.append(info["turn"])
        self._rewards.append(float(reward))
        return content(info["turn"].result)

    def get_reward(self) -> float:
        """Return the sum of the episode's rewards, 0 before the first turn.

        Raises:
            Exception: the error that broke the simulator; the episode has no score.
        """
        self._batch.end(self, bool(self.turns) or self._broken is not None)
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
    `TRLEnvironment`. Pass the same options of `gym.make` to `TRLEnvironment`: its `reset` refuses a
    row of others.
    """
    user = {"role": "user", "content": ""}
    return Dataset.from_list(
        [
            {
                "prompt": [*prompt, user],
                "environment": env_id,
                # TRL keeps `environment` to itself where there are several factories
                "env_id": env_id,
                "split": row["split"],
                "seed": row["seed"],
                "options": json.dumps(row["options"], default=str),
                "prompt_hash": row["prompt_hash"],
            }
            for prompt, row in rows.levels(env_id, **settings)
        ]
    )
