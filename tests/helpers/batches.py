"""Batches of episodes for the estimators."""

import dataclasses

import torch
from hypothesis import strategies as st

from vagen_adapters.ppo.trajectories import Trajectories


@st.composite
def batches(draw, max_rows=4, max_tokens=4, kl=True, seams=False):
    """Ragged episodes, padded left and right; NaN wherever nothing should look; turns and rows may be empty."""
    turn_sizes = st.tuples(
        st.integers(0, 3), st.integers(0, max_tokens)
    )  # observation tokens, sampled tokens
    rows = draw(
        st.lists(st.lists(turn_sizes, min_size=1, max_size=4), min_size=1, max_size=max_rows)
    )
    widths = [sum(map(sum, row)) for row in rows]
    left = [draw(st.integers(0, 3)) for _ in rows]
    length = max(1, *(a + b for a, b in zip(widths, left, strict=True))) + draw(st.integers(0, 3))
    turns = max(map(len, rows)) + draw(st.integers(0, 1))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    turn_ids = torch.full((len(rows), length), -1)
    for ids, row, start in zip(turn_ids, rows, left, strict=True):
        ids[start : start + sum(map(sum, row))] = torch.tensor(
            [
                turn_id
                for turn, (observed, sampled) in enumerate(row)
                for turn_id in [-1] * observed + [turn] * sampled
            ],
            dtype=torch.int64,
        )
    rewards = normal(len(rows), turns)
    for b in range(len(rows)):
        for turn in range(turns):
            if not (turn_ids[b] == turn).any():
                rewards[b, turn] = 0
    terminated = torch.tensor(draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    values = normal(len(rows), length + 1)
    # A critic's padding is often NaN; only what stands before or right after a sampled token may be read.
    read = torch.zeros_like(values, dtype=torch.bool)
    read[:, :-1] |= turn_ids >= 0
    read[:, 1:] |= turn_ids >= 0
    return Trajectories(
        turn_ids=turn_ids,
        turn_rewards=rewards,
        terminated=terminated,
        truncated=~terminated | torch.tensor(draw(st.booleans())),
        values=values.where(read, torch.nan),
        kl_rewards=0.1 * normal(len(rows), length).where(turn_ids >= 0, torch.nan) if kl else None,
        bootstrap_values=draw(
            st.sampled_from([None, normal(len(rows)).where(~terminated, torch.nan)])
        ),
        seams=draw(st.sampled_from([None, torch.rand(len(rows), turns, generator=generator) < 0.4]))
        if seams
        else None,
    )


def without(batch, rows):
    """The same batch with nothing sampled in `rows`, (B,) bool."""
    turn_ids = batch.turn_ids.masked_fill(rows.unsqueeze(1), -1)
    return dataclasses.replace(
        batch,
        turn_ids=turn_ids,
        turn_rewards=batch.turn_rewards.masked_fill(rows.unsqueeze(1), 0.0),
    )
