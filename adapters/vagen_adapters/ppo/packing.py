"""The sampled tokens of a batch laid end to end, and back: what the advantage estimators compute
on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo.trajectories import NOT_SAMPLED, Trajectories


@dataclass(frozen=True, eq=False)
class Advantages:
    """What the policy and the critic are trained on. Constants: no gradient flows through them.

    Attributes:
        advantages: (B, L). 0 where `mask` is False.
        mask: (B, L) bool. The tokens that the policy is trained on.
        returns: (B, L + 1). The critic's targets, laid out as `Trajectories.values`; 0 where it has
            none.
        value_mask: (B, L + 1) bool. The positions where the critic has a target.
    """

    advantages: Tensor
    mask: Tensor
    returns: Tensor
    value_mask: Tensor

    def whitened(self, eps: float = 1e-8) -> Advantages:
        """With mean 0 and variance 1 over `mask`; a single token has no spread and keeps its
        advantage.
        """
        sampled = self.advantages[self.mask]
        if len(sampled) < 2:
            return self
        whitened = (sampled - sampled.mean()) * torch.rsqrt(sampled.var() + eps)
        return replace(
            self, advantages=torch.zeros_like(self.advantages).masked_scatter(self.mask, whitened)
        )


class PackedTokens:
    """The N sampled tokens of a batch and their M turns, end to end in the order they were sampled.

    Attributes of shape (N,): values, next_values (of the following token; past the end of an
    episode its bootstrap value or 0), kl_rewards, episode, turn_of_token, starts_turn, ends_turn,
    ends_episode. Attributes of shape (M,): turn_ends (index of the last token), turn_rewards,
    turn_ends_episode, turn_rows (of the batch), turns (their numbers), seams.
    """

    def __init__(
        self, batch: Trajectories, *, with_observations: bool = False, with_values: bool = True
    ) -> None:
        self.batch = batch
        # Seen as the policy's own, an observation belongs to the turn before it.
        turn_ids = batch.turn_ids.cummax(1).values if with_observations else batch.turn_ids
        mask = trained_tokens(batch.turn_ids, with_observations=with_observations)
        order = batch.row_order
        self.row, self.column = (mask if order is None else mask[order]).nonzero(as_tuple=True)
        if order is not None:
            self.row = order[self.row]
        length = mask.shape[1]
        self.place = self.row * length + self.column
        self.episode_of_row = batch.episodes
        self.episode = self.episode_of_row[self.row]

        turn = turn_ids.take(self.place)
        self.ends_episode = _differs_from_next(self.episode)
        self.ends_turn = self.ends_episode | _differs_from_next(turn)
        self.starts_turn = self.ends_turn.roll(1)
        self.turn_of_token = self.starts_turn.cumsum(0) - 1
        self.turn_ends = self.ends_turn.nonzero().squeeze(1)
        self.turn_ends_episode = self.ends_episode[self.turn_ends]
        self.turn_rows = self.row[self.turn_ends]
        self.turns = turn[self.turn_ends]
        self.turn_rewards = self.of_turns("turn_rewards", batch.turn_rewards)
        none = torch.zeros_like(self.turns, dtype=torch.bool)
        self.seams = none if batch.seams is None else batch.seams[self.turn_rows, self.turns]
        if batch.kl_rewards is None:
            self.kl_rewards = self.turn_rewards.new_zeros(len(self.place))
        else:
            self.kl_rewards = self._finite("kl_rewards", batch.kl_rewards.detach().take(self.place))
        if with_values:
            self._add_values()

    def _add_values(self) -> None:
        batch = self.batch
        if batch.values is None:
            raise TrainingDataError(
                "this estimator needs a critic; give the batch values, or use grpo or rloo"
            )
        # A row of values is one longer than a row of tokens: token i of row b is value i of row b.
        self.values = self._finite("values", batch.values.detach().take(self.place + self.row))
        ends = self.ends_episode.nonzero().squeeze(1)
        last_rows = self.row[ends]
        open_ended = ~(batch.terminated | batch.truncated)[last_rows]
        if open_ended.any():
            raise TrainingDataError(
                f"row {int(last_rows[open_ended][0])}: the episode's last row is neither "
                "terminated nor truncated, so what follows it is unknown; set one of them"
            )
        self.bootstrap = torch.zeros_like(self.values)
        if batch.bootstrap_values is not None:
            cut = (batch.truncated & ~batch.terminated)[last_rows]
            values = batch.bootstrap_values.detach()[last_rows].where(cut, 0)
            self.bootstrap.index_copy_(0, ends, self._finite("bootstrap_values", values, last_rows))
        self.next_values = self.values.roll(-1).where(~self.ends_episode, self.bootstrap)

    def episode_returns(self) -> Tensor:
        """(E,) The sum of the turn rewards of each episode, R(τ)."""
        rewards = self.batch.turn_rewards.detach().sum(1)
        episodes = int(self.episode_of_row.max()) + 1
        return rewards.new_zeros(episodes).index_add(0, self.episode_of_row, rewards)

    def of_turns(self, name: str, entries: Tensor) -> Tensor:
        """(B, T) → (M,) Take each turn's entry. Raises TrainingDataError if one isn't finite."""
        return self._finite(name, entries.detach()[self.turn_rows, self.turns], self.turn_rows)

    def between_turns(self, factor: float, like: Tensor | None = None) -> Tensor:
        """(M,) A discount or λ from each turn to the next; 1 at seams."""
        return torch.full_like(self.turn_rewards if like is None else like, factor).masked_fill(
            self.seams, 1.0
        )

    def between_tokens(self, inside: float, between: float) -> Tensor:
        """(N,) A discount or λ from each token to the next, inside a turn and between turns; 1 at
        seams.
        """
        factors = torch.full_like(self.values, inside)
        return factors.index_copy(0, self.turn_ends, self.between_turns(between))

    def turn_rewards_with_kl(self) -> Tensor:
        """(M,) The rewards of the turns, with the KL rewards of their tokens."""
        return self.turn_rewards.index_add(0, self.turn_of_token, self.kl_rewards)

    def following_turn(self, of_turns: Tensor) -> Tensor:
        """(M,) → (M,) The entry of the next turn; past the last turn the bootstrap value or 0."""
        return of_turns.roll(-1).where(~self.turn_ends_episode, self.bootstrap[self.turn_ends])

    def values_after_turns(self) -> Tensor:
        """(M,) V(τ_≤a_t), the values after the last token of each turn."""
        assert self.batch.values is not None  # noqa: S101 - for the type checker
        places = (self.place + self.row)[self.turn_ends] + 1
        return self._finite(
            "values", self.batch.values.detach().take(places), self.row[self.turn_ends]
        )

    def spread(
        self,
        advantages: Tensor,
        targets: Tensor | None = None,
        targeted: Tensor | None = None,
        targets_after_turns: Tensor | None = None,
    ) -> Advantages:
        """Put (N,) advantages and value targets (all, or those `targeted`) back to their rows and
        columns.
        """
        rows, length = self.batch.turn_ids.shape
        mask = torch.zeros(rows * length, dtype=torch.bool, device=self.place.device).index_fill(
            0, self.place, True
        )
        dense = advantages.new_zeros(rows * length).index_copy(0, self.place, advantages)
        returns = advantages.new_zeros(rows * (length + 1))
        value_mask = torch.zeros_like(returns, dtype=torch.bool)
        places = self.place + self.row
        if targets_after_turns is not None:
            after = places[self.turn_ends] + 1
            returns.index_copy_(0, after, targets_after_turns)
            value_mask.index_fill_(0, after, True)
        if targets is not None:
            if targeted is not None:
                places = places[targeted]
                targets = targets[targeted]
            returns.index_copy_(0, places, targets)
            value_mask.index_fill_(0, places, True)
        return Advantages(
            dense.view(rows, length),
            mask.view(rows, length),
            returns.view(rows, length + 1),
            value_mask.view(rows, length + 1),
        )

    def _finite(self, name: str, entries: Tensor, rows: Tensor | None = None) -> Tensor:
        broken = ~entries.isfinite()
        if broken.any():
            rows = self.row if rows is None else rows
            raise TrainingDataError(
                f"row {int(rows[broken][0])}: {name} holds {entries[broken][0].item()} where it "
                "counts; leave the episode out, or find out why the model gives it"
            )
        return entries


def sum_backwards(x: Tensor, factor: float | Tensor, stops: Tensor) -> Tensor:
    """Give y[i] = x[i] + factor·y[i + 1], but y[i] = x[i] where `stops`. (N,), scalar or (N,), (N,)
    → (N,).

    Doubling: after the k-th pass every entry holds the sum of its next 2^k terms, until no factor
    is left.
    """
    sums = x.clone()
    factors = (
        torch.as_tensor(factor, dtype=x.dtype, device=x.device).expand_as(x).masked_fill(stops, 0)
    )
    reach = 1
    while reach < len(x) and factors.any():
        sums[:-reach] += factors[:-reach] * sums[reach:]
        factors[:-reach] = factors[:-reach] * factors[reach:]
        factors[-reach:] = 0
        reach *= 2
    return sums


def _differs_from_next(ids: Tensor) -> Tensor:
    """(N,) bool. Where the next entry is another; the last entry has none and counts as such."""
    differs = torch.ones_like(ids, dtype=torch.bool)
    differs[:-1] = ids[1:] != ids[:-1]
    return differs


def trained_tokens(turn_ids: Tensor, *, with_observations: bool) -> Tensor:
    """(B, L) bool. The sampled tokens, or everything from the first to the last of them in each
    row.
    """
    mask = turn_ids != NOT_SAMPLED
    if not with_observations:
        return mask
    seen = mask.cumsum(1)
    return (seen > 0) & (seen - mask.long() < seen[:, -1:])
