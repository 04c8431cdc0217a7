"""The bias test finds what is known of estimators by formula, and the bias of a per-turn baseline."""

from __future__ import annotations

import numpy as np
import pytest

from measure_bias import ESTIMATORS
from vagen_adapters.errors import TrainingConfigError
from vagen_experiments.bias import StopOrGo, measure


def reinforce(batch):
    return np.where(batch.turn_ids >= 0, batch.turn_rewards.sum(1, keepdims=True), 0.0)


def to_go(batch):
    return batch.turn_rewards[:, ::-1].cumsum(1)[:, ::-1]


def above_the_others_that_played_the_turn(batch):
    """A per-turn baseline whose number of terms depends on when the policy stops: verl #7244."""
    found = np.zeros(batch.turn_ids.shape)
    returns, played = to_go(batch), np.zeros(batch.turn_rewards.shape, bool)
    for row, turns in enumerate(batch.turn_ids):
        played[row, turns[turns >= 0]] = True
    for row, turns in enumerate(batch.turn_ids):
        for place in np.flatnonzero(turns >= 0):
            turn = turns[place]
            others = (batch.group_ids == batch.group_ids[row]) & played[:, turn]
            others[row] = False
            if others.any():
                found[row, place] = returns[row, turn] - returns[others, turn].mean()
    return found


def test_the_true_gradient_is_the_derivative_of_the_expected_return():
    process, step = StopOrGo(), 1e-6
    numeric = np.zeros(process.parameters)
    for i in range(process.parameters):
        moved = [process.logits.copy() for _ in (0, 1)]
        moved[0].flat[i] += step
        moved[1].flat[i] -= step
        above, below = (StopOrGo(logits=logits).expected_return() for logits in moved)
        numeric[i] = (above - below) / (2 * step)
    assert process.true_gradient() == pytest.approx(numeric, abs=1e-8)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_reinforce_is_unbiased(size):
    bias = measure(reinforce, group_size=size)
    assert (bias.length, bias.cosine) == pytest.approx((1, 1), abs=1e-12)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "name", ["RLOO", "RLOO by turn", "VinePPO", "token GAE", "turn GAE", "Bi-Level GAE"]
)
def test_unbiased_estimators_are_found_unbiased(name, size):
    bias = measure(ESTIMATORS[name], group_size=size)
    assert (bias.length, bias.cosine) == pytest.approx((1, 1), abs=1e-9)


@pytest.mark.parametrize(
    "name", ["token GAE", "turn GAE", "Bi-Level GAE", "Bi-Level GAE as released"]
)
def test_at_lambda_1_a_wrong_critic_biases_nothing(name):
    bias = measure(ESTIMATORS[name], StopOrGo(critic_error=1.0), 1)
    assert (bias.length, bias.cosine) == pytest.approx((1, 1), abs=1e-9)


def test_a_wrong_critic_biases_smaller_lambdas():
    assert measure(ESTIMATORS["turn GAE, λ 0"], group_size=1).length == pytest.approx(1, abs=1e-9)
    assert (
        abs(measure(ESTIMATORS["turn GAE, λ 0"], StopOrGo(critic_error=1.0), 1).length - 1) > 0.05
    )


@pytest.mark.parametrize("size", [2, 3])
def test_the_groups_own_mean_as_baseline_shrinks_by_the_known_factor(size):
    bias = measure(ESTIMATORS["GRPO without scaling"], group_size=size)
    assert (bias.length, bias.cosine) == pytest.approx(((size - 1) / size, 1), abs=1e-9)


def test_an_estimator_that_gives_nan_is_refused():
    with pytest.raises(TrainingConfigError, match="sampled tokens an advantage that is NaN"):
        measure(lambda batch: reinforce(batch) * float("nan"))


def test_a_baseline_that_depends_on_stopping_is_found_biased():
    bias = measure(above_the_others_that_played_the_turn)
    assert bias.length < 0.9
    assert bias.cosine < 0.99
