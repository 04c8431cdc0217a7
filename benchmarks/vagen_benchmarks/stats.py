"""Intervals around what was measured."""

from __future__ import annotations

import math

Z95 = 1.959963984540054
"""The normal distribution's 97.5 % point."""


def wilson(successes: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a rate (Wilson 1927), within [0, 1]; (0, 1) if nothing was tried."""
    if trials == 0:
        return 0.0, 1.0
    rate, square = successes / trials, z * z
    middle = (rate + square / (2 * trials)) / (1 + square / trials)
    half = z / (1 + square / trials) * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == trials else min(1.0, middle + half)
    return low, high


def mean(values: list[float]) -> float:
    """The mean; NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan
