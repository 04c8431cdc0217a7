"""A batch of sampled episodes as tensors: the one input of every advantage estimator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingDataError

NOT_SAMPLED = -1
"""The turn id of a token that the policy did not sample: prompt, observation or padding."""


@dataclass(frozen=True, eq=False)
class Trajectories:
    """`B` token sequences of `L` positions, each of at most `T` turns, padded on either side or
    both.

    A row is a whole episode (concatenated turns) or a piece of one, down to one turn with a window
    of history (Verlog): rows that share an episode id are joined in the order of their turns,
    wherever they stand in the batch. All floating tensors share one type, float32 or float64, and
    all tensors one device.

    Attributes:
        turn_ids: (B, L) int64. The turn, 0 ≤ t < T, of each token that the policy sampled, and -1
            at every other token (prompt, observation, history, padding). Turns count from the start
            of the episode and stand in order; numbers may be skipped (a turn without tokens).
        turn_rewards: (B, T). r_t, the sum of all reward terms of turn t, in the row that holds its
            tokens; 0 where a row holds no token of the turn, for there is nothing to credit it to.
        terminated: (B,) bool. The episode ended by itself, so that nothing is worth anything after
            it.
        truncated: (B,) bool. The episode was cut. Where both are true, `terminated` counts. Of an
            episode in several rows the flags of its last row count, and one of the two must be true
            there.
        values: (B, L + 1), or None for estimators without critic. `values[b, i]` is V(τ_<i), the
            critic's estimate before token i, so that `values[b, i + 1]` is V(τ_≤i), its estimate
            after it. A value head's output at position i therefore belongs at i + 1. Positions that
            no estimator asks for may hold anything, NaN too.
        kl_rewards: (B, L), or None for 0. The penalty of each token as a reward, -β·KL[π‖π_ref].
        bootstrap_values: (B,), or None for 0. V of the observation after the last turn, used where
            the episode is truncated and not terminated. None is VAGEN's choice (V = 0 at every
            end).
        episode_ids: (B,) int64, or None if every row is an episode of its own.
        group_ids: (B,) int64, or None. Episodes with the same prompt and level, for GRPO and RLOO.
        turn_states: (B, T) int64, or None. The state that turn t met, the same number wherever the
            same state was met, for GiGPO. Only counts where the row holds tokens of the turn.
        turn_values: (B, T), or None. What the state before turn t was found to be worth by playing
            on from it, for VinePPO. Only counts where the row holds tokens of the turn.
        seams: (B, T) bool, or None. Turns that are summaries, after which the next row begins: the
            step from their end to the next turn is no transition of the environment, and no
            estimator discounts it (γ = λ = 1).

    Raises:
        TrainingDataError: The tensors do not fit together. NaN and infinity are met by the
            estimators, where they count.
    """

    turn_ids: Tensor
    turn_rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    values: Tensor | None = None
    kl_rewards: Tensor | None = None
    bootstrap_values: Tensor | None = None
    episode_ids: Tensor | None = None
    group_ids: Tensor | None = None
    turn_states: Tensor | None = None
    turn_values: Tensor | None = None
    seams: Tensor | None = None

    def __post_init__(self) -> None:
        self._check_layout()
        self._check_turns()
        self._check_episodes()

    @property
    def mask(self) -> Tensor:
        """(B, L) bool. The tokens that the policy sampled: M^loss of VAGEN, section 2.2."""
        return self.turn_ids != NOT_SAMPLED

    @property
    def episodes(self) -> Tensor:
        """(B,) int64. The episode of each row, numbered 0, 1, … without gaps."""
        if self.episode_ids is None:
            return torch.arange(len(self.turn_ids), device=self.turn_ids.device)
        numbers: Tensor = torch.unique(self.episode_ids, return_inverse=True)[1]
        return numbers

    @property
    def row_order(self) -> Tensor | None:
        """(B,) int64. The rows, episode by episode and turn by turn; None if they stand so
        already.
        """
        if self.episode_ids is None:
            return None
        by_turn = self._first_turns().argsort(stable=True)
        return by_turn[self.episode_ids[by_turn].argsort(stable=True)]

    def _first_turns(self) -> Tensor:
        return torch.where(self.mask, self.turn_ids, torch.iinfo(torch.int64).max).amin(1)

    def _check_layout(self) -> None:
        if self.turn_ids.dim() != 2 or 0 in self.turn_ids.shape:
            raise TrainingDataError(
                f"turn_ids has shape {tuple(self.turn_ids.shape)}, but must be (rows, "
                "positions), neither of them 0; skip the update if no episode is left"
            )
        rows, length = self.turn_ids.shape
        turns = self.turn_rewards.shape[-1]
        float_type = self.turn_rewards.dtype
        if float_type not in (torch.float32, torch.float64):
            raise TrainingDataError(
                f"turn_rewards is {float_type}, too coarse to sum thousands of tokens; convert "
                "with .float()"
            )
        layout = {
            "turn_ids": ((rows, length), torch.int64),
            "turn_rewards": ((rows, turns), float_type),
            "terminated": ((rows,), torch.bool),
            "truncated": ((rows,), torch.bool),
            "values": ((rows, length + 1), float_type),
            "kl_rewards": ((rows, length), float_type),
            "bootstrap_values": ((rows,), float_type),
            "episode_ids": ((rows,), torch.int64),
            "group_ids": ((rows,), torch.int64),
            "turn_states": ((rows, turns), torch.int64),
            "turn_values": ((rows, turns), float_type),
            "seams": ((rows, turns), torch.bool),
        }
        for name, (shape, dtype) in layout.items():
            tensor = getattr(self, name)
            if tensor is None:
                continue
            if (
                tuple(tensor.shape) != shape
                or tensor.dtype != dtype
                or tensor.device != self.turn_ids.device
            ):
                raise TrainingDataError(
                    f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)} on "
                    f"{tensor.device}, but beside turn_ids and turn_rewards it must be {dtype} "
                    f"of shape {shape} on {self.turn_ids.device}"
                )

    def _check_turns(self) -> None:
        turns = self.turn_rewards.shape[1]
        lowest, highest = self.turn_ids.aminmax()
        if lowest < NOT_SAMPLED or highest >= turns:
            raise TrainingDataError(
                f"turn_ids run from {int(lowest)} to {int(highest)}, but turn_rewards has "
                f"{turns} turns: use 0 to {turns - 1}, and {NOT_SAMPLED} for tokens that were "
                "not sampled"
            )
        # Unsampled tokens repeat the last turn before them, so that falling anywhere means out of
        # order.
        latest = self.turn_ids.cummax(1).values
        disordered = (self.mask & (self.turn_ids < latest)).any(1)
        if disordered.any():
            raise TrainingDataError(
                f"row {int(disordered.nonzero()[0])}: a token's turn id falls; order the turns "
                "from 0 upwards"
            )
        held = torch.zeros(
            (len(self.turn_ids), turns + 1), dtype=torch.bool, device=self.turn_ids.device
        )
        held.scatter_(1, self.turn_ids + 1, True)  # column 0 takes the tokens that were not sampled
        stray = ((self.turn_rewards != 0) & ~held[:, 1:]).any(1)
        if stray.any():
            raise TrainingDataError(
                f"row {int(stray.nonzero()[0])}: a turn without tokens has a reward, and no "
                "token to credit it to; add it to a neighbouring turn, or leave the episode out"
            )

    def _check_episodes(self) -> None:
        order = self.row_order
        if order is None or self.episode_ids is None:
            return
        first, last = self._first_turns()[order], self.turn_ids.amax(1)[order]
        episode = self.episode_ids[order]
        same = episode[1:] == episode[:-1]
        overlap = same & (last[1:] != NOT_SAMPLED) & (first[1:] <= last[:-1])
        if overlap.any():
            raise TrainingDataError(
                f"episode {int(episode[1:][overlap][0])}: two rows hold tokens of the same turn; "
                "a turn belongs to one row, and is history (-1) in all others"
            )
        if self.group_ids is not None and (same & (self.group_ids[order].diff() != 0)).any():
            raise TrainingDataError(
                "the rows of one episode have different group ids; give them all the same"
            )
