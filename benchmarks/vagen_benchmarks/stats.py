"""Intervals around what was measured, and comparisons of what was measured on the same levels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Z95 = 1.959963984540054
"""The normal distribution's 97.5 % point."""
RESAMPLES = 2000


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of a rate (Wilson 1927), within [0, 1]; (0, 1) if nothing was tried."""
    if trials == 0:
        return 0.0, 1.0
    rate, square = successes / trials, Z95 * Z95
    middle = (rate + square / (2 * trials)) / (1 + square / trials)
    half = Z95 / (1 + square / trials) * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == trials else min(1.0, middle + half)
    return low, high


def mean(values: Sequence[float]) -> float:
    """The mean; NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the mean; the same for the same values. NaNs of nothing."""
    if not values:
        return math.nan, math.nan
    data = np.asarray(values, float)
    draw = np.random.Generator(np.random.PCG64(0))
    means = np.array([data[draw.integers(len(data), size=len(data))].mean() for _ in range(RESAMPLES)])
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def mcnemar(only_one: int, only_other: int) -> float:
    """Two-sided p-value of McNemar's exact test: as likely one way as the other among pairs that differ?"""
    differing = only_one + only_other
    if differing == 0:
        return 1.0
    tail = sum(math.comb(differing, i) for i in range(min(only_one, only_other) + 1))
    return min(1.0, float(2 * tail / 2**differing))


def pass_at(k: int, tries: int, successes: int) -> float:
    """Probability that one of `k` tries succeeds, estimated without bias from more (Chen et al. 2021, equation 1).

    Raises:
        ValueError: `k` isn't from 1 to `tries`.
    """
    if not 1 <= k <= tries:
        raise ValueError(f"pass@{k} can't be estimated from {tries} tries: k must be from 1 to {tries}")
    return 1.0 - math.comb(tries - successes, k) / math.comb(tries, k)
