"""What not looking gives: the best replies that are the same for every level."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

import gymnasium as gym

from vagen_benchmarks.agents import WORDS, Agent, Game, Reply
from vagen_envs.core import VagenEnv
from vagen_envs.seeding import HashStream

QUICK, SLOW = (400, 64), (8, 4)
"""Candidates and levels of the search. A simulator's turn takes some thousand times a board's."""

Replies = tuple[tuple[str, ...], ...]
"""The actions of each turn."""


class Blind(Agent):
    """One reply a turn, the same for every level: those that do best on `val`, as far as a search finds them.

    A model that isn't better may as well not have looked. The search is a function of the environment's options alone:
    candidates drawn at random, and then changes of single actions of the best so far; success counts, and then return.
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
        actions = self._found[key][len(game.turns)]
        return Reply(env.grammar.render(actions, **WORDS))


def search(like: VagenEnv) -> Replies:
    """The best replies found on `val`, for an environment of the same options."""
    assert like.spec is not None
    made = gym.make(like.spec, disable_env_checker=True, observation="text", split="val")  # no picture is drawn
    env: VagenEnv = made.unwrapped  # type: ignore[assignment]
    tries, count = QUICK if env.quick else SLOW
    stream = HashStream("blind replies", env.id)
    try:
        levels = []
        for seed in range(count):
            env.reset(seed=seed)
            levels.append(env.snapshot())
        best: Replies = ()
        score = (-1.0, 0.0)
        for number in range(tries):
            replies = _drawn(env, stream) if number < tries // 4 else _changed(best, env, stream)
            reached = _score(env, replies, levels)
            if reached >= score:
                best, score = replies, reached
        return best
    finally:
        env.close()


def _drawn(env: VagenEnv, stream: HashStream) -> Replies:
    count = env.config.max_actions_per_turn
    return tuple(tuple(env.random_actions(stream, count)) for _ in range(env.config.max_turns))


def _changed(replies: Replies, env: VagenEnv, stream: HashStream) -> Replies:
    """With one action drawn anew, or one more, or one less."""
    turn = stream.below(len(replies))
    actions = list(replies[turn])
    at = stream.below(env.config.max_actions_per_turn)
    new = list(env.random_actions(stream, 1))
    actions[at : at + 1] = new if stream.below(8) else []
    return (*replies[:turn], tuple(actions or new), *replies[turn + 1 :])


def _score(env: VagenEnv, replies: Replies, levels: Sequence[bytes]) -> tuple[float, float]:
    """Success and return, on average over levels as snapshots have them at their beginning."""
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
