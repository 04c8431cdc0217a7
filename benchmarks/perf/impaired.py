"""Oracles with one fault each, which a diagnosis must tell apart."""

from __future__ import annotations

from typing import Any, Literal, get_args

import gymnasium as gym

from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_envs.core import VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.seeding import HashStream

Fault = Literal["perception", "prediction", "planning"]
FAULTS: tuple[Fault, ...] = get_args(Fault)


class Impaired(Agent):
    """The oracle, but for one fault in a share of its turns.

    - `perception`: it sees another level's picture, and plans for that one;
    - `prediction`: it believes that actions do what others do, and so takes the wrong ones;
    - `planning`: it takes actions at random, and knows what they do.

    Args:
        fault: which.
        share: of the turns, 0 to 1.
        salt: another number gives other turns.
    """

    def __init__(self, fault: Fault, share: float, salt: int = 0) -> None:
        self.fault, self.share, self.salt = fault, share, salt
        self.name = f"{fault} faulty in {share:.0%}"
        self._others: dict[
            int, VagenEnv
        ] = {}  # another level's environment for each that is played

    def reply(self, game: Game) -> Reply:
        env = game.env
        stream = HashStream(
            "impaired", self.salt, self.fault, game.task, game.seed, len(game.turns), game.now.text
        )
        faulty = stream.below(10_000) < 10_000 * self.share
        if faulty and self.fault == "perception" and game.now.picture is not None:
            return self._astray(env, stream)
        wanted = self._plan(env, stream)
        actions = self._at_random(env, stream) if faulty and self.fault != "perception" else wanted
        foretold = wanted if self.fault == "prediction" else actions
        return self._written(
            env,
            actions,
            env.imagine([]).describe(env.config.representation),
            self._after(env, foretold),
        )

    def _astray(self, env: VagenEnv, stream: HashStream) -> Reply:
        if id(env) not in self._others:
            assert env.spec is not None
            self._others[id(env)] = gym.make(env.spec).unwrapped  # type: ignore[assignment]
        other = self._others[id(env)]
        # Runs count their seeds from 0, so that a level of these seeds is never the one that is
        # played.
        other.reset(seed=10**6 + stream.below(10**6))
        seen = other.imagine([]).describe(env.config.representation)
        actions = self._plan(other, stream)
        foretold = self._after(other, actions)
        return self._written(env, actions, seen, foretold)

    def _plan(self, env: VagenEnv, stream: HashStream) -> list[str]:
        try:
            return list(env.plan())[: env.config.max_actions_per_turn]
        except LevelError:  # lost; whatever it does
            return self._at_random(env, stream)

    def _at_random(self, env: VagenEnv, stream: HashStream) -> list[str]:
        return list(env.random_actions(stream, env.config.max_actions_per_turn))

    def _after(self, env: VagenEnv, actions: list[str]) -> str:
        return env.imagine(actions).describe(env.config.representation)

    def _written(self, env: VagenEnv, actions: list[str], seen: str, foretold: str) -> Reply:
        return Reply(
            env.grammar.render(actions, observation=seen, reasoning="So.", prediction=foretold)
        )

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "salt": self.salt}
