"""The scorers of `inspect_env`: success, return, and what the statements of replies are worth."""

from __future__ import annotations

import math
from typing import Any, Literal

from vagen_adapters.episode_metrics import reward_terms
from vagen_adapters.errors import not_importable
from vagen_envs.core import Turn
from vagen_rewards import ReasoningReward
from vagen_rewards.bonus import OURS
from vagen_rewards.scores import PARTS

try:
    from inspect_ai.scorer import (
        Metric,
        SampleScore,
        Score,
        Scorer,
        Target,
        mean,
        metric,
        scorer,
        stderr,
    )
    from inspect_ai.solver import TaskState
except ImportError as error:
    raise not_importable(
        "vagen_adapters.inspect_scorers", "inspect", "inspect_ai", error
    ) from error

TURNS, ENDED = "turns", "ended"
"""Keys of an episode in a sample's store."""

BY_LEVEL = [mean(), stderr(cluster="level")]
"""Seeds that draw the same level are one cluster."""


@metric
def judged() -> Metric:
    """Number of samples with a judged statement, and over these the mean and its standard error.

    Without any it is the number alone: inspect would show the mean of no scores as `nan`.
    """
    by_level = {"mean": BY_LEVEL[0], "stderr": BY_LEVEL[1]}

    def value(scores: list[SampleScore]) -> dict[str, float]:
        found: dict[str, float] = {"samples": len(scores)}
        if scores:
            found.update({name: each(scores) for name, each in by_level.items()})
        return found

    return value


@scorer(metrics=BY_LEVEL)
def success() -> Scorer:
    """Score 1 if the level was solved, else 0. Unscored if the environment broke."""

    async def score(state: TaskState, target: Target) -> Score:
        turns, ended = played(state)
        if not ended:
            return unplayed(turns)
        return Score(
            value=float(ended == "solved"), explanation=f"{ended} after {len(turns)} turns"
        )

    return score


@scorer(metrics=BY_LEVEL)
def episode_return() -> Scorer:
    """Score the sum of all reward terms. Unscored if the environment broke."""

    async def score(state: TaskState, target: Target) -> Score:
        turns, ended = played(state)
        if not ended:
            return unplayed(turns)
        return Score(
            value=math.fsum(turn.reward for turn in turns), metadata={"terms": reward_terms(turns)}
        )

    return score


@scorer(metrics={part: [judged()] for part in PARTS})
def reasoning(
    judge: str = "rule",
    gate: bool = True,
    weighting: Literal["plain", "contrast"] = "plain",
    penalty: str = "",
    options: dict[str, Any] | None = None,
) -> Scorer:
    """Compare the statements of the replies with the true states: `grounding` and `world_modeling`.

    Each is the mean over the statements that were judged, or unscored if there are none. The
    metadata contains the terms that `ReasoningReward` pays with these options.

    Args:
        judge: `rule`, `llm:MODEL` or another that `vagen_rewards.make_judge` knows.
        gate: judge only well-formed turns in which an action was executed.
        weighting: `plain`: the judge's own score, 0 to 1; `contrast`: claims are paid in contrast
            to peer states.
        penalty: of frequent sentences with a low score: `paper`, or none.
        options: of the environment, which its states are drawn with where information is asked for.
    """
    reward = ReasoningReward(
        judge,
        gate=gate,
        weighting=weighting,
        penalty=penalty or None,  # type: ignore[arg-type]
        env_options=options,
    )

    async def score(state: TaskState, target: Target) -> Score:
        turns, ended = played(state)
        if not ended:
            return unplayed(turns)
        found: dict[str, list[float | None]] = {part: [] for part in PARTS}
        last = "no reply contains an observation or a prediction"
        owed: dict[str, float] = {}
        for paid, scores in await reward.paid_all(turns):
            for term in paid.rewards:
                if term.name in OURS:
                    owed[term.name] = owed.get(term.name, 0.0) + term.value
            for part, verdict in scores.by_part():
                found[part].append(verdict.value)
                if not verdict.scored:
                    last = verdict.reason
        known: dict[str, list[float]] = {}
        for name, values in found.items():
            known[name] = [value for value in values if value is not None]
        if not any(known.values()):
            reason = "grader_failed" if any(found.values()) else "no_response"
            return Score.unscored(reason=reason, explanation=last)
        means = {
            part: math.fsum(values) / len(values) if values else math.nan
            for part, values in known.items()
        }
        counts = {
            "statements": {part: len(values) for part, values in found.items()},
            "judged": {part: len(values) for part, values in known.items()},
        }
        return Score(value=means, metadata={**reward.describe(), "owed": owed, **counts})

    return score


def played(state: TaskState) -> tuple[list[Turn], str]:
    """Return a sample's turns and its end; the end is empty if the episode was interrupted."""
    return [Turn.from_json(turn) for turn in state.store.get(TURNS, [])], state.store.get(ENDED, "")


def unplayed(turns: list[Turn]) -> Score:
    """Score an interrupted episode, which inspect passes to scorers with `--score-on-error`
    only.
    """
    return Score.unscored(
        reason="scoring_failed", explanation=f"interrupted after {len(turns)} turns"
    )
