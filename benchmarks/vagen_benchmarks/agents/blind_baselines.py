"""What not looking gives: the best replies that are the same for every level."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import gymnasium as gym

from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_benchmarks.agents.scripted import WORDS
from vagen_envs.core import VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.seeding import HashStream

PLANS = 4
"""One candidate in so many is what solves another level of `val`; the next as many are drawn at
random.
"""

Replies = tuple[tuple[str, ...], ...]
"""The actions of each turn."""


class Blind(Agent):
    """One reply a turn, the same for every level: those that do best on `val`, as far as a search
    finds them.

    A model that isn't better may as well not have looked. The search is a function of the
    environment's options alone: plans of other levels, candidates drawn at random, and then changes
    of single actions of the best so far; success counts, and then return.
    """

    name = "blind"

    def __init__(self) -> None:
        self._found: dict[str, Replies] = {}
        self._lock = threading.Lock()

    def reply(self, game: Game) -> Reply:
        env = game.env
        key = repr((env.id, dataclasses.replace(env.config, split="val")))
        with self._lock:  # one search, however many episodes begin at once
            if key not in self._found:
                self._found[key] = search(env)
        return Reply(env.grammar.render(self._found[key][len(game.turns)], **WORDS))


def search(like: VagenEnv) -> Replies:
    """The best replies found on `val`, for an environment of the same options."""
    assert like.spec is not None
    # Pictures are drawn only where they cost nothing.
    unseen: dict[str, Any] = {} if like.quick else {"observation": "text"}
    with closing(gym.make(like.spec, disable_env_checker=True, split="val", **unseen)) as made:
        env: Any = made.unwrapped
        tries, count = env.blind_search
        stream = HashStream("blind replies", env.id)
        levels = []
        for seed in range(count):
            env.reset(seed=seed)
            levels.append(env.snapshot())
        best: Replies = ()
        score = (-1.0, 0.0)
        for number in range(tries):
            if number < max(2, tries // PLANS):
                replies = _planned(env, levels[number % len(levels)], stream)
            elif number < tries // 2:
                replies = _drawn(env, env.config.max_turns, stream)
            else:
                replies = _changed(best, env, stream)
            if (reached := _score(env, replies, levels)) >= score:
                best = replies
                score = reached
        return best


def _planned(env: VagenEnv, level: bytes, stream: HashStream) -> Replies:
    """What solves this level, where anything does; drawn at random from there on."""
    env.restore(level)
    try:
        actions = list(env.plan())
    except LevelError:
        actions = []
    turns = env.config.max_turns
    most = env.config.max_actions_per_turn
    replies = [tuple(actions[at : at + most]) for at in range(0, len(actions), most)][:turns]
    return (*replies, *_drawn(env, turns - len(replies), stream))


def _drawn(env: VagenEnv, turns: int, stream: HashStream) -> Replies:
    count = env.config.max_actions_per_turn
    return tuple(tuple(env.random_actions(stream, count)) for _ in range(turns))


def _changed(replies: Replies, env: VagenEnv, stream: HashStream) -> Replies:
    """With one action drawn anew, or one more, or one less."""
    turn = stream.below(len(replies))
    actions = list(replies[turn])
    at = stream.below(env.config.max_actions_per_turn)
    new = list(env.random_actions(stream, 1))
    actions[at : at + 1] = new if stream.below(8) else []
    return (*replies[:turn], tuple(actions or new), *replies[turn + 1 :])


def _score(env: VagenEnv, replies: Replies, levels: Sequence[bytes]) -> tuple[float, float]:
    solved = total = 0.0
    for level in levels:
        env.restore(level)
        for actions in replies:
            _, reward, terminated, truncated, info = env.step(env.grammar.render(actions, **WORDS))
            total += reward
            if terminated or truncated:
                solved += info["turn"].success
                break
    return solved / len(levels), total / len(levels)
