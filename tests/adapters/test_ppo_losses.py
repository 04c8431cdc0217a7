"""The losses on numbers that can be checked by hand."""

import math

import pytest

torch = pytest.importorskip("torch")

from vagen_adapters.ppo import losses  # noqa: E402

TURN_IDS = torch.tensor([[-1, 0, 0, -1, 1, -1], [-1, 0, 0, 0, -1, -1]])
MASK = TURN_IDS >= 0


@pytest.mark.parametrize(("level", "units"), [("token", 6), ("turn", 3), ("sequence", 2)])
def test_weights_make_a_mean_over_tokens_turns_or_rows(level, units):
    weights = losses.token_weights(MASK, TURN_IDS, level)
    assert float(weights.sum()) == pytest.approx(units)
    assert not weights[~MASK].any()
    entries = torch.tensor([[9.0, 1, 3, 9, 5, 9], [9, 6, 6, 6, 9, 9]])
    by_hand = {
        "token": (1 + 3 + 5 + 6 * 3) / 6,
        "turn": ((1 + 3) / 2 + 5 + 6) / 3,
        "sequence": ((1 + 3 + 5) / 3 + 6) / 2,
    }
    assert float((entries * weights).sum() / weights.sum()) == pytest.approx(by_hand[level])


def test_ratios_of_tokens_and_of_turns():
    old = torch.zeros(2, 6)
    new = torch.tensor([[5.0, 0.2, 0.4, 5, -1, 5], [5, 0, 0.3, 0.6, 5, 5]])
    token = losses.probability_ratios(new, old, TURN_IDS, "token")
    assert token[0].tolist() == pytest.approx([1, math.exp(0.2), math.exp(0.4), 1, math.exp(-1), 1])
    turn = losses.probability_ratios(new, old, TURN_IDS, "turn")
    assert turn[0].tolist() == pytest.approx([1, math.exp(0.3), math.exp(0.3), 1, math.exp(-1), 1])
    assert turn[1].tolist() == pytest.approx([1, math.exp(0.3), math.exp(0.3), math.exp(0.3), 1, 1])


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"),
    [(1.1, 2.0, -2.2), (1.5, 2.0, -2.56), (0.5, 2.0, -1.0), (1.5, -2.0, 3.0), (0.5, -2.0, 1.6), (1.0, 0.0, 0.0)],
)
def test_the_surrogate_is_clipped_on_the_side_that_would_gain(ratio, advantage, loss):
    found = losses.policy_losses(torch.tensor(ratio), torch.tensor(advantage), clip_low=0.2, clip_high=0.28)
    assert float(found) == pytest.approx(loss)


def test_a_clipped_value_keeps_the_larger_error():
    new, old, target = torch.tensor([2.0, 2.0]), torch.tensor([0.0, 0.0]), torch.tensor([3.0, 1.0])
    assert losses.value_losses(new, old, target, None).tolist() == [1.0, 1.0]
    assert losses.value_losses(new, old, target, 0.5).tolist() == [6.25, 1.0]


def test_both_kl_estimates_are_right_on_average():
    generator = torch.Generator().manual_seed(0)
    policy, reference = (torch.randn(8, generator=generator).log_softmax(0) for _ in range(2))
    exact = float((policy.exp() * (policy - reference)).sum())
    for estimator in ("k1", "k3"):
        estimates = losses.kl_estimates(policy, reference, estimator)
        assert float((policy.exp() * estimates).sum()) == pytest.approx(exact, abs=1e-6)
    assert (losses.kl_estimates(policy, reference, "k3") >= 0).all()


def test_explained_variance():
    returns = torch.tensor([1.0, 2.0, 3.0])
    assert losses.explained_variance(returns, returns) == 1
    assert losses.explained_variance(torch.zeros(3), returns) == 0
    assert math.isnan(losses.explained_variance(torch.zeros(3), torch.ones(3)))
