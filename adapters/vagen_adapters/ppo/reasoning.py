"""The visual reasoning reward (VAGEN, sections 5.1 and 5.3) in training: for a turn, or for single
sentences.

With one advantage for all tokens of a turn, what a reply says about the world drifts with what its
actions earn: on FrozenLake's proof grounding fell from 0.79 to 0.68 in two rollouts, whatever the
reward for reasoning. So words may be paid for themselves: a sentence's tokens by its own truth, all
others by the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import gymnasium as gym
import torch

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import PPOEpisode
from vagen_adapters.ppo.packing import Advantages
from vagen_adapters.ppo.token_sequences import TokenSequence
from vagen_adapters.ppo.trajectories import NOT_SAMPLED
from vagen_adapters.ppo.turn_scores import Judged
from vagen_envs import Turn
from vagen_rewards import ReasoningReward
from vagen_rewards.credit import FieldWords, kept_out, words_of
from vagen_rewards.scores import PARTS, passes

FIELDS = {"grounding": "observation", "world_modeling": "prediction"}
"""The field of a reply that each part is read from."""


class ReasoningScore:
    """A turn with the terms and metrics of a reward for reasoning.

    A judge that failed costs the episode, as a broken environment does: to pay nothing would teach
    that the words were wrong. Words that the judge didn't understand are paid nothing and logged.

    Args:
        reward: whose `prepare` has been called, unless the first turns may wait for it.
        credit: what the reward is for. `turn`: the turn earns it, with all its tokens (VAGEN).
            `span`: sentences are credited by their own truth, see `credit_words`; scores are
                logged, and no turn earns them.

    Raises:
        TrainingConfigError: sentences are to be credited by a judge that doesn't read them.
    """

    reads_earlier = True
    """`Rollout` gives the earlier turns of the episode as well."""

    def __init__(self, reward: ReasoningReward, credit: Literal["turn", "span"] = "turn") -> None:
        if credit == "span" and not reward.judge.reads:
            raise TrainingConfigError(
                f"reasoning_credit='span' needs a judge that reads claims; {reward.judge.name} "
                "gives verdicts; use rule, llm-structured:MODEL, or reasoning_credit='turn'"
            )
        self.reward = reward
        self.credit = credit

    def __call__(self, turn: Turn, earlier: Sequence[Turn] = ()) -> Turn | Judged:
        """Score a turn after the paid turns of its episode before it."""
        reward = self.reward
        read = reward.read(turn) if self.credit == "span" else None
        paid, scores = reward.paid(turn, earlier, read)
        for part, verdict in scores.by_part():
            if verdict.value is None and not verdict.unread:
                raise TrainingDataError(
                    f"{part} is unscored: {verdict.reason}; fix the judge {reward.judge.name}"
                )
        if read is None:
            return paid
        words = kept_out(turn) if reward.gate and not passes(turn) else words_of(turn, read)
        return Judged(replace(paid, rewards=turn.rewards), words)


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
                f"strategy={core.config.strategy!r} has no <{FIELDS[part]}> to reward; use "
                "grounding_world_modeling, or leave the reward out: --without-reasoning-reward"
            )
    reward.prepare(env.spec.id if env.spec is not None else core.id)
    return reward


def credit_words(
    advantages: Advantages,
    sequences: Sequence[TokenSequence],
    episodes: Sequence[PPOEpisode],
    encoder: ChatEncoder,
) -> tuple[Advantages, dict[str, float]]:
    """The same advantages, but of the words of observations and predictions those of their own
    truth.

    The truths of a part are centred and scaled to variance 1 over the batch's tokens; words of
    which nothing was read have none. All of a reply that a gate keeps out, as those of wrong
    format, counts as false.

    Returns the advantages, (B, L), and for the log the mean truth of each part.
    """
    dense = advantages.advantages
    spoken = []
    for row, (sequence, episode) in enumerate(zip(sequences, episodes, strict=True)):
        spoken += [(row, *of_row) for of_row in _spoken(encoder, sequence, episode)]
    told: dict[str, float] = {}
    for part in PARTS:
        words = torch.zeros_like(advantages.mask)
        read = torch.zeros_like(advantages.mask)
        truths = torch.zeros_like(dense)
        for row, column, begin, field in spoken:
            if field.part == part:
                words[row, column] = True
                for (start, end), truth in field.truths:
                    if start <= begin < end:
                        truths[row, column], read[row, column] = truth, True
        if read.any():
            of_part = truths[read]
            told[f"credit/{part}"] = float(of_part.mean())
            # Where all are alike the difference is 0, and stays it whatever it is divided by.
            truths[read] = (of_part - of_part.mean()) / of_part.std(correction=0).clamp(min=1e-4)
        dense = torch.where(words, truths, dense)
    return replace(advantages, advantages=dense), told


def _spoken(
    encoder: ChatEncoder, sequence: TokenSequence, episode: PPOEpisode
) -> list[tuple[int, int, FieldWords]]:
    """The tokens of a row that are words: the column, where in its reply it begins, and the field
    that it is in.
    """
    found = []
    for turn in sorted(set(sequence.turn_ids) - {NOT_SAMPLED}):
        played = episode.steps[turn]
        if not played.words:
            continue
        column = sequence.turn_ids.index(turn) + played.reply.thoughts
        for place, begin in enumerate(encoder.begins(played.reply.answer), start=column):
            around = [each for each in played.words if each.span[0] <= begin < each.span[1]]
            found += [(place, begin, field) for field in around]
    return found
