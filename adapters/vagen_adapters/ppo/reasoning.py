"""The visual reasoning reward (VAGEN, sections 5.1 and 5.3) in training: what a recipe's reward asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo.rollout import Score
from vagen_envs import RewardTerm, Turn
from vagen_rewards.rules import RuleJudge
from vagen_rewards.scores import PARTS, Judge, score_turn

FIELDS = {"grounding": "observation", "world_modeling": "prediction"}
"""The field of a reply that each part is read from."""


def reasoning_score(weights: Mapping[str, float], judge: Judge | None = None) -> Score:
    """Reward terms `grounding` and `world_modeling` of a turn: weight times score.

    A judge that gave no verdict costs the episode, as a broken environment does: to pay nothing would teach that
    the words were wrong.

    Args:
        weights: β of each part, 0.5 and 0.5 in section 5.3.
        judge: `RuleJudge()` by default.

    Raises:
        TrainingConfigError: a part is unknown.
    """
    for part in weights:
        if part not in PARTS:
            raise TrainingConfigError(f"unknown part {part!r} of the reasoning reward; there are {', '.join(PARTS)}")
    asked = judge or RuleJudge()

    def score(turn: Turn) -> Sequence[RewardTerm]:
        terms = []
        for part, verdict in score_turn(turn, asked).by_part():
            if part not in weights:
                continue
            if verdict.value is None:
                raise TrainingDataError(f"{part} is unscored: {verdict.reason}; mend the judge {asked.name}")
            terms.append(RewardTerm(part, weights[part] * verdict.value))
        return terms

    return score


def check_fields(env: gym.Env[Any, Any], weights: Mapping[str, float]) -> None:
    """Raise TrainingConfigError if replies have no field that a part of the reward could be read from."""
    core: Any = env.unwrapped
    for part in weights:
        if f"<{FIELDS[part]}>" not in core.grammar.template():
            raise TrainingConfigError(
                f"strategy={core.config.strategy!r} has no <{FIELDS[part]}> to reward; use grounding_world_modeling, "
                "or leave the reward out: --without-reasoning-reward"
            )
