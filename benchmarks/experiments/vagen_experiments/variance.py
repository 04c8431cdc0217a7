"""How much of the variance of a balanced two-way design each factor explains, with intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
PARTS = ("first", "second", "interaction", "residual")
DRAWS = 10_000


class Share(NamedTuple):
    """A part of the variance.

    Attributes:
        eta: its share of the sum of squares, noise included; the four parts add up to 1.
        omega: the same without the noise that means of few seeds have; at least 0.
        low, high: 95 % interval of `omega`.
    """

    eta: float
    omega: float
    low: float
    high: float


def shares(outcomes: Values, *, seed: int = 0) -> dict[str, Share]:
    """The shares of both factors, of their interaction and of the rest, by `PARTS`.

    Intervals are percentiles of a bootstrap: to the means of the cells, residuals are added, drawn
    from all cells alike and widened to their true size by √(n / (n - 1)). In simulations of 3 x 4
    cells with two, three and five seeds they held the true share in 85 to 99 of 100 cases. Drawing
    seeds anew within each cell held the residual's in 37 to 74, and shares with noise (`eta`) were
    held still less often.

    Args:
        outcomes: (levels of the first factor, of the second, seeds), at least two seeds.
        seed: of the bootstrap.
    """
    outcomes = np.asarray(outcomes, float)
    seeds = outcomes.shape[2]
    cells = outcomes.mean(2, keepdims=True)
    residuals = (outcomes - cells).ravel() * np.sqrt(seeds / (seeds - 1))
    drawn = np.random.default_rng(seed).choice(residuals, (DRAWS, *outcomes.shape))
    low, high = np.quantile(_without_noise(cells + drawn), (0.025, 0.975), axis=0)
    squares = sums_of_squares(outcomes)
    rows = np.stack([squares / squares.sum(), _without_noise(outcomes), low, high], axis=1)
    return {part: Share(*map(float, row)) for part, row in zip(PARTS, rows, strict=True)}


def sums_of_squares(outcomes: Values) -> Values:
    """(…, first, second, seeds) → (…, 4) The sums of squares of `PARTS`."""
    first, second, seeds = outcomes.shape[-3:]
    whole = outcomes.mean((-3, -2, -1), keepdims=True)
    of_first = outcomes.mean((-2, -1), keepdims=True)
    of_second = outcomes.mean((-3, -1), keepdims=True)
    cells = outcomes.mean(-1, keepdims=True)
    squares = (
        second * seeds * _squared(of_first - whole),
        first * seeds * _squared(of_second - whole),
        seeds * _squared(cells - of_first - of_second + whole),
        _squared(outcomes - cells),
    )
    return np.stack(squares, axis=-1)


def _squared(differences: Values) -> Values:
    total: Values = np.square(differences).sum((-3, -2, -1))
    return total


def _without_noise(outcomes: Values) -> Values:
    """(…, first, second, seeds) → (…, 4) ω² of the factors, and what they leave."""
    first, second, seeds = outcomes.shape[-3:]
    squares = sums_of_squares(outcomes)
    free = np.array([first - 1, second - 1, (first - 1) * (second - 1)])
    noise = squares[..., 3:] / (first * second * (seeds - 1))
    total = squares.sum(-1, keepdims=True) + noise
    explained = np.maximum(0, (squares[..., :3] - free * noise) / total)
    return np.concatenate([explained, 1 - explained.sum(-1, keepdims=True)], axis=-1)
