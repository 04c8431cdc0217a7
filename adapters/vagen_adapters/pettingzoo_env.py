"""Environments of this package for PettingZoo: several seats, each a `VagenEnv`, played in rounds.

>>> from vagen_adapters.pettingzoo_env import parallel_env
>>> env = parallel_env("vagen/Sokoban-v0", agents=4)  # four agents at the same level, each on its own board
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.errors import not_importable
from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError, EpisodeOverError

try:
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils import parallel_to_aec, wrappers
except ImportError as error:
    raise not_importable("vagen_adapters.pettingzoo_env", "pettingzoo", "pettingzoo", error) from error

Agent = str
Rewards = dict[Agent, float]
Flags = dict[Agent, bool]
Observations = dict[Agent, dict[str, Any]]
Infos = dict[Agent, dict[str, Any]]


class SeatsEnv(ParallelEnv[Agent, dict[str, Any], str]):
    """One seat an agent. All agents get the level of the same seed; an agent leaves when its seat's episode ends.

    Actions are replies (any string), observations the seats' (`image`, `text`). An agent's info holds
    `state` and `level` after a reset, and after a step also `turn`, the whole `Turn` of its own.
    `reset(options={"split": …})` chooses the split; other options are ignored, as PettingZoo's tests ask.

    Args:
        name: what `str(env)` says.
        seats: by the agents' names.
        render_mode: that of the first seat, whose view `render` shows.
    """

    def __init__(self, name: str, seats: Mapping[Agent, VagenEnv], render_mode: str | None = None) -> None:
        self.seats = dict(seats)
        self.possible_agents = list(seats)
        self.agents: list[Agent] = []
        self.render_mode = render_mode
        self.metadata = {**VagenEnv.metadata, "name": name, "is_parallelizable": True}

    def observation_space(self, agent: Agent) -> gym.Space[Any]:
        return self.seats[agent].observation_space

    def action_space(self, agent: Agent) -> gym.Space[Any]:
        return self.seats[agent].action_space

    def system_prompt(self, agent: Agent) -> str:
        """What the agent's model is told before its first observation."""
        return self.seats[agent].system_prompt

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Begin an episode for all agents, at the level of this seed or of the next one of the first seat's stream."""
        known = {"split": options["split"]} if options and "split" in options else None
        self.agents = self.possible_agents[:]
        observations: Observations = {}
        infos: Infos = {}
        for agent, seat in self.seats.items():
            observations[agent], infos[agent] = seat.reset(seed=seed, options=known)
            seed = infos[agent]["level"]["seed"]
        return observations, infos

    def step(self, actions: dict[Agent, str]) -> tuple[Observations, Rewards, Flags, Flags, Infos]:
        """Play a round: one reply of each agent that is still there.

        Raises:
            EpisodeOverError: all agents have left; reset first.
            ConfigError: a reply is missing.
        """
        if not self.agents:
            raise EpisodeOverError(f"{self} has no running episode; call reset() first")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ConfigError(f"{self}: no reply of {', '.join(missing)}; step takes one of each of {self.agents}")
        self._begin_round({agent: actions[agent] for agent in self.agents})
        observations: Observations = {}
        rewards: Rewards = {}
        terminations: Flags = {}
        truncations: Flags = {}
        infos: Infos = {}
        for agent in self.agents:
            observations[agent], rewards[agent], terminations[agent], truncations[agent], infos[agent] = self.seats[
                agent
            ].step(actions[agent])
        self.agents = [agent for agent in self.agents if not (terminations[agent] or truncations[agent])]
        return observations, rewards, terminations, truncations, infos

    def _begin_round(self, replies: Mapping[Agent, str]) -> None:
        """A hook for seats that share a world. Called with all replies before any seat steps."""

    def render(self) -> Any:
        """The first agent's view, in the render mode."""
        return next(iter(self.seats.values())).render()

    def close(self) -> None:
        """Close all seats. May be called twice."""
        for seat in self.seats.values():
            seat.close()


def parallel_env(env_id: str, *, agents: int = 2, render_mode: str | None = None, **options: Any) -> SeatsEnv:
    """Any id for several agents: each plays the same level on its own, and leaves when its episode ends.

    Args:
        env_id: such as `"vagen/FrozenLake-v0"`.
        agents: how many; they are called `player_0`, `player_1`, …
        render_mode: of the first one.
        options: for `gym.make`.

    Raises:
        ConfigError: there are no agents.
    """
    if agents < 1:
        raise ConfigError(f"agents={agents} is not valid: it must be at least 1")
    seats = {
        f"player_{i}": cast(VagenEnv, gym.make(env_id, render_mode=None if i else render_mode, **options).unwrapped)
        for i in range(agents)
    }
    return SeatsEnv(env_id, seats, render_mode)


def env(env_id: str, **options: Any) -> AECEnv[Agent, dict[str, Any], str]:
    """`parallel_env` with agents that reply one after another. All replies of a round answer the same view."""
    return as_aec(parallel_env(env_id, **options))


def as_aec(parallel: SeatsEnv) -> AECEnv[Agent, dict[str, Any], str]:
    """PettingZoo's own conversion, with its check that calls come in order."""
    return wrappers.OrderEnforcingWrapper(parallel_to_aec(parallel))
