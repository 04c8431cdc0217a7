"""The visual reasoning reward (VAGEN, sections 5.1 and 5.3) in training: what a recipe's reward asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import gymnasium as gym

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo.rollout import Score
from vagen_adapters.ppo.span_credit import Judged
from vagen_envs import Turn
from vagen_rewards import ReasoningReward
from vagen_rewards.credit import kept_out, words_of
from vagen_rewards.reward import passes

FIELDS = {"grounding": "observation", "world_modeling": "prediction"}
"""The field of a reply that each part is read from."""


def reasoning_score(reward: ReasoningReward, credit: Literal["turn", "span"] = "turn") -> Score:
    """A turn with the terms and metrics of a reward for reasoning.

    A judge that failed costs the episode, as a broken environment does: to pay nothing would teach that the words were
    wrong. Words that the judge didn't understand are paid nothing and logged.

    Args:
        reward: whose `prepare` has been called, unless the first turns may wait for it.
        credit: what the reward is for. `turn`: the turn earns it, with all its tokens (VAGEN). `span`: sentences are
            credited by their own truth, see `span_credit`; scores are logged, and no turn earns them.

    Raises:
        TrainingConfigError: sentences are to be credited by a judge that doesn't read them.
    """
    if credit == "span" and not reward.judge.reads:
        raise TrainingConfigError(
            f"reasoning_credit='span' needs a judge that reads claims; {reward.judge.name} gives verdicts; use rule, "
            "llm-structured:MODEL, or reasoning_credit='turn'"
        )

    def score(turn: Turn) -> Turn | Judged:
        read = reward.read(turn) if credit == "span" else None
        paid, scores = reward.paid(turn, read)
        for part, verdict in scores.by_part():
            if verdict.value is None and not verdict.unread:
                raise TrainingDataError(f"{part} is unscored: {verdict.reason}; fix the judge {reward.judge.name}")
        if read is None:
            return paid
        words = kept_out(turn) if reward.gate and not passes(turn) else words_of(turn, read)
        return Judged(dataclasses.replace(paid, rewards=turn.rewards), words)

    return score


def make_reward(options: Mapping[str, Any], env: gym.Env[Any, Any]) -> ReasoningReward:
    """The reward that a recipe's table or a command's options say, for this environment.

    Raises:
        TrainingConfigError: replies have no field that a part of the reward could be read from.
        JudgeConfigError: an option isn't known.
    """
    reward = ReasoningReward.from_options(options).of(env)
    core: Any = env.unwrapped
    for part, beta in reward.betas.items():
        if beta and f"<{FIELDS[part]}>" not in core.grammar.template():
            raise TrainingConfigError(
                f"strategy={core.config.strategy!r} has no <{FIELDS[part]}> to reward; use grounding_world_modeling, "
                "or leave the reward out: --without-reasoning-reward"
            )
    reward.prepare(env.spec.id if env.spec is not None else core.id)
    return reward
