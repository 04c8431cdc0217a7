"""Experience: the episodes of a rollout as tensors that the updates learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from trl.trainer.utils import pad

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo import losses
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.continuations import state_key
from vagen_adapters.ppo.episodes import PlayedSummary, PPOEpisode
from vagen_adapters.ppo.generation import TILE
from vagen_adapters.ppo.packing import Advantages
from vagen_adapters.ppo.token_sequences import TokenSequence, training_sequences
from vagen_adapters.ppo.trajectories import NOT_SAMPLED, Trajectories


@dataclass(frozen=True, eq=False)
class Sequences:
    """The B token sequences of a rollout, padded on the right to L, with the episode of each row
    and its number, (B,).

    `turn_ids`, (B, L), are the turns of sampled tokens, -1 elsewhere; `sampled_logprobs`, (B, L),
    the sampler's.
    """

    rows: list[TokenSequence]
    episodes: list[PPOEpisode]
    episode_ids: Tensor
    turn_ids: Tensor
    sampled_logprobs: Tensor


@dataclass(frozen=True, eq=False)
class Experience:
    """The inputs of a rollout's updates, which stay constant; (B, L), and (B, L + 1) for values.

    `old_logprobs` is None if the rollout has one update, whose own log-probabilities are the old
    ones.
    """

    sequences: Sequences
    old_logprobs: Tensor | None
    reference_logprobs: Tensor | None
    old_values: Tensor
    advantages: Advantages
    sampler_weights: Tensor | None = None


def sequences_of(
    episodes: Sequence[PPOEpisode],
    context: ContextPolicy,
    device: torch.device | str,
    *,
    with_end: bool,
) -> Sequences:
    """The sequences of episodes; see `training_sequences`."""
    laid_out = [training_sequences(episode, context, with_end=with_end) for episode in episodes]
    rows: list[TokenSequence] = []
    owners: list[int] = []
    for number, of_episode in enumerate(laid_out):
        rows += of_episode
        owners += [number] * len(of_episode)
    turn_ids = [torch.tensor(row.turn_ids) for row in rows]
    logprobs = [torch.tensor(row.logprobs) for row in rows]
    return Sequences(
        rows,
        [episodes[owner] for owner in owners],
        torch.tensor(owners, device=device),
        pad(turn_ids, NOT_SAMPLED, pad_to_multiple_of=TILE).to(device),
        pad(logprobs, pad_to_multiple_of=TILE).to(device),
    )


def trajectories_of(
    sequences: Sequences,
    args: MultiTurnPPOConfig,
    values: Tensor,
    kl_rewards: Tensor | None = None,
    state_values: Sequence[Sequence[float]] = (),
) -> Trajectories:
    """The batch that advantage estimators take.

    `values` are the critic's, (B, L + 1); `kl_rewards` (B, L); `state_values` the mean return of
    the Monte Carlo continuations from each turn of each episode, if there are any.
    """
    device = values.device
    turns = int(sequences.turn_ids.max()) + 1
    rewards = torch.zeros(len(sequences.rows), turns, device=device)
    states = torch.zeros_like(rewards, dtype=torch.int64)
    numbers: dict[Any, int] = {}
    turn_values = torch.zeros_like(rewards)
    seams = torch.zeros_like(rewards, dtype=torch.bool)
    scales = {task.name: task.environment.reward_scale for task in args.tasks}
    owners = sequences.episode_ids.tolist()
    for row, (sequence, episode) in enumerate(zip(sequences.rows, sequences.episodes, strict=True)):
        scale = scales[episode.level.environment]
        steps = episode.steps
        for turn in set(sequence.turn_ids) - {NOT_SAMPLED}:
            played = steps[turn]
            if isinstance(played, PlayedSummary):
                seams[row, turn] = True
                continue
            penalty = losses.overlong_penalty(
                len(played.reply.answer), args.max_tokens, args.overlong_share
            )
            rewards[row, turn] = (played.reward + penalty) * scale
            if args.advantage == "gigpo":
                key = state_key(episode.level, played.turn)
                states[row, turn] = numbers.setdefault(key, len(numbers))
            if state_values:
                turn_values[row, turn] = state_values[owners[row]][turn] * scale
    ends = [len(sequence.prompt.ids) for sequence in sequences.rows]
    last_values = values.gather(1, torch.tensor(ends, device=device)[:, None]).squeeze(1)
    with_end = [sequence.ends_with_observation for sequence in sequences.rows]
    terminated = [episode.terminated for episode in sequences.episodes]
    truncated = [episode.truncated for episode in sequences.episodes]
    groups = [episode.level.group for episode in sequences.episodes]
    return Trajectories(
        turn_ids=sequences.turn_ids,
        turn_rewards=rewards,
        terminated=torch.tensor(terminated, device=device),
        truncated=torch.tensor(truncated, device=device),
        values=values,
        kl_rewards=kl_rewards,
        bootstrap_values=last_values * torch.tensor(with_end, device=device),
        episode_ids=sequences.episode_ids,
        group_ids=torch.tensor(groups, device=device),
        turn_states=states if args.advantage == "gigpo" else None,
        turn_values=turn_values if state_values else None,
        seams=seams if seams.any() else None,
    )


def sampler_correction(
    sequences: Sequences, logprobs: Tensor | None, level: Literal["none", "token", "sequence"]
) -> tuple[Tensor | None, dict[str, float]]:
    """(B, L) Truncated importance weights of the trainer's policy against the sampler's, and
    figures of them.
    """
    if level == "none" or logprobs is None:
        return None, {}
    weights = losses.sampler_weights(
        logprobs, sequences.sampled_logprobs, sequences.turn_ids, level
    )
    of_tokens = weights[sequences.turn_ids != NOT_SAMPLED]
    capped = (of_tokens >= losses.SAMPLER_CAP).float()
    return weights, {
        "correction/mean": float(of_tokens.mean()),
        "correction/capped": float(capped.mean()),
    }


def shortest_first(sequences: Sequences, rows: Tensor) -> Tensor:
    """`rows` ordered by length, so that those that go through the model together need little
    padding.
    """
    lengths = torch.tensor([len(sequences.rows[row].prompt.ids) for row in rows.tolist()])
    return rows[lengths.argsort(stable=True)]


def policy_loss(
    experience: Experience,
    args: MultiTurnPPOConfig,
    rows: Tensor,
    weights: Tensor,
    found: dict[str, Tensor],
) -> tuple[Tensor, dict[str, Tensor]]:
    """The policy's loss on R of the rows, and its terms.

    `weights`, (R, L), are those of tokens in the mean over the mini-batch. `found` has the present
    policy's `logprobs` and `entropies`, (R, W), where W ≤ L is the width of the longest row.
    """
    logprobs = found["logprobs"]
    width = logprobs.shape[1]
    weights = weights[:, :width]
    turn_ids = experience.sequences.turn_ids[rows, :width]
    trained = experience.advantages.mask[rows, :width]
    if experience.old_logprobs is None:
        old = logprobs.detach()
    else:
        old = experience.old_logprobs[rows, :width]
    of_turns = turn_ids
    if not args.masks_observations:
        # Vanilla PPO's observations are in no turn, and count as sampled.
        of_turns = torch.where(trained, turn_ids.clamp(min=0), NOT_SAMPLED)
    ratios = losses.probability_ratios(logprobs, old, of_turns, args.ratio_level)
    advantages = experience.advantages.advantages[rows, :width]
    if args.policy_loss == "cispo":
        policy = losses.cispo_losses(logprobs, ratios, advantages, args.clip_low, args.clip_high)
    else:
        policy = losses.policy_losses(
            ratios, advantages, args.clip_low, args.clip_high, args.dual_clip
        )
    if experience.sampler_weights is not None:
        policy = policy * experience.sampler_weights[rows, :width]
    clipped = (ratios < 1 - args.clip_low) | (ratios > 1 + args.clip_high)
    terms = {
        "policy/loss": (policy * weights).sum(),
        "policy/entropy": (found["entropies"] * weights).sum(),
        "policy/clip_fraction": (clipped * weights).sum(),
        "policy/kl_to_old": (torch.where(trained, old - logprobs, 0) * weights).sum(),
    }
    if experience.old_logprobs is None:
        sampled = experience.sequences.sampled_logprobs[rows, :width]
        gaps = losses.sampler_gaps(old, found["log_shares"], sampled)
        terms["policy/sampler_gap"] = (torch.where(trained, gaps, 0) * weights).sum()
    loss = terms["policy/loss"] - args.entropy_coef * terms["policy/entropy"]
    if args.kl_loss_coef and experience.reference_logprobs is not None:
        kl = losses.kl_estimates(logprobs, experience.reference_logprobs[rows, :width], "k3")
        terms["policy/kl_loss"] = (torch.where(trained, kl, 0) * weights).sum()
        loss = loss + args.kl_loss_coef * terms["policy/kl_loss"]
    return loss, terms
