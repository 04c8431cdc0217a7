"""Bias of advantage estimators: expected gradients against the true policy gradient, by
enumeration.

    .venv/bin/python benchmarks/experiments/measure_bias.py    # the table of vagen_adapters.ppo's
                                                               estimators

An estimator is a function from a `Batch` of arrays to advantages of shape (rows, length), so
estimators of any library can be tested. The environment is small enough to enumerate every group of
episodes. In each turn the policy writes two tokens; the second decides whether the episode goes on.
The policy therefore controls how many turns an episode has, the situation in which per-turn
baselines become biased.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vagen_adapters.errors import TrainingConfigError

Array = NDArray[np.float64]
STOP = 0
WIDTH = 3
"""Positions per turn: two sampled tokens and one observation."""

# Two levels with rewards in the middle: stopping early pays in the first and costs in the second.
_REWARDS: Array = np.array(
    [
        [[[1.0, 0.0], [0.5, -0.5]], [[0.2, 0.6], [-0.4, 0.1]], [[0.0, 2.0], [1.5, -1.0]]],
        [[[-1.0, 0.3], [0.0, 0.8]], [[0.5, -0.2], [0.1, 0.4]], [[3.0, 1.0], [0.5, 2.5]]],
    ]
)
_LOGITS: Array = np.array([[0.3, 0.8, -0.4], [-0.5, 0.2, 0.9], [0.1, -0.3, 0.6]])


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """Episodes of one or more groups, as an estimator sees them. B rows, L positions, T turns.

    Attributes:
        turn_ids: (B, L), the turn of each sampled token, -1 elsewhere.
        turn_rewards: (B, T), 0 for turns that were not played.
        values: (B, L + 1), the critic's estimate of the remaining return before each position.
            After a turn's last token it still includes that turn's reward.
        total_values: (B, L + 1), the same for the return of the whole episode.
        group_ids: (B,), episodes with the same number share level and batch.
        turn_states: (B, T), equal numbers for equal states.
        turn_values: (B, T), the exact value of the state before each turn.
    """

    turn_ids: NDArray[np.int64]
    turn_rewards: Array
    values: Array
    total_values: Array
    group_ids: NDArray[np.int64]
    turn_states: NDArray[np.int64]
    turn_values: Array


Estimator = Callable[[Batch], Array]


@dataclass(frozen=True)
class Bias:
    """Expected gradient of an estimator relative to the true one.

    Attributes:
        length: projection on the true gradient, as a multiple of its length; 1 is unbiased.
        cosine: of the angle between both; 1 is the right direction.
    """

    length: float
    cosine: float


@dataclass(frozen=True, eq=False)
class StopOrGo:
    """A Markov decision process in which the policy decides when the episode stops.

    Turn t consists of token `a` (0 or 1) and token `b` (0 stops, 1 goes on; the last turn always
    stops). The reward of the turn is `rewards[level, t, a, b]`. The policy has three logits per
    turn, shared by all levels: of `a = 1`, and of `b = 1` after `a = 0` and after `a = 1`.

    Args:
        rewards: (levels, T, 2, 2).
        logits: (T, 3).
        critic_error: standard deviation of the error of a wrong critic; 0 is a perfect one.
    """

    rewards: Array = field(default_factory=lambda: _REWARDS)
    logits: Array = field(default_factory=lambda: _LOGITS)
    critic_error: float = 0.0

    @property
    def turns(self) -> int:
        """The maximum number of turns, T."""
        return self.rewards.shape[1]

    @property
    def parameters(self) -> int:
        """The number of logits."""
        return self.logits.size

    @cached_property
    def plays(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """All episodes, each a tuple of (a, b) per turn."""
        return tuple(self._continue(()))

    def _continue(
        self, played: tuple[tuple[int, int], ...]
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        for a, b in itertools.product((0, 1), repeat=2):
            episode = (*played, (a, b))
            if b == STOP or len(episode) == self.turns:
                yield episode
            else:
                yield from self._continue(episode)

    def probability(self, turn: int, a: int, b: int | None = None) -> float:
        """The probability of token `a`, or of `b` after `a`."""
        chance = 1 / (1 + math.exp(-float(self.logits[turn, 0 if b is None else 1 + a])))
        return chance if (a if b is None else b) else 1 - chance

    def value(self, level: int, turn: int) -> float:
        """The exact value of the state before a turn."""
        return sum(self.probability(turn, a) * self._after_first(level, turn, a) for a in (0, 1))

    def _after_first(self, level: int, turn: int, a: int) -> float:
        return sum(
            self.probability(turn, a, b) * self._after_turn(level, turn, a, b) for b in (0, 1)
        )

    def _after_turn(self, level: int, turn: int, a: int, b: int) -> float:
        goes_on = b != STOP and turn + 1 < self.turns
        return float(self.rewards[level, turn, a, b]) + (
            self.value(level, turn + 1) if goes_on else 0.0
        )

    def expected_return(self) -> float:
        """The mean return over levels; the function whose gradient is the true policy gradient."""
        levels = len(self.rewards)
        return sum(self.value(level, 0) for level in range(levels)) / levels

    def true_gradient(self) -> Array:
        """(parameters,) The exact gradient of `expected_return`."""
        gradient = np.zeros(self.parameters)
        for level in range(len(self.rewards)):
            table = _Table(self, level)
            gradient += table.chances * table.returns @ table.scores.sum(1)
        return gradient / len(self.rewards)


class _Table:
    """All episodes of a level as arrays of N rows."""

    def __init__(self, process: StopOrGo, level: int) -> None:
        plays, turns = process.plays, process.turns
        count, length = len(plays), WIDTH * turns
        self.turn_ids = np.full((count, length), -1)
        self.turn_rewards = np.zeros((count, turns))
        self.values = np.zeros((count, length + 1))
        self.total_values = np.zeros((count, length + 1))
        self.turn_states = np.tile(np.arange(turns) + turns * level, (count, 1))
        self.turn_values = np.tile(
            [process.value(level, turn) for turn in range(turns)], (count, 1)
        )
        self.scores = np.zeros((count, length, process.parameters))
        self.chances = np.ones(count)
        for row, episode in enumerate(plays):
            paid = 0.0
            for turn, (a, b) in enumerate(episode):
                start = WIDTH * turn
                chances = process.probability(turn, a), process.probability(turn, a, b)
                self.chances[row] *= math.prod(chances)
                self.turn_ids[row, start : start + 2] = turn
                self.scores[row, start, 3 * turn] = a - process.probability(turn, 1)
                self.scores[row, start + 1, 3 * turn + 1 + a] = b - process.probability(turn, a, 1)
                to_go = (
                    process.value(level, turn),
                    process._after_first(level, turn, a),
                    process._after_turn(level, turn, a, b),
                )
                errors = [
                    process.critic_error * _error(level, episode[:turn], *known)
                    for known in ((), (a,), (a, b))
                ]
                for place, (value, error) in enumerate(zip(to_go, errors, strict=True)):
                    self.values[row, start + place] = value + error
                    self.total_values[row, start + place] = paid + value + error
                self.turn_rewards[row, turn] = process.rewards[level, turn, a, b]
                paid += self.turn_rewards[row, turn]
        self.returns = self.turn_rewards.sum(1)

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """The batch of groups (M, G) of episodes; the rows of the batch are groups end to end."""
        flat = rows.reshape(-1)
        return Batch(
            turn_ids=self.turn_ids[flat],
            turn_rewards=self.turn_rewards[flat],
            values=self.values[flat],
            total_values=self.total_values[flat],
            group_ids=np.repeat(np.arange(len(rows)), rows.shape[1]),
            turn_states=self.turn_states[flat],
            turn_values=self.turn_values[flat],
        )


def measure(
    estimator: Estimator, process: StopOrGo | None = None, group_size: int = 2, whiten: bool = False
) -> Bias:
    """Compare an estimator's expected gradient with the true one.

    Args:
        estimator: from a `Batch` to advantages, (B, L); positions that aren't sampled are ignored.
        process: the environment and policy; `StopOrGo()` by default.
        group_size: episodes per level and batch; 1 to 4.
        whiten: normalise advantages to mean 0 and variance 1 over the tokens of each batch, as PPO
            trainers do.

    Raises:
        TrainingConfigError: `group_size` is out of range, or the advantages have another shape or
            aren't finite.
    """
    process = process or StopOrGo()
    if not 1 <= group_size <= 4:
        raise TrainingConfigError(
            f"group_size={group_size} is not valid: it must be from 1 to 4, to be enumerated"
        )
    gradient = np.zeros(process.parameters)
    for level in range(len(process.rewards)):
        table = _Table(process, level)
        rows = np.array(
            list(itertools.combinations_with_replacement(range(len(process.plays)), group_size))
        )
        chances = _multiplicities(rows) * table.chances[rows].prod(1)
        batch = table.batch(rows)
        advantages = np.asarray(estimator(batch), np.float64)
        if advantages.shape != batch.turn_ids.shape:
            raise TrainingConfigError(
                f"the estimator returned shape {advantages.shape} for a batch of "
                f"{batch.turn_ids.shape}; return one advantage per position"
            )
        sampled = batch.turn_ids >= 0
        if broken := int((sampled & ~np.isfinite(advantages)).sum()):
            raise TrainingConfigError(
                f"the estimator gave {broken} of {sampled.sum()} sampled tokens an advantage "
                "that is NaN or infinite; return a finite one for each"
            )
        if whiten:
            advantages = _whitened(advantages, sampled, rows.shape)
        scores = table.scores[rows.reshape(-1)]
        of_rows = np.einsum("bl,blp->bp", np.where(sampled, advantages, 0.0), scores)
        gradient += chances @ of_rows.reshape(*rows.shape, -1).mean(1)
    return _compare(gradient / len(process.rewards), process.true_gradient())


def _whitened(advantages: Array, sampled: NDArray[np.bool_], shape: tuple[int, ...]) -> Array:
    """Whiten over the sampled tokens of each group."""
    groups, mask = (array.reshape(shape[0], -1) for array in (advantages, sampled))
    count = mask.sum(1, keepdims=True)
    mean = np.where(mask, groups, 0).sum(1, keepdims=True) / count
    centred = np.where(mask, groups - mean, 0)
    variance = (centred**2).sum(1, keepdims=True) / np.maximum(count - 1, 1)
    return np.asarray((centred / np.sqrt(variance + 1e-8)).reshape(advantages.shape))


def _multiplicities(rows: NDArray[np.int64]) -> Array:
    """(M,) In how many orders each sorted group can be drawn."""
    size = rows.shape[1]
    counts = [np.unique(group, return_counts=True)[1] for group in rows]
    return np.array(
        [math.factorial(size) / math.prod(math.factorial(n) for n in count) for count in counts]
    )


def _compare(found: Array, true: Array) -> Bias:
    norm = float(np.linalg.norm(found))
    length = float(found @ true / (true @ true))
    return Bias(length, float(found @ true / (norm * np.linalg.norm(true))) if norm else math.nan)


def _error(level: int, past: tuple[tuple[int, int], ...], *known: int) -> float:
    """A fixed error of the critic for each prefix, between -1 and 1."""
    digits = [level, len(known), *itertools.chain(*past), *known]
    return math.sin(12.9898 * sum(digit * 3**place for place, digit in enumerate(digits)) + 1)
