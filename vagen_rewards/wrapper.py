"""The visual reasoning reward as a Gymnasium wrapper (VAGEN, sections 5.1 and 5.3)."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from vagen_envs.core import RewardTerm, Turn
from vagen_envs.errors import ConfigError
from vagen_rewards.hacking import RepetitionPenalty
from vagen_rewards.rules import RuleJudge
from vagen_rewards.scores import Judge, Tally, TurnScores, score_turn


class VisualReasoningReward(gym.Wrapper[dict[str, Any], str, dict[str, Any], str], RecordConstructorArgs):
    """Adds the terms `grounding` and `world_modeling` to the reward and to `info["turn"]`.

    r = β_g · score(observation, state before) + β_w · score(prediction, state after). The scores with
    their reasons stand in `info["scores"]` and, as values, in the turn's metrics. What is unscored adds
    nothing and is counted in `tally`.

    Args:
        env: an environment of this package.
        judge: `RuleJudge()` by default.
        beta_grounding, beta_world_modeling: β_g and β_w; 0.5 each in section 5.3.
        penalty: of repeated wrong sentences (appendix D.1.2), adds the term `repetition`. None by default.
        max_unscored: share of unscored statements above which a step raises TooManyUnscoredError,
            once 20 statements have been seen.
    """

    def __init__(
        self,
        env: gym.Env[dict[str, Any], str],
        judge: Judge | None = None,
        beta_grounding: float = 0.5,
        beta_world_modeling: float = 0.5,
        penalty: RepetitionPenalty | None = None,
        max_unscored: float = 0.5,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            judge=judge,
            beta_grounding=beta_grounding,
            beta_world_modeling=beta_world_modeling,
            penalty=penalty,
            max_unscored=max_unscored,
        )
        gym.Wrapper.__init__(self, env)
        if not 0.0 <= max_unscored <= 1.0:
            raise ConfigError(f"max_unscored {max_unscored} is a share; give a number from 0 to 1")
        self.judge = RuleJudge() if judge is None else judge
        self.betas = {"grounding": float(beta_grounding), "world_modeling": float(beta_world_modeling)}
        self.penalty = penalty
        self.tally = Tally(max_unscored, at_least=20)

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Play a turn and score what the reply says."""
        observation, _, terminated, truncated, info = self.env.step(action)
        turn: Turn = info["turn"]
        scores = score_turn(turn, self.judge)
        self.tally.add_all(score for _, score in scores.by_part())
        self.tally.check()
        turn = with_scores(turn, scores, self.betas, self.penalty)
        info = {**info, "turn": turn, "scores": scores}
        return observation, turn.reward, terminated, truncated, info


def with_scores(
    turn: Turn, scores: TurnScores, betas: dict[str, float], penalty: RepetitionPenalty | None = None
) -> Turn:
    """The turn with the scores' reward terms and metrics; earlier ones of these names are replaced."""
    said = {"grounding": turn.parsed.observation, "world_modeling": turn.parsed.prediction}
    terms = []
    metrics: dict[str, bool | float | str] = {}
    fine = 0.0
    for part, score in scores.by_part():
        metrics[f"{part}_reason"] = score.reason
        if score.value is None:
            metrics[f"{part}_unscored"] = True
            continue
        metrics[part] = score.value
        terms.append(RewardTerm(part, betas[part] * score.value))
        if penalty is not None:
            fine += penalty.fine(said[part] or "", score.value)
    if fine:
        terms.append(RewardTerm("repetition", fine))
    ours = {"repetition", *betas}
    own = {f"{part}{suffix}" for part in betas for suffix in ("", "_reason", "_unscored")}
    return dataclasses.replace(
        turn,
        rewards=(*(term for term in turn.rewards if term.name not in ours), *terms),
        metrics={**{name: value for name, value in turn.metrics.items() if name not in own}, **metrics},
    )
