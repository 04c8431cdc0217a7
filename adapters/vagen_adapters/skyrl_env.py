"""SkyRL-Gym: an environment class for all ids, and levels as dataset rows.

>>> import skyrl_gym
>>> from vagen_adapters.skyrl_env import levels
>>> (row,) = levels("vagen/Sokoban-v0", num_levels=1)
>>> env = skyrl_gym.make("vagen", extras=row)
>>> messages, info = env.init(row["prompt"])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters import rows
from vagen_adapters.context import Message
from vagen_adapters.ends import ends_of
from vagen_adapters.env_thread import start
from vagen_adapters.episode_metrics import episode_metrics
from vagen_adapters.errors import not_importable
from vagen_adapters.message_parts import observation_parts
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import ConfigError

try:
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
except ImportError as error:
    raise not_importable("vagen_adapters.skyrl_env", "skyrl", "skyrl_gym", error) from error

NAME = "vagen"
"""The `env_class` of all ids in SkyRL-Gym; each row names its id."""


class VagenText(BaseTextEnv):
    """An episode for SkyRL-Gym. Observations are user messages with PNGs in `data:` URLs.

    Args:
        env_config: SkyRL's configuration of the environment class; unused.
        extras: a row of `levels`: `env_id`, `split`, `seed`, `options`, `reasoning` and
            `prompt_hash`.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.extras = dict(extras or {})
        if missing := [name for name in ("env_id", "seed") if name not in self.extras]:
            raise ConfigError(
                f"extras {sorted(self.extras)} lack {missing}; pass a row of levels(…)"
            )
        asked = (self.extras.get(name) for name in ("options", "reasoning", "prompt_hash"))
        self._env = rows.make_from_row(self.extras["env_id"], *asked)
        self.max_turns = self._core.config.max_turns
        self.turns_played: list[Turn] = []

    @property
    def _core(self) -> VagenEnv:
        return cast(VagenEnv, self._env.unwrapped)

    def init(self, prompt: list[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Start the row's level and return the prompt followed by the first observation."""
        now = start(self._env, self.extras["seed"], self.extras.get("split"))
        self.turns_played = []
        self.turns = 0
        first: Message = {"role": "user", "content": observation_parts(now)}
        return [*prompt, first], {"level": dict(self._core.level)}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play one turn. `metadata` contains `terminated`, `truncated` and the turn as JSON."""
        *_, reward, terminated, truncated, info = self._env.step(action)
        turn: Turn = info["turn"]
        self.turns_played.append(turn)
        self.turns += 1
        return BaseTextEnvStepOutput(
            observations=[{"role": "user", "content": observation_parts(turn.result)}],
            reward=float(reward),
            done=terminated or truncated,
            metadata={"terminated": terminated, "truncated": truncated, "turn": turn.to_json()},
        )

    def get_metrics(self) -> dict[str, float]:
        """Return `success`, `terminated`, `truncated`, `turns` and the mean of each turn metric."""
        ends = {name: float(value) for name, value in ends_of(self.turns_played).items()}
        return {**episode_metrics(self.turns_played), **ends}

    def close(self) -> None:
        self._env.close()


def levels(env_id: str, *, context: str = "all", **settings: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a SkyRL dataset. Takes the arguments of `vagen_adapters.rows.levels`.

    `context` can only be `"all"`: SkyRL's generator appends observations to the conversation.
    """
    rows.require_whole_context(context, "SkyRL")
    for prompt, level in rows.levels(env_id, **settings):
        yield {"prompt": prompt, "env_class": NAME, **level}


skyrl_gym.register(id=NAME, entry_point="vagen_adapters.skyrl_env:VagenText")
