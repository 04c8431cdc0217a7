"""Whole episodes by truthful agents that solve, solve late or never solve."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import gymnasium as gym

from vagen_benchmarks.farm.seeds import FIRST_SEED
from vagen_envs.core import VagenEnv
from vagen_envs.seeding import HashStream
from vagen_rewards.wrapper import with_reasoning

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "default": ({}, {}),
    "format alone": ({}, None),
    "per turn": ({"format_per_turn": True}, {"per_turn": True}),
}
"""Options of the environment and of the reasoning reward; the last one is the paper's rule."""

Player = Callable[[VagenEnv, int], str]
"""Writes a reply, given the turns that are left."""


def oracle(env: VagenEnv, _left: int) -> str:
    """Solves the level, and tells the truth."""
    return env.oracle_reply()


def never(env: VagenEnv, _left: int) -> str:
    """Tells the truth and walks to and fro."""
    return _reply(env, _idle(env))


def late(env: VagenEnv, left: int) -> str:
    """Tells the truth, walks to and fro, and solves the level in the last turns."""
    needed = -(-len(list(env.plan())) // env.config.max_actions_per_turn)
    return oracle(env, left) if left <= needed else never(env, left)


PLAYERS: dict[str, Player] = {"oracle": oracle, "late": late, "never": never}


def _reply(env: VagenEnv, actions: Sequence[str]) -> str:
    form = env.config.representation
    return env.grammar.render(
        list(actions),
        observation=env.true_state.describe(form),
        reasoning="I wait.",
        prediction=env.imagine(actions).describe(form),
    )


def _idle(env: VagenEnv) -> list[str]:
    """Actions that leave everything as it is, and don't end the level."""
    names = getattr(env.grammar.actions, "names", ())
    choices: list[list[str]] = [list(pair) for pair in itertools.product(names, repeat=2)]
    if not choices:
        stream = HashStream("idle", 0)
        choices = [list(env.random_actions(stream, 1)) for _ in range(12)]
    for actions in choices:
        if env.imagine(actions) == env.true_state:
            return actions
    return choices[0]


def returns(
    env_id: str, options: Mapping[str, Any], setting: str, player: Player, seeds: int
) -> list[list[float]]:
    """The rewards of each turn of episodes."""
    own, reasoning = SETTINGS[setting]
    made = gym.make(env_id, observation="text", **{**options, **own})
    env = with_reasoning(made, reasoning)
    core = cast(VagenEnv, env.unwrapped)
    episodes = []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        env.reset(seed=seed)
        rewards: list[float] = []
        over = False
        while not over:
            left = core.config.max_turns - len(rewards)
            _, reward, terminated, truncated, _ = env.step(player(core, left))
            rewards.append(float(reward))
            over = terminated or truncated
        episodes.append(rewards)
    env.close()
    return episodes


def discounted(episodes: Sequence[Sequence[float]], gamma: float) -> float:
    """The mean discounted return."""

    def of(rewards: Sequence[float]) -> float:
        return sum(gamma**i * reward for i, reward in enumerate(rewards))

    return statistics.fmean(map(of, episodes))


def return_shares(
    env_id: str, options: Mapping[str, Any], seeds: int, gammas: Sequence[float], setting: str
) -> dict[tuple[str, float], float]:
    """Each player's mean return as a share of the oracle's, by player and discount."""
    played = {
        name: returns(env_id, options, setting, player, seeds) for name, player in PLAYERS.items()
    }
    return {
        (name, gamma): discounted(played[name], gamma) / discounted(played["oracle"], gamma)
        for name in PLAYERS
        for gamma in gammas
    }
