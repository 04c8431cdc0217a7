"""From the actions that turns lost to the shares of causes, with intervals over levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vagen_benchmarks.diagnosis.losses import CONDITIONS, Condition, TurnLoss, turn_losses
from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.results.stats import rate
from vagen_benchmarks.runs.protocol import agent_options
from vagen_benchmarks.runs.run_folder import RunFolder

CAUSES = ("perception", "prediction", "planning", "format")
DRAWS = 1000
"""Of the bootstrap over levels."""

LevelPlay = tuple[Sequence[TurnLoss], bool]
"""The turns of a level under one condition, and whether it was solved."""
Column = NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """A figure with its 95 % interval over levels.

    Causes and losses: the 2.5 % and 97.5 % points of a bootstrap (Efron 1979). Rates: as in `vagen bench`'s tables.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Diagnosis:
    """What an agent loses, and why.

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
    causes: Mapping[str, Share]
    lost: Mapping[Condition, Share]
    success: Mapping[Condition, Share]
    saw: Share
    foresaw: Share
    unjudged: float
    levels: int

    @property
    def main_cause(self) -> str | None:
        """The cause with the largest share; `None` if nothing is lost."""
        cause = max(CAUSES, key=lambda name: self.causes[name].value)
        return cause if self.causes[cause].value > 0 else None

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary."""
        return {**asdict(self), "main_cause": self.main_cause}


def diagnose(run: RunFolder, *, progress: Callable[[], None] = lambda: None) -> list[Diagnosis]:
    """Diagnose each agent of a run on each of its environments.

    Levels that weren't played under both conditions are left out.

    Args:
        run: of `diagnosis_tasks`.
        progress: called after each episode.

    Raises:
        BenchError: no level was played under both conditions.
    """
    found = []
    episodes = [episode for episode in run.episodes() if episode.failure is None]
    for agent in run.protocol.agents:
        for env_id in dict.fromkeys(task.env_id for task in run.protocol.tasks):
            levels: dict[int, dict[Condition, LevelPlay]] = {}
            for task in (each for each in run.protocol.tasks if each.env_id == env_id):
                view = task.options["observation"]
                as_text = replace(task, options={**task.options, "observation": "text"})
                with closing(as_text.make(agent_options(agent))) as env:
                    for episode in episodes:
                        if (episode.agent, episode.task) == (agent["name"], task.label):
                            losses = turn_losses(env.unwrapped, episode)  # type: ignore[arg-type]
                            levels.setdefault(episode.seed, {})[view] = losses, episode.success
                            progress()
            if complete := [level for level in levels.values() if len(level) == len(CONDITIONS)]:
                found.append(attribute(str(agent["name"]), env_id, complete))
    if not found:
        raise BenchError(f"no level was played under all conditions; repeat the command with --out {run.path} to go on")
    return found


def attribute(agent: str, env_id: str, levels: Sequence[Mapping[Condition, LevelPlay]]) -> Diagnosis:
    """Attribute the actions lost in these levels to causes.

    A turn loses R on average with the picture, R' with the true symbols. R - R' (0 if negative) is due to perception.
    Of the rest, prediction has the share lost in turns with the true symbols whose outcome was predicted wrongly, and
    planning what remains. Format has what was lost because no action could be read.
    """
    sums = [_sums(level) for level in levels]
    columns = {name: np.array([each[name] for each in sums], float) for name in sums[0]}
    # A fixed generator: the same levels give the same intervals.
    draws = np.random.Generator(np.random.PCG64(0)).integers(len(levels), size=(DRAWS, len(levels)))
    value = _figures({name: column.sum(keepdims=True) for name, column in columns.items()})
    resampled = _figures({name: column[draws].sum(axis=1) for name, column in columns.items()})
    shares = {
        name: Share(float(figure[0]), *map(float, np.percentile(resampled[name], (2.5, 97.5))))
        for name, figure in value.items()
    }
    said = columns["said"].sum()
    return Diagnosis(
        agent,
        env_id,
        {cause: shares[cause] for cause in CAUSES},
        {condition: shares[f"lost {condition}"] for condition in CONDITIONS},
        {condition: _rate(columns[f"solved {condition}"], columns["levels"]) for condition in CONDITIONS},
        _rate(columns["true saw"], columns["judged saw"]),
        _rate(columns["true foresaw"], columns["judged foresaw"]),
        unjudged=float(1 - (columns["judged saw"] + columns["judged foresaw"]).sum() / said) if said else 0.0,
        levels=len(levels),
    )


def _rate(true: Column, trials: Column) -> Share:
    """Successes over trials; NaN between 0 and 1 without trials."""
    levels = [(float(count), int(of)) for count, of in zip(true, trials, strict=True) if of]
    if not levels:
        return Share(math.nan, 0.0, 1.0)
    found = rate(levels)
    return Share(found.value, found.low, found.high)


def _sums(level: Mapping[Condition, LevelPlay]) -> dict[str, float]:
    """What a level adds to each column."""
    found: dict[str, float] = {"levels": 1}
    for condition in CONDITIONS:
        turns, solved = level[condition]
        found[f"lost {condition}"] = sum(turn.lost for turn in turns)
        found[f"turns {condition}"] = len(turns)
        found[f"solved {condition}"] = solved
    pictures, symbols = level["image"][0], level["text"][0]
    found["unread"] = sum(turn.unread for turn in pictures)
    found["lost unforeseen"] = sum(turn.lost for turn in symbols if turn.foresaw is False)
    found["lost foretold"] = sum(turn.lost for turn in symbols if turn.foresaw is not None)
    verdicts = {
        "saw": [turn.saw for turn in pictures],
        "foresaw": [turn.foresaw for turn in symbols],
    }
    for name, values in verdicts.items():
        found[f"true {name}"] = values.count(True)
        found[f"judged {name}"] = len(values) - values.count(None)
    found["said"] = len(pictures) + len(symbols)
    return found


def _figures(sums: Mapping[str, Column]) -> dict[str, Column]:
    """The share of each cause, and the loss per turn under each condition."""

    def over(above: Column, below: Column) -> Column:
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

    lost = {name: over(sums[f"lost {name}"], sums[f"turns {name}"]) for name in CONDITIONS}
    perception = np.maximum(0, lost["image"] - lost["text"])
    rest = lost["image"] - perception
    unforeseen = over(sums["lost unforeseen"], sums["lost foretold"])
    unread = over(sums["unread"], sums["turns image"])
    parts = dict(zip(CAUSES, (perception, rest * unforeseen, rest * (1 - unforeseen), unread), strict=True))
    total = sum(parts.values(), np.zeros_like(perception))
    shares = {cause: over(part, total) for cause, part in parts.items()}
    return shares | {f"lost {name}": loss for name, loss in lost.items()}
