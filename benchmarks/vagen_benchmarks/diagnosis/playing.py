"""Playing a level under a condition, and what each turn lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import gymnasium as gym

from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_benchmarks.errors import BenchError, EndpointError
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import LevelError, SimulatorError
from vagen_envs.replies import Calls, Names
from vagen_rewards import RuleJudge
from vagen_rewards.scores import Statement

Condition = Literal["picture", "truth"]
CONDITIONS: tuple[Condition, ...] = ("picture", "truth")
"""What the agent gets: the picture, or the true state as text."""

_JUDGE = RuleJudge("claims")


class TurnLoss(NamedTuple):
    """What a turn lost, in actions.

    Attributes:
        lost: by how many actions it moved the end away, compared with the best play; at most what was left to do.
        unread: actions that were left out because none could be read.
        saw, foresaw: whether the observation and the prediction are true; `None` if nothing could be judged.
    """

    lost: float
    unread: float
    saw: bool | None
    foresaw: bool | None


class Subject:
    """An agent and an environment that it is diagnosed on.

    Args:
        agent: any; it is asked as in a benchmark, with observations changed by the condition.
        env_id: an environment with a plan; SVG reconstruction and Sample have none.
        options: of the environment.
        split: of the levels.

    Raises:
        BenchError: the environment has no plan, or the strategy's replies have no observation and prediction.
    """

    def __init__(self, agent: Agent, env_id: str, options: Mapping[str, Any], split: str = "test") -> None:
        self.agent, self.env_id, self.split = agent, env_id, split
        shown = {"observation", "split"} & set(options)
        if shown:
            raise BenchError(f"{shown.pop()} can't be an option here: levels are played with the picture and as text")
        made = {**agent.env_options, **options}
        self._envs: dict[str, VagenEnv] = {}
        for view in ("image", "text"):
            env = gym.make(env_id, disable_env_checker=True, split=split, observation=view, **made)
            self._envs[view] = env.unwrapped  # type: ignore[assignment]
        grammar = self._envs["text"].grammar
        if not isinstance(grammar.actions, Names | Calls):  # an SVG or an answer is one action
            self.close()
            raise BenchError(f"{env_id} can't be diagnosed on: it has no plan in which actions could be lost")
        template = grammar.template()
        if "prediction" not in template or "observation" not in template:
            raise BenchError(
                "a diagnosis needs strategy=grounding_world_modeling, whose replies hold observations and predictions"
            )

    def close(self) -> None:
        """Free the environments."""
        for env in self._envs.values():
            env.close()

    def play(self, seed: int, condition: Condition) -> tuple[list[TurnLoss], bool]:
        """The turns of a level, and whether it was solved."""
        env = self._envs["text" if condition == "truth" else "image"]
        env.reset(seed=seed)
        game = Game(env, f"diagnosis {condition}", self.split, seed, 0, env.observed)
        played: list[TurnLoss] = []
        left = self._left(env)
        while True:
            try:
                text = self._reply(game)
            except EndpointError as error:
                if not error.kind.counts:
                    raise
                # A full context or a refusal is the model's own loss: it gave nothing that could be executed.
                return [*played, TurnLoss(0, min(left or 0, env.config.max_actions_per_turn), None, None)], False
            _, _, terminated, truncated, info = env.step(text)
            turn: Turn = info["turn"]
            before, left = left, self._left(env)
            played.append(_losses(env, turn, before, left))
            game.turns.append(turn)
            game.now = env.observed
            if terminated or truncated:
                return played, turn.success

    def _reply(self, game: Game) -> str:
        where = f"{self.agent.name} on {self.env_id}, seed {game.seed}, turn {len(game.turns)}"
        try:
            said: Any = self.agent.reply(game)
        except (BenchError, SimulatorError):
            raise
        except Exception as error:
            raise BenchError(f"{where}: {type(error).__name__}: {error}; fix the agent and diagnose again") from error
        text = said.text if isinstance(said, Reply) else said
        if not isinstance(text, str):
            raise BenchError(f"{where}: reply() returned a {type(text).__name__}; it must return a Reply or a string")
        return text

    def _left(self, env: VagenEnv) -> int | None:
        """Actions to the end; `None` if it can't be reached any more."""
        try:
            return len(env.plan())
        except LevelError:
            return None


def _losses(env: VagenEnv, turn: Turn, before: int | None, after: int | None) -> TurnLoss:
    saw = _is_true("grounding", turn.parsed.observation, turn.before)
    if before is None:  # lost already; nothing more can be
        return TurnLoss(0, 0, saw, None)
    if not turn.executed:
        return TurnLoss(0, min(before, env.config.max_actions_per_turn), saw, None)
    after = 0 if turn.success else after
    lost = before if after is None else len(turn.executed) + after - before
    return TurnLoss(min(before, max(0, lost)), 0, saw, _is_true("world_modeling", turn.parsed.prediction, turn.after))


def _is_true(part: Literal["grounding", "world_modeling"], text: str | None, state: Any) -> bool | None:
    if not text:
        return None
    value = _JUDGE.score(Statement(part, text, state)).value
    return None if value is None else value == 1
