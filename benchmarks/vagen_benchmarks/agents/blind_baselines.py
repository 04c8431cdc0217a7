"""What not looking gives: the best replies that are the same for every level."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_benchmarks.agents.scripted import WORDS
from vagen_envs.core import VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.seeding import HashStream

SIZES = {
    "sokoban": (200, 64),
    "frozen_lake": (200, 64),
    "sample": (32, 32),
    "navigation": (12, 6),
    "svg": (8, 4),
    "primitive_skill": (3, 2),
}
"""Candidates and levels of the search, by what a turn costs: a simulator's takes some thousand times a board's."""
OTHERS = (24, 8)
"""The same for an environment that isn't ours."""
PLANS = 4
"""One candidate in so many is what solves another level of `val`; the next as many are drawn at random."""

Replies = tuple[tuple[str, ...], ...]
"""The actions of each turn."""


class Blind(Agent):
    """One reply a turn, the same for every level: those that do best on `val`, as far as a search finds them.

    A model that isn't better may as well not have looked. The search is a function of the environment's options alone:
    plans of other levels, candidates drawn at random, and then changes of single actions of the best so far; success
    counts, and then return.
    """

    name = "blind"

    def __init__(self) -> None:
        self._found: dict[str, Replies] = {}
        self._lock = threading.Lock()

    def reply(self, game: Game) -> Reply:
        env = game.env
        with self._lock:  # one search, however many episodes begin at once
            if (key := options_of(env)) not in self._found:
                self._found[key] = search(env)
        return Reply(env.grammar.render(self._found[key][len(game.turns)], **WORDS))


def options_of(env: VagenEnv) -> str:
    """What a search depends on."""
    return repr((env.id, dataclasses.replace(env.config, split="val")))


@dataclass(frozen=True)
class Moment:
    """A level of `val` as it stands after the same replies as the other levels of a search.

    Attributes:
        turns: played so far.
        solved, gained: how it ended and what was paid so far.
        running: whether there is more to be played.
        text: what was read last.
    """

    snapshot: bytes
    text: str
    turns: int = 0
    solved: bool = False
    gained: float = 0.0
    running: bool = True


@contextmanager
def rehearsal(like: VagenEnv) -> Iterator[VagenEnv]:
    """An environment of the same options to try things in; pictures are drawn only where they cost nothing."""
    assert like.spec is not None
    unseen: dict[str, Any] = {} if like.quick else {"observation": "text"}
    made = gym.make(like.spec, disable_env_checker=True, split="val", **unseen)
    try:
        yield made.unwrapped  # type: ignore[misc]
    finally:
        made.close()


def search(like: VagenEnv) -> Replies:
    """The best replies found on `val`, for an environment of the same options."""
    tries, count = SIZES.get(like.prompt_folder, OTHERS)
    with rehearsal(like) as env:
        return best_replies(env, beginnings(env, count), tries, HashStream("blind replies", env.id))


def beginnings(env: VagenEnv, count: int) -> list[Moment]:
    """The first levels of `val` before the first turn."""
    moments = []
    for seed in range(count):
        observation, _ = env.reset(seed=seed)
        moments.append(Moment(env.snapshot(), observation["text"]))
    return moments


def best_replies(env: VagenEnv, moments: Sequence[Moment], tries: int, stream: HashStream) -> Replies:
    """The replies from here on that do best on all of these, which have as many turns behind them."""
    best: Replies = ()
    score = (-1.0, 0.0)
    left = env.config.max_turns - moments[0].turns
    for number in range(tries):
        if number < max(2, tries // PLANS):
            replies = _planned(env, moments[number % len(moments)], left, stream)
        elif number < tries // 2:
            replies = _drawn(env, left, stream)
        else:
            replies = _changed(best, env, stream)
        reached = _score(env, replies, moments)
        if reached >= score:
            best, score = replies, reached
    return best


def _planned(env: VagenEnv, moment: Moment, turns: int, stream: HashStream) -> Replies:
    """What solves this level, where anything does; drawn at random from there on."""
    env.restore(moment.snapshot)
    try:
        actions = list(env.plan())
    except LevelError:
        actions = []
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


def _score(env: VagenEnv, replies: Replies, moments: Sequence[Moment]) -> tuple[float, float]:
    """Success and return, on average."""
    solved = total = 0.0
    for moment in moments:
        solved += moment.solved
        total += moment.gained
        if not moment.running:
            continue
        env.restore(moment.snapshot)
        for actions in replies:
            _, reward, terminated, truncated, info = env.step(env.grammar.render(actions, **WORDS))
            total += reward
            if terminated or truncated:
                solved += info["turn"].success
                break
    return solved / len(moments), total / len(moments)


def after(env: VagenEnv, moment: Moment, actions: Sequence[str]) -> Moment:
    """The level after one turn more."""
    env.restore(moment.snapshot)
    observation, reward, terminated, truncated, info = env.step(env.grammar.render(actions, **WORDS))
    return Moment(
        env.snapshot(),
        observation["text"],
        moment.turns + 1,
        info["turn"].success,
        moment.gained + reward,
        not (terminated or truncated),
    )
