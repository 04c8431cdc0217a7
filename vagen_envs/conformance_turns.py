"""Turns of a conformance check, with all that must hold of any turn."""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import ConformanceError
from vagen_envs.spaces import MAX_TEXT_LENGTH

Factory = Callable[[], gym.Env[Any, Any]]
HOSTILE_REPLIES: tuple[str, ...] = (
    "",
    " \n\t ",
    "\0",
    "\ud800 lone surrogate \udfff",
    "no tags at all",
    "<answer>",
    "</answer><answer>",
    "<think>" * 2_000,
    "<answer></answer>" * 500,
    "<answer>" + "Nonsense," * 1_500 + "</answer>",
    "<think></think><answer><image></answer>",
    "<answer>\U0001f600\u202e\u0000</answer>",
    "x" * (MAX_TEXT_LENGTH + 1),
    "<answer>" + "x" * 1_000_000,
    "%s {0} ${view} $(reboot) \\1 <!ENTITY a 'b'>",
)
"""Replies that no agent should write and every environment must survive."""


def made(factory: Factory) -> contextlib.closing[Any]:
    """A fresh environment without wrappers, closed at the end."""
    return contextlib.closing(factory().unwrapped)


def require(condition: object, seen: str) -> None:
    """Raise ConformanceError with what was seen unless the condition holds."""
    if not condition:
        raise ConformanceError(seen)


def checked_step(env: VagenEnv, reply: str) -> Turn:
    """One turn, with all that must hold of any."""
    observation, reward, terminated, truncated, info = env.step(reply)
    turn: Turn = info["turn"]
    most = env.config.max_turns
    require(turn.index < most, f"the episode goes on after max_turns={most} turns")
    wrong = {term.name: term.value for term in turn.rewards if not np.isfinite(term.value)}
    require(not wrong, f"reward terms are not finite numbers: {wrong}")
    require(
        reward == turn.reward, f"the reward is {reward}, the turn's terms add up to {turn.reward}"
    )
    require(
        (terminated, truncated) == (turn.terminated, turn.truncated),
        "step and turn disagree about the end",
    )
    require(not (terminated and truncated), "terminated and truncated at once")
    require(
        env.observation_space.contains(observation),
        "an observation is outside the observation space",
    )
    require(pickle.loads(pickle.dumps(turn)) == turn, "pickling changes the turn")  # noqa: S301
    data = json.loads(json.dumps(turn.to_json()))
    back = Turn.from_json(data, {picture.sha256: picture for picture in turn.pictures})
    require(back == turn, "the turn's JSON gives another turn back")
    return turn


def oracle_episode(env: VagenEnv, seed: int) -> list[Any]:
    """All that is to be seen of the oracle's episode, as JSON."""
    env.reset(seed=seed)
    return [[env.level["content"], env.observed.to_json()], *rest_of_episode(env)]


def rest_of_episode(env: VagenEnv) -> list[Any]:
    """The oracle's turns to the end of the episode, as JSON."""
    turns = []
    while env._running:
        turns.append(checked_step(env, env.oracle_reply()).to_json())
    return turns


def what_follows(env: VagenEnv) -> list[Any]:
    """All that is to be seen from here: the rest of the episode, and the levels and pictures after
    it.
    """
    seen = rest_of_episode(env)
    for _ in range(2):
        env.reset()
        seen.append([env.level, env.observed.to_json()])
    return seen
