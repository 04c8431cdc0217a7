"""The tasks of a diagnosis, and what each turn of a played episode lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.protocol import Task, make_task
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.replies import Calls, Names
from vagen_rewards import RuleJudge
from vagen_rewards.scores import Statement

Condition = Literal["image", "text"]
CONDITIONS: tuple[Condition, ...] = ("image", "text")
"""What the agent gets: the picture, or the true state as text. The values of the option `observation`."""

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


def diagnosis_tasks(
    env_ids: Sequence[str], options: Mapping[str, Any], split: str = "test", first_seed: int = 0, levels: int = 64
) -> list[Task]:
    """The same levels of each environment once with the picture and once as text.

    Args:
        env_ids: environments with a plan; SVG reconstruction and Sample have none.
        options: of the environments.
        split: of the levels.
        first_seed: the first of the seeds.
        levels: how many.

    Raises:
        BenchError: an environment has no plan, or the strategy's replies have no observation and prediction.
    """
    if "observation" in options:
        raise BenchError("observation can't be an option here: levels are played with the picture and as text")
    tasks = []
    for env_id in env_ids:
        for view in CONDITIONS:
            task = make_task(env_id, {**options, "observation": view}, split, first_seed, levels, ["observation"])
            _check(task)
            tasks.append(task)
    return tasks


def _check(task: Task) -> None:
    env = task.make()
    grammar = env.unwrapped.grammar  # type: ignore[attr-defined]
    env.close()
    if not isinstance(grammar.actions, Names | Calls):  # an SVG or an answer is one action
        raise BenchError(f"{task.env_id} can't be diagnosed on: it has no plan in which actions could be lost")
    if not all(field in grammar.template() for field in ("observation", "prediction")):
        raise BenchError(
            "a diagnosis needs strategy=grounding_world_modeling, whose replies hold observations and predictions"
        )


def turn_losses(env: VagenEnv, episode: Episode) -> list[TurnLoss]:
    """What each turn of an episode lost. The episode's replies are played again in `env`, as text."""
    env.reset(seed=episode.seed)
    left = _left(env)
    losses = []
    for stored in episode.turns:
        turn: Turn = env.step(stored["reply"])[4]["turn"]
        before, left = left, _left(env)
        losses.append(_loss(env, turn, before, left))
    if episode.ended.kind not in (Stop.SOLVED, Stop.LOST, Stop.BUDGET):
        # A full context or a refusal is the model's own loss: it gave nothing that could be executed.
        losses.append(TurnLoss(0, min(left or 0, env.config.max_actions_per_turn), None, None))
    return losses


def _left(env: VagenEnv) -> int | None:
    """Actions to the end; `None` if it can't be reached any more."""
    try:
        return len(env.plan())
    except LevelError:
        return None


def _loss(env: VagenEnv, turn: Turn, before: int | None, after: int | None) -> TurnLoss:
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
