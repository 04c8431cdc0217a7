"""Find out whether an agent fails by perception, prediction or planning.

The same levels are played twice: with the picture, and with the true state as text. Losses that
occur only with the picture are due to perception. Losses that occur with the text, too, are due to
prediction if the agent predicted the outcome of its actions wrongly, else to planning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.results.stats import Estimate, rate
from vagen_benchmarks.runs.protocol import Task, agent_options
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.tasks import make_task
from vagen_benchmarks.turn_losses import TurnLoss, turn_losses
from vagen_envs.replies import Calls, Names

Condition = Literal["image", "text"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
"""What the agent gets: the picture, or the true state as text. The values of the option
`observation`.
"""
CAUSES = ("perception", "prediction", "planning", "format")
DRAWS = 1000
"""Resamples of the bootstrap over levels."""


LevelPlay = tuple[Sequence[TurnLoss], bool]
"""The turns of a level under one condition, and whether it was solved."""


@dataclass(frozen=True)
class Diagnosis:
    """What an agent loses, and why. Intervals are over levels: of causes and losses by bootstrap
    (Efron 1979).

    Attributes:
        causes: share of each cause in the actions lost with the picture; all 0 if none are lost.
        lost: by condition, actions lost per turn in which some could be lost.
        success: by condition.
        saw: share of true statements about the picture.
        foresaw: share of true predictions of its own actions, with the true symbols.
        unjudged: share of statements that could not be judged.
        levels: levels played under all conditions.
    """

    agent: str
    env_id: str
    causes: Mapping[str, Estimate]
    lost: Mapping[Condition, Estimate]
    success: Mapping[Condition, Estimate]
    saw: Estimate
    foresaw: Estimate
    unjudged: float
    levels: int

    @property
    def main_cause(self) -> str | None:
        """The cause with the largest share; `None` if nothing is lost."""
        cause = max(CAUSES, key=lambda name: self.causes[name].value)
        return cause if self.causes[cause].value > 0 else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "main_cause": self.main_cause}


def diagnosis_tasks(
    env_ids: Sequence[str],
    options: Mapping[str, Any],
    split: str = "test",
    first_seed: int = 0,
    levels: int = 64,
) -> list[Task]:
    """The same levels of each environment once with the picture and once as text.

    Raises:
        BenchError: an environment has no plan, as SVG reconstruction and Sample, or the strategy's
            replies have no observation and prediction.
    """
    if "observation" in options:
        raise BenchError(
            "observation can't be an option here: levels are played with the picture and as text"
        )
    tasks = [
        make_task(
            env_id, {**options, "observation": view}, split, first_seed, levels, ["observation"]
        )
        for env_id in env_ids
        for view in CONDITIONS
    ]
    for task in tasks:
        with closing(task.make()) as env:
            grammar = env.unwrapped.grammar  # type: ignore[attr-defined]
        if not isinstance(grammar.actions, Names | Calls):  # an SVG or an answer is one action
            raise BenchError(
                f"{task.env_id} can't be diagnosed on: it has no plan in which actions could be "
                "lost"
            )
        if not all(field in grammar.template() for field in ("observation", "prediction")):
            raise BenchError(
                "a diagnosis needs strategy=grounding_world_modeling, whose replies hold "
                "observations and predictions"
            )
    return tasks


def diagnose(run: RunFolder, *, progress: Callable[[], None] = lambda: None) -> list[Diagnosis]:
    """Diagnose each agent of a run of `diagnosis_tasks` on each of its environments.

    Levels that weren't played under both conditions are left out. `progress` is called after each
    episode.

    Raises:
        BenchError: no level was played under both conditions.
    """
    found = []
    episodes = [episode for episode in run.episodes() if episode.failure is None]
    for agent in run.protocol.agents:
        for env_id in dict.fromkeys(task.env_id for task in run.protocol.tasks):
            levels: dict[int, dict[Condition, LevelPlay]] = {}
            for task in (each for each in run.protocol.tasks if each.env_id == env_id):
                as_text = replace(task, options={**task.options, "observation": "text"})
                with closing(as_text.make(agent_options(agent, env_id))) as env:
                    for episode in episodes:
                        if (episode.agent, episode.task) == (agent["name"], task.label):
                            losses = turn_losses(env.unwrapped, episode)  # type: ignore[arg-type]
                            levels.setdefault(episode.seed, {})[task.options["observation"]] = (
                                losses,
                                episode.success,
                            )
                            progress()
            if complete := [level for level in levels.values() if len(level) == len(CONDITIONS)]:
                found.append(attribute(str(agent["name"]), env_id, complete))
    if not found:
        raise BenchError(
            f"no level was played under all conditions; repeat the command with --out {run.path} "
            "to go on"
        )
    return found


def attribute(
    agent: str, env_id: str, levels: Sequence[Mapping[Condition, LevelPlay]]
) -> Diagnosis:
    """Attribute the actions lost in these levels to causes.

    A turn loses R on average with the picture, R' with the true symbols. R - R' (0 if negative) is
    due to perception. Of the rest, prediction has the share lost in turns with the true symbols
    whose outcome was predicted wrongly, and planning what remains. Format has what was lost because
    no action could be read.
    """
    sums = np.array([_sums(level) for level in levels], float)  # a row for each level
    # A fixed generator: the same levels give the same intervals.
    draws = np.random.Generator(np.random.PCG64(0)).integers(len(levels), size=(DRAWS, len(levels)))
    shares = _shares(sums.sum(axis=0))
    ends = np.percentile(_shares(sums[draws].sum(axis=1)), (2.5, 97.5), axis=0)
    figures = [
        Estimate(float(share), float(low), float(high), len(levels), len(levels))
        for share, low, high in zip(shares, *ends, strict=True)
    ]
    saw: list[list[bool | None]] = []
    foresaw: list[list[bool | None]] = []
    for level in levels:
        saw.append([turn.saw for turn in level["image"][0]])
        foresaw.append([turn.foresaw for turn in level["text"][0]])
    verdicts = [verdict for level in (*saw, *foresaw) for verdict in level]
    solved = {}
    for view in CONDITIONS:
        solved[view] = rate([(float(level[view][1]), 1) for level in levels])
    return Diagnosis(
        agent,
        env_id,
        dict(zip(CAUSES, figures, strict=False)),
        dict(zip(CONDITIONS, figures[len(CAUSES) :], strict=True)),
        solved,
        _truth(saw),
        _truth(foresaw),
        unjudged=verdicts.count(None) / len(verdicts) if verdicts else 0.0,
        levels=len(levels),
    )


def _truth(levels: Sequence[Sequence[bool | None]]) -> Estimate:
    """The share of true verdicts among those that were given; NaN between 0 and 1 without any."""
    judged = [(float(level.count(True)), len(level) - level.count(None)) for level in levels]
    return rate([each for each in judged if each[1]])


def _sums(level: Mapping[Condition, LevelPlay]) -> Sequence[float]:
    """What a level adds to the sums that `_shares` takes."""
    (pictures, _), (symbols, _) = (level[view] for view in CONDITIONS)
    lost_image = sum(turn.lost for turn in pictures)
    lost_text = sum(turn.lost for turn in symbols)
    foretold = [turn for turn in symbols if turn.foresaw is not None]
    unforeseen = sum(turn.lost for turn in foretold if not turn.foresaw)
    unread = sum(turn.unread for turn in pictures)
    lost_foretold = sum(turn.lost for turn in foretold)
    of_views = (lost_image, len(pictures), lost_text, len(symbols))
    return *of_views, unforeseen, lost_foretold, unread


def _shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of each cause, and the loss per turn under each condition, from sums over levels
    (the last axis).
    """
    lost_image, turns_image, lost_text, turns_text, unforeseen, foretold, unread = np.moveaxis(
        sums, -1, 0
    )

    def over(above: Any, below: Any) -> Any:
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

    with_picture = over(lost_image, turns_image)
    with_text = over(lost_text, turns_text)
    perception = np.maximum(0, with_picture - with_text)
    rest = with_picture - perception
    wrong = over(unforeseen, foretold)
    parts = np.array([perception, rest * wrong, rest * (1 - wrong), over(unread, turns_image)])
    causes = over(parts, np.broadcast_to(parts.sum(axis=0), parts.shape))
    return np.moveaxis(np.array([*causes, with_picture, with_text]), 0, -1)
