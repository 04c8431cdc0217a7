"""What is logged of a rollout: pure functions from episodes and scores to named numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from vagen_adapters.ppo.episodes import Episode, TokenSequence
from vagen_adapters.ppo.losses import explained_variance
from vagen_adapters.ppo.packing import Advantages
from vagen_adapters.ppo.trajectories import NOT_SAMPLED, Trajectories


def of_episodes(episodes: Sequence[Episode], kept: Sequence[Episode]) -> dict[str, float]:
    """Counts, and means over the episodes that didn't fail; reward terms are summed over an episode."""
    sound = [each for each in episodes if each.failure is None]
    counts = {"rollout/failed": float(len(episodes) - len(sound)), "rollout/filtered": float(len(sound) - len(kept))}
    if not sound:
        return counts
    turns = [turn for episode in sound for turn in episode.turns]
    terms: dict[str, float] = defaultdict(float)
    for turn in turns:
        for term in turn.rewards:
            terms[f"reward/{term.name}"] += term.value / len(sound)
    return {
        **counts,
        "rollout/success": mean([float(each.success) for each in sound]),
        "rollout/return": mean([each.rewards for each in sound]),
        "rollout/turns": len(turns) / len(sound),
        "rollout/truncated": mean([float(each.truncated) for each in sound]),
        "rollout/reply_tokens": mean([float(len(turn.reply.ids)) for turn in turns]),
        "rollout/format": mean([float(turn.turn.parsed.format_correct) for turn in turns]),
        **terms,
        **_of_turns(sound),
    }


def _of_turns(episodes: Sequence[Episode]) -> dict[str, float]:
    """`turn/…/n`: means over the n-th turns of the episodes that have one."""
    found = {}
    for number in range(max(len(episode.turns) for episode in episodes)):
        turns = [episode.turns[number] for episode in episodes if number < len(episode.turns)]
        found[f"turn/reward/{number}"] = mean([turn.reward for turn in turns])
        found[f"turn/reply_tokens/{number}"] = mean([float(len(turn.reply.ids)) for turn in turns])
        found[f"turn/share/{number}"] = len(turns) / len(episodes)
    return found


def print_samples(
    sequences: Sequence[TokenSequence], episodes: Sequence[Episode], advantages: Tensor, step: int, most: int
) -> None:
    """Print a table of the first `most` turns: the level, the reply, its reward terms and its mean advantage.

    Args:
        sequences: B of them.
        episodes: of each sequence.
        advantages: (B, L).
        step: of the training.
        most: turns.
    """
    from trl.trainer.utils import print_prompt_completions_sample

    prompts: list[str] = []
    replies: list[str] = []
    gains: list[float] = []
    rewards: dict[str, list[float]] = {}
    for row, (sequence, episode) in enumerate(zip(sequences, episodes, strict=True)):
        turn_ids = torch.tensor(sequence.turn_ids)
        for number in sorted(set(sequence.turn_ids) - {NOT_SAMPLED}):
            if len(prompts) == most:
                break
            turn = episode.turns[number]
            prompts.append(f"level {episode.level.seed}, turn {number}")
            replies.append(turn.turn.reply)
            gains.append(float(advantages[row, : len(turn_ids)].cpu()[turn_ids == number].mean()))
            for name in (term.name for term in turn.rewards):
                rewards.setdefault(name, [0.0] * (len(prompts) - 1))
            for name, entries in rewards.items():
                entries.append(math.fsum(term.value for term in turn.rewards if term.name == name))
    print_prompt_completions_sample(prompts, replies, rewards, gains, step)


def of_scores(
    batch: Trajectories, advantages: Advantages, logprobs: Tensor, sampled: Tensor, reference: Tensor | None
) -> dict[str, float]:
    """How far the sampler was from the policy, the policy from its reference and the critic from the returns.

    Args:
        batch: the episodes; `values` only count where `advantages` has targets.
        advantages: before whitening.
        logprobs: (B, L) of the policy.
        sampled: (B, L) of the sampler, whose top-p widens the gap.
        reference: (B, L) of the frozen policy, or None.
    """
    mask, trained = batch.mask, advantages.value_mask
    found = {
        "policy/sampler_gap": float((logprobs - sampled)[mask].abs().mean()),
        "advantage/std": float(advantages.advantages[advantages.mask].std()),
    }
    if reference is not None:
        found["policy/kl_to_reference"] = float((logprobs - reference)[mask].mean())
    if batch.values is not None and bool(trained.any()):
        values, returns = batch.values[trained], advantages.returns[trained]
        found["critic/explained_variance"] = explained_variance(values, returns)
        found["critic/value"] = float(values.mean())
    return found


def mean(numbers: Sequence[float]) -> float:
    """The mean, NaN of nothing."""
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
