"""Intervals around what was measured, and comparisons of what was measured on the same levels.

Levels are what is drawn at random, so they are what is counted: several plays of one level, or of
levels of the same content, are one cluster. `python -m perf.coverage` simulates how often the
intervals hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Z95 = 1.959963984540054
"""The normal distribution's 97.5 % point."""
Cluster = tuple[float, int]
"""What the plays of one level add up to, and how many they are."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval.

    Attributes:
        levels: the distinct levels that it rests on.
        effective: how many independent plays would say as much. Fewer than were played, where
            repeats agree.
        freedom: degrees of freedom of the Student's t that the interval took.
        drawn: names the draw of levels; estimates with the same name rest on the same levels. Empty
            if nobody knows.
        flagged: whether more failed or is missing than a score may stand on.
    """

    value: float
    low: float
    high: float
    levels: int
    effective: float
    freedom: float = 1.0
    drawn: str = ""
    flagged: bool = False

    @property
    def is_bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


def by_level(values: Iterable[tuple[str, float]]) -> list[Cluster]:
    """What the values of each level add up to, and how many they are, in the order of the levels'
    names.
    """
    found: dict[str, list[float]] = {}
    for level, value in values:
        found.setdefault(level, []).append(value)
    return [(math.fsum(each), len(each)) for _, each in sorted(found.items())]


def wilson(successes: float, trials: float, quantile: float = Z95) -> tuple[float, float]:
    """Wilson's 95 % score interval of a rate (Wilson 1927), within [0, 1]; (0, 1) if nothing was
    tried.
    """
    if trials == 0:
        return 0.0, 1.0
    rate = successes / trials
    square = quantile * quantile
    middle = (rate + square / (2 * trials)) / (1 + square / trials)
    half = (
        quantile
        / (1 + square / trials)
        * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    )
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == trials else min(1.0, middle + half)
    return low, high


def t95(freedom: float) -> float:
    """The t distribution's 97.5 % point to 1 %, for at least 1 degree of freedom (Abramowitz and
    Stegun 26.7.5).
    """
    if freedom < 2:  # of one degree exactly
        return math.tan(0.475 * math.pi)
    if freedom == 2:  # exactly
        return 0.95 / math.sqrt(2 * 0.975 * 0.025)
    z = Z95
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms))


def rate(levels: Sequence[Cluster]) -> Estimate:
    """The mean of values within [0, 1], such as successes, whose plays of one level belong
    together.

    Wilson's interval at the effective sample size: `p (1 - p)` over the variance of `p` between
    levels. Student's t takes the degrees of freedom that the jackknife finds for that size. Without
    any variance, the levels count.
    """
    count = len(levels)
    if count == 0:
        return Estimate(math.nan, 0.0, 1.0, 0, 0.0)
    if count == 1:
        return Estimate(levels[0][0] / levels[0][1], 0.0, 1.0, 1, 1.0)
    (mean, variance), without = _moments(levels)
    value = min(1.0, float(mean))

    def effective(mean: Any, variance: Any, count: int) -> Any:
        inner = np.clip(mean * (1 - mean), 0.0, None)
        # Levels that all agree have a variance of 0 but for rounding, which must not become a
        # sample of 10**15 plays.
        known = (variance > 1e-12) & (inner > 1e-12)
        return np.where(known, inner / np.where(known, variance, 1.0), float(count))

    size = float(effective(value, variance, count))
    freedom = _freedom(effective(*without, count - 1))
    return Estimate(value, *wilson(value * size, size, t95(freedom)), count, size, freedom)


def average(levels: Sequence[Cluster]) -> Estimate:
    """The mean of any values, such as returns: Student's t on its variance between levels. NaNs of
    nothing.

    Where few levels stand out, as those that are solved at all, that variance is itself unsure; the
    jackknife says how much, in degrees of freedom.
    """
    count = len(levels)
    if count == 0:
        return Estimate(math.nan, math.nan, math.nan, 0, 0.0)
    if count == 1:
        return Estimate(levels[0][0] / levels[0][1], -math.inf, math.inf, 1, 1.0)
    of_all, (_, others) = _moments(levels)
    value, variance = map(float, of_all)
    freedom = _freedom(np.maximum(others, 1e-12 * variance)) if variance > 0 else count - 1.0
    half = t95(freedom) * math.sqrt(variance)
    return Estimate(value, value - half, value + half, count, float(count), freedom)


