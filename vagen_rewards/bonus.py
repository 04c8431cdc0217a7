"""What an episode's bonuses add up to: no more for a longer budget, and no less for an earlier
success.

A bonus of each turn pays an agent for not solving. So it is scaled by the environment's share
(`EnvConfig.bonus_share`), and an episode that is solved earns the mean bonus so far for each turn
that is left, as if it went on in an absorbing state (Discriminator-Actor-Critic, arXiv:1809.02925).
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym

from vagen_envs.config import EnvConfig
from vagen_envs.core import RewardTerm, Turn
from vagen_envs.registration import declared
from vagen_rewards.scores import PARTS

REPETITION = "repetition"
"""The term of `RepetitionPenalty`."""

REMAINING = "remaining_reasoning"
"""The term of the turns that a solved episode leaves."""

OURS = frozenset({REPETITION, REMAINING, *PARTS})
"""The terms of `ReasoningReward`."""

_OF_MAKE = frozenset({"render_mode", "disable_env_checker", "max_episode_steps"})
"""Options of `gym.make` that aren't the configuration's."""


class Budget(NamedTuple):
    """Turns of an episode, and the share of its size that a bonus has in each."""

    turns: int
    share: float


def budget_of(env_id: str, options: Mapping[str, Any]) -> Budget:
    """The budget of an environment with these options, which isn't made for it.

    Raises:
        ConfigError: there is no such environment, or an option isn't valid.
    """
    return _budget_of(env_id, json.dumps(options, default=str))


@functools.lru_cache(maxsize=256)
def _budget_of(env_id: str, options: str) -> Budget:
    spec, entry = declared(env_id)
    given = {**spec.kwargs, **json.loads(options)}
    if not hasattr(entry, "config_class"):  # a function that makes the environment
        config: EnvConfig = gym.make(env_id, **given).unwrapped.config  # type: ignore[attr-defined]
        return Budget(config.max_turns, config.bonus_share)
    preset = given.pop("preset", "paper")
    own = {name: value for name, value in given.items() if name not in _OF_MAKE}
    config = entry.config_class.create(preset, **own)
    return Budget(config.max_turns, config.bonus_share)


def remaining(
    turn: Turn, terms: Sequence[RewardTerm], earlier: Sequence[Turn], turns: int
) -> tuple[RewardTerm, ...]:
    """The term of the turns that are left, if the turn solves the task.

    Args:
        turn: the last one.
        terms: what it earns for its reasoning.
        earlier: the paid turns of its episode before it.
        turns: of the budget.
    """
    left = turns - turn.index - 1
    if not (turn.terminated and turn.success and left > 0):
        return ()
    paid = [term for paid_turn in earlier for term in paid_turn.rewards]
    ours = [term for term in paid if term.name in OURS]
    total = math.fsum(term.value for term in (*ours, *terms))
    # A solved episode is never fined for what its words cost before.
    value = max(0.0, total / (len(earlier) + 1)) * left
    return (RewardTerm(REMAINING, value),) if value else ()
