"""Agents that need no model: the oracle, random actions, and the baselines of an environment."""

from __future__ import annotations

from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_envs.seeding import HashStream


class Oracle(Agent):
    """The environment's own solver, speaking the full format with true observations and
    predictions.
    """

    name = "oracle"

    def reply(self, game: Game) -> Reply:
        return Reply(game.env.oracle_reply())


WORDS = dict.fromkeys(("observation", "reasoning", "prediction", "think"), "I did not look.")
"""What those say who play without looking."""


class Random(Agent):
    """Well-formed replies with random valid actions: a pure function of task, split, seed, repeat
    and turn.
    """

    name = "random"

    def reply(self, game: Game) -> Reply:
        env = game.env
        stream = HashStream(
            "random agent", game.task, game.split, game.seed, game.repeat, len(game.turns)
        )
        count = 1 + stream.below(env.config.max_actions_per_turn)
        actions = env.random_actions(stream, count)
        return Reply(env.grammar.render(actions, **WORDS))


class Baseline(Agent):
    """One of an environment's own `baselines`, by its name there. It plays the tasks that offer
    it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def reply(self, game: Game) -> Reply:
        return Reply(type(game.env).baselines[self.name](game.env))
