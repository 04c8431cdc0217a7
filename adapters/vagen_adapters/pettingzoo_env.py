"""PettingZoo: several agents, each with its own `VagenEnv`, that play in rounds.

>>> import pettingzoo, vagen_adapters.pettingzoo_env  # registers the ids
>>> env = pettingzoo.make("parallel", "vagen/Sokoban-v0", agents=4)  # one level, a board each
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import gymnasium as gym
from gymnasium.wrappers import HumanRendering

import vagen_envs
from vagen_adapters.ends import without_checks
from vagen_adapters.errors import not_importable
from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError, EpisodeOverError

try:
    from pettingzoo import AECEnv, ParallelEnv, register
    from pettingzoo.utils import parallel_to_aec, wrappers
except ImportError as error:
    raise not_importable(
        "vagen_adapters.pettingzoo_env", "pettingzoo", "pettingzoo", error
    ) from error

Agent = str
Rewards = dict[Agent, float]
Flags = dict[Agent, bool]
Observations = dict[Agent, dict[str, Any]]
Infos = dict[Agent, dict[str, Any]]


class SeatsEnv(ParallelEnv[Agent, dict[str, Any], str]):
    """One environment (seat) per agent. All agents start at the same seed; an agent leaves when its
    episode ends.

    Actions are replies (any string); observations have `image` and `text`. An agent's info contains
    `state` and `level` after a reset, and also its `turn` after a step. `reset(options={"split":
    …})` selects the split of this and later resets, `{"level": …}` a level; other options are
    ignored, as PettingZoo's tests require.

    Args:
        name: returned by `str(env)`.
        seats: environments by agent name.
        render_mode: of the first seat, which `render` shows. For `"human"`, a window, the seat
            renders `"rgb_array"`.
    """

    def __init__(
        self, name: str, seats: Mapping[Agent, VagenEnv], render_mode: str | None = None
    ) -> None:
        self.seats: dict[Agent, Any] = dict(seats)
        self.possible_agents = list(seats)
        if render_mode == "human":
            first = self.possible_agents[0]
            self.seats[first] = HumanRendering(self.seats[first])
        self.agents: list[Agent] = []
        self.render_mode = render_mode
        modes = [*VagenEnv.metadata["render_modes"], "human"]
        self.metadata = {
            **VagenEnv.metadata,
            "render_modes": modes,
            "name": name,
            "is_parallelizable": True,
        }

    def observation_space(self, agent: Agent) -> gym.Space[Any]:
        return cast("gym.Space[Any]", self.seats[agent].observation_space)

    def action_space(self, agent: Agent) -> gym.Space[Any]:
        return cast("gym.Space[Any]", self.seats[agent].action_space)

    def system_prompt(self, agent: Agent) -> str:
        """Return the system prompt of the agent's model."""
        return cast(str, self.seats[agent].unwrapped.system_prompt)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        """Start an episode for all agents. Without a seed, the first seat's generator draws one."""
        known = {name: (options or {}).get(name) for name in ("split", "level")}
        self.agents = self.possible_agents[:]
        observations: Observations = {}
        infos: Infos = {}
        for agent, seat in self.seats.items():
            observations[agent], infos[agent] = seat.reset(seed=seed, options=known)
            seed = infos[agent]["level"]["seed"]
        return observations, infos

    def step(self, actions: dict[Agent, str]) -> tuple[Observations, Rewards, Flags, Flags, Infos]:
        """Play a round with one reply of each remaining agent.

        Raises:
            EpisodeOverError: all agents have left; reset first.
            ConfigError: a reply is missing.
        """
        if not self.agents:
            raise EpisodeOverError(f"{self} has no running episode; call reset() first")
        if missing := [agent for agent in self.agents if agent not in actions]:
            raise ConfigError(
                f"{self}: no reply of {', '.join(missing)}; step takes one of each of {self.agents}"
            )
        self._begin_round({agent: actions[agent] for agent in self.agents})
        stepped = [self.seats[agent].step(actions[agent]) for agent in self.agents]
        observations, rewards, terminations, truncations, infos = (
            dict(zip(self.agents, values, strict=True)) for values in zip(*stepped, strict=True)
        )
        self.agents = [
            agent for agent in self.agents if not (terminations[agent] or truncations[agent])
        ]
        return observations, rewards, terminations, truncations, infos

    def _begin_round(self, replies: Mapping[Agent, str]) -> None:
        """Hook for seats that share a world; called with all replies before any seat steps."""

    def render(self) -> Any:
        """Render the first agent's view."""
        return next(iter(self.seats.values())).render()

    def close(self) -> None:
        """Close all seats. May be called twice."""
        for seat in self.seats.values():
            seat.close()


def parallel_env(
    env_id: str, *, agents: int = 2, render_mode: str | None = None, **options: Any
) -> SeatsEnv:
    """Make any id for several agents; each plays the same level on its own board.

    Args:
        env_id: such as `"vagen/FrozenLake-v0"`.
        agents: number of agents, named `player_0`, `player_1`, …
        render_mode: of the first agent.
        options: for `gym.make`.

    Raises:
        ConfigError: `agents` is below 1.
    """
    if agents < 1:
        raise ConfigError(f"agents={agents} is not valid: it must be at least 1")
    drawn = "rgb_array" if render_mode == "human" else render_mode
    seats = {
        f"player_{i}": cast(
            VagenEnv,
            without_checks(gym.make(env_id, render_mode=None if i else drawn, **options)),
        )
        for i in range(agents)
    }
    return SeatsEnv(env_id, seats, render_mode)


def env(env_id: str, **options: Any) -> AECEnv[Agent, dict[str, Any], str]:
    """Make the AEC form of `parallel_env`. All replies of a round answer the same observation."""
    return as_aec(parallel_env(env_id, **options))


def as_aec(parallel: SeatsEnv) -> AECEnv[Agent, dict[str, Any], str]:
    """Convert with PettingZoo's `parallel_to_aec`, and check the order of calls."""
    return wrappers.OrderEnforcingWrapper(parallel_to_aec(parallel))


def _register() -> None:
    """Enter all ids, and two-player Sokoban, in PettingZoo's registries."""
    here = __name__
    two_player = f"{__package__}.vagen_two_player_sokoban_v0"
    for env_id in vagen_envs.ENV_IDS:
        named = {"kwargs": {"env_id": env_id}}
        register("parallel", env_id, f"{here}:parallel_env", **named)
        register("aec", env_id, f"{here}:env", **named)
    register("parallel", "vagen/TwoPlayerSokoban-v0", f"{two_player}:parallel_env")
    register("aec", "vagen/TwoPlayerSokoban-v0", f"{two_player}:env")


_register()
