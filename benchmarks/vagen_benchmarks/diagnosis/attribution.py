"""From the actions that turns lost to the shares of causes, with intervals over levels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vagen_benchmarks.diagnosis.playing import CONDITIONS, Condition, TurnLoss
from vagen_benchmarks.results.stats import rate

CAUSES = ("sight", "prediction", "planning", "format")
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
        failures: how often a model gave no reply, by kind and message. Their levels are left out.
        stopped: why playing stopped early, or empty.
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
    failures: Mapping[tuple[str, str], int] = field(default_factory=Counter)
    stopped: str = ""

    @property
    def main_cause(self) -> str | None:
        """The cause with the largest share; `None` if nothing is lost."""
        cause = max(CAUSES, key=lambda name: self.causes[name].value)
        return cause if self.causes[cause].value > 0 else None

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary."""
        failures = [{"kind": kind, "message": text, "count": count} for (kind, text), count in self.failures.items()]
        return {**asdict(self), "failures": failures, "main_cause": self.main_cause}


def attribute(agent: str, env_id: str, levels: Sequence[Mapping[Condition, LevelPlay]]) -> Diagnosis:
    """Attribute the actions lost in these levels to causes.

    With the picture a turn loses R on average, with the true symbols R'. R - R' (0 if negative) is due to sight. Of the
    rest, prediction has the share lost in turns with the true symbols whose outcome was predicted wrongly, and planning
    what remains. Format has what was lost because no action could be read.
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
    pictures, symbols = level["picture"][0], level["truth"][0]
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
    sight = np.maximum(0, lost["picture"] - lost["truth"])
    rest = lost["picture"] - sight
    unforeseen = over(sums["lost unforeseen"], sums["lost foretold"])
    unread = over(sums["unread"], sums["turns picture"])
    parts = dict(zip(CAUSES, (sight, rest * unforeseen, rest * (1 - unforeseen), unread), strict=True))
    total = sum(parts.values(), np.zeros_like(sight))
    shares = {cause: over(part, total) for cause, part in parts.items()}
    return shares | {f"lost {name}": loss for name, loss in lost.items()}
