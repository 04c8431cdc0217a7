"""How often the 95 % intervals of `vagen_benchmarks.results.stats` hold the truth, and its test
rejects it: simulated.

    python -m perf.coverage [SIMULATIONS]

Levels have a chance of success each, drawn from a beta distribution; `agreement` is its intra-class
correlation: 0 where all levels are alike, 1 where each is always or never solved.
"""

from __future__ import annotations

import sys

import numpy as np

from vagen_benchmarks.results.stats import average, combined, difference, rate, sign_flip

DESIGNS = ((32, 5), (128, 5), (32, 16), (128, 1))
RATES = (0.1, 0.5, 0.9)
AGREEMENTS = (0.0, 0.2, 0.4, 0.8)


def chances(draw: np.random.Generator, levels: int, success: float, agreement: float) -> np.ndarray:
    """A chance of success for each level."""
    if agreement == 0:
        return np.full(levels, success)
    if agreement == 1:
        return (draw.random(levels) < success).astype(float)
    strength = 1 / agreement - 1
    return draw.beta(success * strength, (1 - success) * strength, levels)


def clusters(
    draw: np.random.Generator, chance: np.ndarray, repeats: int
) -> list[tuple[float, int]]:
    """What was played: successes and plays of each level."""
    return [(float(each), repeats) for each in draw.binomial(repeats, chance)]


def rate_coverage(
    levels: int, repeats: int, success: float, agreement: float, simulations: int, seed: int = 0
) -> tuple[float, float]:
    """The share of intervals of `rate` that hold the truth, and of those of `average`."""
    draw = np.random.default_rng(seed)
    held = [0, 0]
    for _ in range(simulations):
        played = clusters(draw, chances(draw, levels, success, agreement), repeats)
        for i, method in enumerate((rate, average)):
            found = method(played)
            held[i] += found.low - 1e-9 <= success <= found.high + 1e-9
    return held[0] / simulations, held[1] / simulations


def overall_coverage(
    success: tuple[float, ...], levels: int, repeats: int, agreement: float, simulations: int
) -> float:
    """The share of intervals of the mean over several columns that hold the truth."""
    draw = np.random.default_rng(1)
    truth, held = sum(success) / len(success), 0
    for _ in range(simulations):
        found = [
            rate(clusters(draw, chances(draw, levels, each, agreement), repeats))
            for each in success
        ]
        mean = combined(found)
        held += mean.low <= truth <= mean.high
    return held / simulations


def null(
    levels: int, repeats: int, success: float, agreement: float, simulations: int, seed: int = 2
) -> tuple[float, float]:
    """The shares of tests that reject at 5 %, and of intervals of the difference that hold 0.

    The two agents are equally good, but not always on the same levels.
    """
    draw = np.random.default_rng(seed)
    rejected = held = 0
    for _ in range(simulations):
        shared = chances(draw, levels, success, agreement)
        own = [
            np.where(draw.random(levels) < 0.5, shared, chances(draw, levels, success, agreement))
            for _ in range(2)
        ]
        one, other = (clusters(draw, each, repeats) for each in own)
        rejected += (
            sign_flip([int(b - a) for (a, _), (b, _) in zip(one, other, strict=True)]) < 0.05
        )
        found = difference(one, other)
        held += found.low - 1e-9 <= 0 <= found.high + 1e-9
    return rejected / simulations, held / simulations


def main(simulations: int = 4000) -> None:
    """Print the tables."""
    say = sys.stdout.write
    say(
        f"{simulations} simulations a line; the standard error is about "
        f"{(0.0475 / simulations) ** 0.5:.4f}\n\n"
    )
    say("levels × plays, agreement, success: rate, average, test rejects at 5 %, difference\n")
    for levels, repeats in DESIGNS:
        for agreement in AGREEMENTS if repeats > 1 else (0.0,):
            for success in RATES:
                drawn = (levels, repeats, success, agreement, simulations)
                shares = " ".join(
                    f"{share:.3f}" for share in (*rate_coverage(*drawn), *null(*drawn))
                )
                say(f"{levels:3} × {repeats:2}, {agreement:.1f}, {success:.1f}: {shares}\n")
    columns = (0.1, 0.3, 0.5, 0.7, 0.9), (0.05, 0.1, 0.9, 0.95)
    say("\noverall, of columns with success " + " and ".join(str(each) for each in columns) + "\n")
    for levels, repeats in DESIGNS:
        both = [
            f"{overall_coverage(each, levels, repeats, 0.4, simulations // 2):.3f}"
            for each in columns
        ]
        say(f"{levels:3} × {repeats:2}: {' '.join(both)}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
