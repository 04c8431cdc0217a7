"""How an episode ends, and how it ended, for libraries that keep it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from vagen_envs.core import Turn


def step_limit(env: gym.Env[Any, Any]) -> int | None:
    """Return the number of turns after which a `TimeLimit` truncates an episode, if there is one,
    as of `gym.make(…, max_episode_steps=…)`.
    """
    name = "_max_episode_steps"
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def without_checks(made: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return what `gym.make` made without its wrappers that check, but with its limit of steps."""
    limit = step_limit(made)
    return made.unwrapped if limit is None else TimeLimit(made.unwrapped, limit)


def ends_of(turns: Sequence[Turn]) -> dict[str, bool]:
    """Return `terminated` and `truncated` of an episode that is over for the library.

    `terminated`: the rules ended it, solved or lost for good, so that no reward could follow.
    `truncated`: something else did: a limit of turns, of the environment or of the library, a limit
    of tokens, or a simulator that broke.
    """
    terminated = bool(turns) and turns[-1].terminated
    return {"terminated": terminated, "truncated": not terminated}
