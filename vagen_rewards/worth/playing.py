"""Episodes that a reference is made of: play of the oracle and at random, and play that doesn't look."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from vagen_envs.core import State, VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.seeding import HashStream
from vagen_rewards.worth.told import done_by, done_in

BLIND = 2
"""Turns of play that doesn't look, for each of a stage's."""

BLIND_EPISODES = 8
"""Episodes in which they are found, for each of a stage's turns."""

_REPLIES = 4
"""Replies of which one is played."""


class Transition(NamedTuple):
    """The state before a turn's actions and after them, and what was done, as `done_in` says it."""

    before: State
    after: State
    done: Hashable = None


def blind_turns(env: VagenEnv, kind: str, size: int, first_seed: int) -> tuple[Transition, ...]:
    """Later turns of play in which an episode has one reply in all of its turns: half of them one action only.

    Of some replies the one is taken of which least is known, by what is done (`register_done`), and of each as many
    turns are kept: drawn as they come, a hundred of "Left" stood beside ten of "Right, Down", which tell a share badly.
    They are drawn from all turns, as such an agent meets them. Its turns are alike where it has come to rest, so that
    ten of one episode would be one case.
    """
    found: dict[Hashable, list[Transition]] = {}
    episodes = BLIND_EPISODES * size
    for seed in range(first_seed, first_seed + episodes):
        stream = HashStream("blind", seed)
        replies = [_reply(env, stream) for _ in range(_REPLIES)]
        reply = min(replies, key=lambda each: len(found.get(done_by(kind, each), ())))
        for each in list(episode(env, seed, env.config.separator.join(reply)))[1:]:
            found.setdefault(each.done, []).append(each)
    return tuple(_evenly(found, BLIND * size))


def _reply(env: VagenEnv, stream: HashStream) -> list[str]:
    count = 1 + stream.below(env.config.max_actions_per_turn)
    alike = stream.below(2) == 0
    return list(env.random_actions(stream, 1)) * count if alike else list(env.random_actions(stream, count))


def _evenly(found: Mapping[Hashable, Sequence[Transition]], count: int) -> list[Transition]:
    """As many of each, until there are `count` or none is left, in turn."""
    every = [
        HashStream("blind", "turns", repr(done)).sample(turns, len(turns))
        for done, turns in sorted(found.items(), key=lambda each: repr(each[0]))
    ]
    rounds = itertools.zip_longest(*every)
    return [each for row in rounds for each in row if each is not None][:count]


def episode(env: VagenEnv, seed: int, always: str = "") -> Iterator[Transition]:
    """The turns of an episode: by the oracle, at random or a mixture, by the level's seed, or always the same reply."""
    stream = HashStream("reference", seed)
    env.reset(seed=seed, options={"split": "train"})
    over = False
    while not over:
        oracle = seed % 3 == 0 or (seed % 3 == 1 and stream.below(2) == 0)
        actions = always.split(env.config.separator) if always else _actions(env, stream, by_oracle=oracle)
        *_, terminated, truncated, info = env.step(env.grammar.render(actions))
        turn = info["turn"]
        yield Transition(turn.before, turn.after, done_in(turn))
        over = terminated or truncated


def _actions(env: VagenEnv, stream: HashStream, by_oracle: bool) -> Sequence[str]:
    most = env.config.max_actions_per_turn
    if by_oracle:
        try:
            return list(env.plan())[:most]
        except LevelError:  # random play has made the level unsolvable
            pass
    return env.random_actions(stream, 1 + stream.below(most))