def _moments(levels: Sequence[Cluster]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The mean, a ratio of sums, and its variance by what the levels differ: of all, and without
    each of them.
    """
    sums = np.array([of_level[0] for of_level in levels], float)
    sizes = np.array([of_level[1] for of_level in levels], float)
    parts = np.array([sums, sizes, sums**2, sums * sizes, sizes**2])
    total = np.array([math.fsum(part) for part in parts])

    def moments(of: Any, count: int) -> tuple[Any, Any]:
        sums, sizes, squares, products, sizes_squared = of
        mean = sums / sizes
        between = squares - 2 * mean * products + mean**2 * sizes_squared
        variance = np.maximum(between, 0.0) * count / max(count - 1, 1) / sizes**2
        return mean, variance

    of_all = moments(total, len(levels))
    without_each = moments(total[:, None] - parts, len(levels) - 1)
    return of_all, without_each


def _freedom(without: Any) -> float:
    """Degrees of freedom of a positive quantity from its values without each level: a scaled
    chi-square's.

    At most one less than there are levels, at least 2. The logarithm of a chi-square of f degrees
    has variance 2 / f.
    """
    count = len(without)
    if count < 3:
        return 1.0
    logs = np.log(without)
    spread = (count - 1) / count * float(((logs - logs.mean()) ** 2).sum())
    return min(count - 1.0, max(2.0, 2 / spread)) if spread > 0 else count - 1.0


def combined(parts: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of estimates, with an interval from theirs.

    Of different levels they are independent: the squares of the distances to each side add up as
    variances do (MOVER, Zou and Donner 2008), with the degrees of freedom of their sum
    (Welch-Satterthwaite). Of the same levels, as two metrics of the same episodes, they are taken
    to err together, which is the most they can: their distances add up.
    """
    count = len(parts)
    value = math.fsum(each.value for each in parts) / count
    draws: dict[str, list[Estimate]] = {}
    for i, each in enumerate(parts):
        draws.setdefault(each.drawn or f"{i}", []).append(each)

    def reach(distance: Callable[[Estimate], float]) -> tuple[float, float]:
        errors: list[float] = []
        freedoms: list[float] = []
        for draw in draws.values():
            errors.append(math.fsum(distance(each) / t95(each.freedom) for each in draw) ** 2)
            freedoms.append(min(each.freedom for each in draw))
        total = math.fsum(errors)
        if total == 0 or not math.isfinite(total):
            return total, 1.0
        freedom = total**2 / math.fsum(
            error**2 / free for error, free in zip(errors, freedoms, strict=True)
        )
        return t95(freedom) * math.sqrt(total) / count, freedom

    (down, below), (up, above) = (
        reach(lambda each: each.value - each.low),
        reach(lambda each: each.high - each.value),
    )
    levels = 0
    effective: list[float] = []
    for draw in draws.values():
        levels += max(each.levels for each in draw)
        effective.append(max(each.effective for each in draw))
    drawn = parts[0].drawn if len(draws) == 1 else ""
    flagged = any(each.flagged for each in parts)
    return Estimate(
        value,
        value - down,
        value + up,
        levels,
        math.fsum(effective),
        min(below, above),
        drawn,
        flagged,
    )


def difference(one: Sequence[Cluster], other: Sequence[Cluster]) -> Estimate:
    """The gain in a rate from one to the other on the same levels, in the same order.

    Their own intervals (`rate`) and the correlation between levels make one of the difference
    (Newcombe 1998, method 10, with the intervals by level).
    """
    first, second = rate(one), rate(other)
    shared = _correlation(
        [each / size for each, size in one], [each / size for each, size in other]
    )
    gain = second.value - first.value

    def reach(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a - 2 * shared * a * b + b * b))

    low = gain - reach(second.value - second.low, first.high - first.value)
    high = gain + reach(second.high - second.value, first.value - first.low)
    return Estimate(
        gain, low, high, first.levels, min(first.effective, second.effective), first.levels - 1.0
    )


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def sign_flip(differences: Sequence[int]) -> float:
    """Two-sided p-value of the paired permutation test: are levels as likely to differ one way as
    the other?

    Exact: each level's difference in successes keeps its size and takes either sign. With one play
    a level this is McNemar's exact test.
    """
    sizes = [abs(each) for each in differences if each]
    ways = np.ones(1)
    for size in sizes:  # the probability of each sum, from -reach to reach
        grown = np.zeros(len(ways) + 2 * size)
        grown[: len(ways)] += ways / 2
        grown[2 * size :] += ways / 2
        ways = grown
    reach = sum(sizes)
    seen = abs(sum(differences))
    return float(min(1.0, ways[np.abs(np.arange(-reach, reach + 1)) >= seen].sum()))


def pass_at(k: int, tries: int, successes: int) -> float:
    """Probability that one of `k` tries succeeds, estimated without bias from more (Chen et al.
    2021, equation 1).

    Raises:
        ValueError: `k` isn't from 1 to `tries`.
    """
    if not 1 <= k <= tries:
        raise ValueError(
            f"pass@{k} can't be estimated from {tries} tries: k must be from 1 to {tries}"
        )
    return 1.0 - math.comb(tries - successes, k) / math.comb(tries, k)
