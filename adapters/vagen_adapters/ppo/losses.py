"""What PPO and its kin minimise, as pure functions over (B, L) tensors; means are taken with
`token_weights`.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from vagen_adapters.ppo.trajectories import NOT_SAMPLED

Level = Literal["token", "turn", "sequence"]
"""What counts alike in a mean: tokens, turns, or whole rows."""
MOST = 20.0
"""Bound of |log π_θ - log π_old|: e^20 is 5e8. An infinite one would make the gradient NaN where A
is 0 or clipped.
"""
SAMPLER_CAP = 2.0
"""Largest truncated importance weight (Yao et al. 2025)."""


def token_weights(mask: Tensor, turn_ids: Tensor, level: Level) -> Tensor:
    """(B, L) The share of each token in a mean over tokens, turns or rows, times how many of those
    there are.

    `(loss * weights).sum()` over parts of a batch, divided by `weights.sum()` over all of it, is
    the mean whatever the parts. Weights of one turn, or of one row, sum to 1.
    """
    weights = mask.to(torch.float32)
    if level == "token":
        return weights
    if level == "sequence":
        return weights / weights.sum(1, keepdim=True).clamp(min=1)
    return weights / _sum_over_turns(weights, turn_ids).clamp(min=1)


def probability_ratios(
    logprobs: Tensor, old_logprobs: Tensor, turn_ids: Tensor, level: Level
) -> Tensor:
    """(B, L) u = π_θ / π_old of each token (VAGEN), or the geometric mean over its turn (Turn-PPO)
    or its row (GSPO).

    Tokens that were not sampled have 1.
    """
    sampled = turn_ids != NOT_SAMPLED
    log_ratios = torch.where(sampled, _log_ratios(logprobs, old_logprobs), 0)
    if level == "turn":
        tokens = _sum_over_turns(sampled.to(log_ratios.dtype), turn_ids)
        log_ratios = torch.where(
            sampled, _sum_over_turns(log_ratios, turn_ids) / tokens.clamp(min=1), 0
        )
    elif level == "sequence":
        log_ratios = torch.where(
            sampled, log_ratios.sum(1, keepdim=True) / sampled.sum(1, keepdim=True).clamp(min=1), 0
        )
    return log_ratios.exp()


def policy_losses(
    ratios: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> Tensor:
    """(B, L) The clipped surrogate, -min(u·A, clip(u, 1 - clip_low, 1 + clip_high)·A). VAGEN,
    J^PPO.

    With `dual_clip` c > 1 it is at least c·A where A < 0, so that a token that has become much
    likelier doesn't pull without bound (Ye et al. 2020).
    """
    gains = torch.minimum(
        ratios * advantages, ratios.clamp(1 - clip_low, 1 + clip_high) * advantages
    )
    if dual_clip is not None:
        gains = torch.where(advantages < 0, torch.maximum(gains, dual_clip * advantages), gains)
    return -gains


def cispo_losses(
    logprobs: Tensor, ratios: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> Tensor:
    """(B, L) -sg(clip(u, 1 - clip_low, 1 + clip_high))·A·log π: every token keeps a gradient, of at
    most that.

    Source: MiniMax-M1, eq. 4 and 5 (there without a lower bound: `clip_low` 1). Where A is 0 an
    infinite log π is 0.
    """
    losses = -ratios.clamp(1 - clip_low, 1 + clip_high).detach() * advantages * logprobs
    return losses.masked_fill((advantages == 0) & logprobs.isinf(), 0)


def sampler_gaps(logprobs: Tensor, log_shares: Tensor, sampled: Tensor) -> Tensor:
    """(B, L) By how much the sampler's log-probabilities are off the trainer's, both after top-p.

    The trainer's `logprobs` are before it; `log_shares` are the logs of what top-p keeps (see
    `scoring.Nucleus`).
    """
    return (logprobs - log_shares - sampled).abs()


def sampler_weights(
    logprobs: Tensor,
    sampled: Tensor,
    turn_ids: Tensor,
    level: Literal["token", "sequence"],
    cap: float = SAMPLER_CAP,
) -> Tensor:
    """(B, L) Truncated importance weights min(π_old / q, cap), 1 where nothing was sampled.

    The policy is scored by the trainer (π_old), and was played by a sampler (q): in another
    arithmetic, with older weights, or with top-p, after which q is larger than π_old for all that
    it kept. Of each token (Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You
    Off-Policy RL Training"), or of all tokens of a row together.
    """
    told = turn_ids != NOT_SAMPLED
    log_ratios = torch.where(told, _log_ratios(logprobs, sampled), 0)
    if level == "sequence":
        log_ratios = torch.where(told, log_ratios.sum(1, keepdim=True), 0)
    return log_ratios.exp().clamp(max=cap)


def overlong_penalty(tokens: int, limit: int, share: float) -> float:
    """DAPO's soft punishment of long replies, eq. 13: 0 up to the last `share` of `limit`, then
    linear down to -1.
    """
    room = share * limit
    return 0.0 if tokens <= limit - room else (limit - room - tokens) / room


def value_losses(values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """(B, L + 1) Squared errors; with `clip`, the larger of those of V and of V kept within `clip`
    of its old self.
    """
    errors = (values - returns).square()
    if clip is None:
        return errors
    near = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum(errors, (near - returns).square())


def value_weights(value_mask: Tensor, turn_ids: Tensor, first: float) -> Tensor:
    """(B, L + 1) The share of each value in the mean of the critic's errors: `first` for the value
    before a turn's first token, 1 for others with a target.

    Verlog weighs that token more, since the state is known there and none of the reply.
    """
    weights = value_mask.to(torch.float32)
    before = torch.nn.functional.pad(turn_ids[:, :-1], (1, 0), value=NOT_SAMPLED)
    starts = (turn_ids != NOT_SAMPLED) & (turn_ids != before)
    weights[:, :-1][starts] *= first
    return weights


def kl_estimates(
    logprobs: Tensor, reference_logprobs: Tensor, estimator: Literal["k1", "k3"]
) -> Tensor:
    """(B, L) KL[π‖π_ref] from the sampled tokens alone (Schulman, "Approximating KL Divergence").

    k1 = log π - log π_ref is unbiased; k3 = r - 1 - log r with r = π_ref/π is never negative and
    varies less.
    """
    log_ratios = _log_ratios(logprobs, reference_logprobs)
    return log_ratios if estimator == "k1" else (-log_ratios).exp() - 1 + log_ratios


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var[returns - values] / Var[returns] over (N,) entries; 1 is a perfect critic, NaN if
    returns don't vary.
    """
    if len(returns) < 2 or not (spread := returns.var()) > 0:
        return float("nan")
    return float(1 - (returns - values).var() / spread)


def _log_ratios(logprobs: Tensor, others: Tensor) -> Tensor:
    """(B, L) Differences within ±`MOST`; 0 where both are infinite."""
    return (logprobs - others).nan_to_num().clamp(-MOST, MOST)


def _sum_over_turns(entries: Tensor, turn_ids: Tensor) -> Tensor:
    """(B, L) For each token the sum over its turn; tokens outside turns share one that nobody
    reads.
    """
    slots = int(turn_ids.max()) + 2
    sums = entries.new_zeros(len(entries), slots).scatter_add(1, turn_ids + 1, entries)
    return sums.gather(1, turn_ids + 1)
