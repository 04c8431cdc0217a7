"""Values of states from Monte Carlo continuations: the critic's targets, and how much of them a
critic knows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def values_at(turn_ids: Tensor, turn_values: Tensor) -> Tensor:
    """Each turn's value before and after all its tokens.

    Args:
        turn_ids: (B, L), as `Trajectories.turn_ids`.
        turn_values: (B, T), as `Trajectories.turn_values`.

    Returns:
        (B, L + 1), laid out as `Trajectories.values`; NaN elsewhere.
    """
    said = turn_ids >= 0
    of_tokens = turn_values.gather(1, turn_ids.clamp(min=0)).masked_fill(~said, math.nan)
    none = torch.full_like(of_tokens[:, :1], math.nan)
    before, after = torch.cat([of_tokens, none], 1), torch.cat([none, of_tokens], 1)
    return torch.where(before.isnan(), after, before)


def held_to_forks(values: Sequence[float], returns: Sequence[Sequence[float]]) -> dict[str, float]:
    """How much of what a critic could know it knows.

    The variance of returns within a state can't be foreseen; the rest of the variance between the
    states' means, once the noise in means of n is taken off (analysis of variance), is that of the
    states' worth V*. The variances are without bias from two returns a state on.

    Args:
        values: (states,) of the critic.
        returns: of each state, n >= 2 of them, independent given the state and as many for each.

    Returns:
        `ceiling`, Var[V*] / Var[R]: the explained variance of returns that a perfect critic would
            have; `explained`,
        that of this one; `of_worth`, 1 - Var[V* - V] / Var[V*]: `explained` of `ceiling`. NaN where
        nothing varies.
    """
    if len(returns) < 2:
        return dict.fromkeys(("ceiling", "explained", "of_worth"), math.nan)
    drawn = np.array([list(each) for each in returns], dtype=np.float64)
    noise = float(drawn.var(axis=1, ddof=1).mean())
    means, known = drawn.mean(axis=1), np.array(values, dtype=np.float64)
    worth = float(means.var(ddof=1)) - noise / drawn.shape[1]
    missed = float((means - known).var(ddof=1)) - noise / drawn.shape[1]
    whole = worth + noise
    return {
        "ceiling": worth / whole if whole > 0 else math.nan,
        "explained": (worth - missed) / whole if whole > 0 else math.nan,
        "of_worth": 1 - missed / worth if worth > 0 else math.nan,
    }
