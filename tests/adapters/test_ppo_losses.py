"""The losses on numbers that can be checked by hand."""

import math

import pytest
import torch

from vagen_adapters.ppo import losses
from vagen_adapters.ppo.recipes import load_recipe

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


@pytest.mark.parametrize("level", ["token", "turn", "sequence"])
def test_rows_of_one_token_and_of_none(level):
    """One token has the whole weight and its own ratio; where nothing was sampled there are none."""
    turn_ids = torch.tensor([[-1, 0, -1], [-1, -1, -1]])
    weights = losses.token_weights(turn_ids >= 0, turn_ids, level)
    assert weights.tolist() == [[0, 1, 0], [0, 0, 0]]
    ratios = losses.probability_ratios(torch.full((2, 3), 0.5), torch.zeros(2, 3), turn_ids, level)
    assert ratios.flatten().tolist() == pytest.approx([1, math.exp(0.5), 1, 1, 1, 1])


@pytest.mark.parametrize("level", ["token", "turn", "sequence"])
@pytest.mark.parametrize(
    ("new", "old", "log_ratio"),
    [
        (0.0, -30.0, losses.MOST),
        (-30.0, 0.0, -losses.MOST),
        (0.0, -torch.inf, losses.MOST),
        (-torch.inf, 0.0, -losses.MOST),
        (-torch.inf, -torch.inf, 0.0),
    ],
)
def test_log_ratios_are_bounded(level, new, old, log_ratio):
    turn_ids = torch.tensor([[0]])
    ratio = losses.probability_ratios(torch.tensor([[new]]), torch.tensor([[old]]), turn_ids, level)
    assert float(ratio.log()) == pytest.approx(log_ratio)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"),
    [
        (1.1, 2.0, -2.2),
        (1.5, 2.0, -2.56),
        (0.5, 2.0, -1.0),
        (1.5, -2.0, 3.0),
        (0.5, -2.0, 1.6),
        (1.0, 0.0, 0.0),
    ],
)
def test_the_surrogate_is_clipped_on_the_side_that_would_gain(ratio, advantage, loss):
    found = losses.policy_losses(
        torch.tensor(ratio), torch.tensor(advantage), clip_low=0.2, clip_high=0.28
    )
    assert float(found) == pytest.approx(loss)


def test_a_clipped_value_keeps_the_larger_error():
    new, old, target = torch.tensor([2.0, 2.0]), torch.tensor([0.0, 0.0]), torch.tensor([3.0, 1.0])
    assert losses.value_losses(new, old, target, None).tolist() == [1.0, 1.0]
    assert losses.value_losses(new, old, target, 0.5).tolist() == [6.25, 1.0]


@pytest.mark.parametrize(
    ("turn_ids", "weights"),
    [
        ([-1, 0, 0, -1, 1, 1], [1, 3, 1, 0, 3, 1, 1]),
        ([0, 0, 1, 1, -1, -1], [3, 1, 3, 0, 1, 1, 1]),  # a turn right after another
    ],
)
def test_the_value_before_a_turns_first_token_has_a_weight_of_its_own(turn_ids, weights):
    targeted = torch.tensor([[True, True, True, False, True, True, True]])
    found = losses.value_weights(targeted, torch.tensor([turn_ids]), 3.0)
    assert found.dtype == torch.float32
    assert found.tolist() == [weights]


def test_a_perfect_critic_explains_all_variance_and_a_constant_one_none():
    returns = torch.tensor([1.0, 2.0, 3.0, 6.0])
    assert losses.explained_variance(returns + 5, returns) == pytest.approx(1.0)
    assert losses.explained_variance(torch.zeros(4), returns) == pytest.approx(0.0)
    assert losses.explained_variance(-returns, returns) == pytest.approx(-3.0)
    assert losses.explained_variance(torch.zeros(2), torch.tensor([0.0, 0.5])) == 0.0
    for alike in (torch.ones(3), torch.tensor([2.0]), torch.zeros(0)):
        assert math.isnan(losses.explained_variance(alike, alike))


def test_gaps_to_the_sampler_are_taken_after_top_p():
    """What top-p keeps is divided by its share: log π - log share is what the sampler should say."""
    trainer, shares = torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-0.25, 0.0, -0.5])
    sampler = torch.tensor([-0.75, -2.5, 0.25])
    assert losses.sampler_gaps(trainer, shares, sampler).tolist() == [0.0, 0.5, 0.25]


def test_both_kl_estimates_are_right_on_average():
    generator = torch.Generator().manual_seed(0)
    policy, reference = (torch.randn(8, generator=generator).log_softmax(0) for _ in range(2))
    exact = float((policy.exp() * (policy - reference)).sum())
    for estimator in ("k1", "k3"):
        estimates = losses.kl_estimates(policy, reference, estimator)
        assert float((policy.exp() * estimates).sum()) == pytest.approx(exact, abs=1e-6)
    assert (losses.kl_estimates(policy, reference, "k3") >= 0).all()
    torch.testing.assert_close(losses.kl_estimates(policy, reference, "k1"), policy - reference)


# -- losses by name, each against a loop over tokens as its paper writes it ----------------------------------------


def some(seed=0, rows=3, length=9):
    """Log-probabilities now and then, advantages, and turns with gaps."""
    generator = torch.Generator().manual_seed(seed)
    new, old, sampled = (
        -torch.rand(rows, length, generator=generator, dtype=torch.float64) * 3 for _ in range(3)
    )
    turn_ids = torch.tensor(
        [
            [-1, 0, 0, 0, -1, 1, 1, -1, -1],
            [-1, 0, -1, 1, 1, -1, 2, 2, 2],
            [-1, -1, 0, 0, 0, 0, -1, -1, -1],
        ]
    )
    return (
        new,
        old,
        sampled,
        turn_ids,
        torch.randn(rows, length, generator=generator, dtype=torch.float64),
    )


def tokens_of(turn_ids):
    return [
        (row, at)
        for row, ids in enumerate(turn_ids.tolist())
        for at, turn in enumerate(ids)
        if turn >= 0
    ]


def clipped(ratio, low, high):
    return min(max(ratio, 1 - low), 1 + high)


def test_gspo_is_the_papers_loop():
    new, old, _, turn_ids, advantages = some()
    settings = load_recipe("gspo").settings
    low, high = settings["clip_low"], settings["clip_high"]
    mask = turn_ids >= 0
    advantages = torch.where(mask, advantages[:, :1], 0)  # one for a whole sequence, as GRPO has it
    ratios = losses.probability_ratios(new, old, turn_ids, settings["ratio_level"])
    weights = losses.token_weights(mask, turn_ids, settings["loss_level"])
    found = (losses.policy_losses(ratios, advantages, low, high) * weights).sum() / weights.sum()
    total = 0.0
    for row in range(len(new)):
        said = [at for at in range(new.shape[1]) if turn_ids[row, at] >= 0]
        ratio = math.exp(sum(float(new[row, at] - old[row, at]) for at in said) / len(said))
        advantage = float(advantages[row, said[0]])
        total += min(ratio * advantage, clipped(ratio, low, high) * advantage)
    assert float(found) == pytest.approx(-total / len(new), rel=1e-6)


def test_cispo_is_the_papers_loop_in_value_and_gradient():
    new, old, _, turn_ids, advantages = some(1)
    settings = load_recipe("cispo").settings
    new.requires_grad_(True)
    mask = turn_ids >= 0
    ratios = losses.probability_ratios(new, old, turn_ids, "token")
    entries = losses.cispo_losses(
        new, ratios, advantages, settings["clip_low"], settings["clip_high"]
    )
    loss = (entries * mask).sum() / mask.sum()
    loss.backward()
    total, slopes = 0.0, torch.zeros_like(new)
    for row, at in tokens_of(turn_ids):
        weight = min(math.exp(float(new[row, at] - old[row, at])), 1 + settings["clip_high"])
        total += weight * float(advantages[row, at]) * float(new[row, at])
        slopes[row, at] = -weight * float(advantages[row, at]) / int(mask.sum())
    assert float(loss) == pytest.approx(-total / int(mask.sum()))
    torch.testing.assert_close(new.grad, slopes)
    assert (new.grad[mask] != 0).all(), "a clipped token has lost its gradient"


def test_an_infinite_log_probability_costs_nothing_only_where_the_advantage_is_zero():
    advantages = torch.tensor([0.0, 0.0, 1.0, 1.0])
    new = torch.tensor([-torch.inf, -2.0, -torch.inf, -2.0])
    found = losses.cispo_losses(new, torch.ones(4), advantages, 1.0, 2.0)
    assert found.tolist() == [0.0, 0.0, torch.inf, 2.0]


def test_dual_clip_is_the_papers_loop():
    new, old, _, turn_ids, advantages = some(2)
    bound = 3.0
    ratios = losses.probability_ratios(new + 2, old, turn_ids, "token")
    found = losses.policy_losses(ratios, advantages, 0.2, 0.2, bound)
    reached = 0
    for row, at in tokens_of(turn_ids):
        ratio, advantage = (
            math.exp(float(new[row, at] + 2 - old[row, at])),
            float(advantages[row, at]),
        )
        gain = min(ratio * advantage, clipped(ratio, 0.2, 0.2) * advantage)
        if advantage < 0:
            reached += bound * advantage > gain
            gain = max(gain, bound * advantage)
        assert float(found[row, at]) == pytest.approx(-gain)
    assert reached, "no token is where the second clip counts"


@pytest.mark.parametrize(
    ("tokens", "penalty"), [(1, 0), (80, 0), (81, -0.05), (90, -0.5), (100, -1)]
)
def test_long_replies_are_punished_softly(tokens, penalty):
    """DAPO, eq. 13: ((limit - buffer) - tokens) / buffer within the buffer."""
    assert losses.overlong_penalty(tokens, limit=100, share=0.2) == pytest.approx(penalty)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_weights_from_sampler_to_trainer_are_truncated(level):
    new, _, sampled, turn_ids, _ = some(4)
    found = losses.sampler_weights(new, sampled, turn_ids, level, cap=1.5)
    for row, at in tokens_of(turn_ids):
        places = (
            [at] if level == "token" else [each for each in range(9) if turn_ids[row, each] >= 0]
        )
        ratio = math.exp(sum(float(new[row, each] - sampled[row, each]) for each in places))
        assert float(found[row, at]) == pytest.approx(min(ratio, 1.5))
    assert (found[turn_ids < 0] == 1).all()


def test_weights_are_truncated_at_two_by_default():
    turn_ids = torch.tensor([[-1, 0, 0]])
    new, sampled = torch.tensor([[5.0, 5.0, 0.5]]), torch.zeros(1, 3)
    found = losses.sampler_weights(new, sampled, turn_ids, "token")
    assert found[0].tolist() == pytest.approx([1.0, 2.0, math.exp(0.5)])


@pytest.mark.parametrize("level", ["token", "turn", "sequence"])
@pytest.mark.parametrize("advantage", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("old", [-torch.inf, -1.0])
def test_an_infinite_log_ratio_leaves_losses_and_gradients_finite(level, advantage, old):
    """A token that a policy or a sampler gives no probability at all, such as one that a mask forbids."""
    new = torch.tensor([[-2.0, -torch.inf, -1.0]], requires_grad=True)
    turn_ids = torch.zeros(1, 3, dtype=torch.int64)
    ratios = losses.probability_ratios(new, torch.tensor([[old, -1.0, old]]), turn_ids, level)
    loss = losses.policy_losses(ratios, torch.full((1, 3), advantage), 0.2, 0.2)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert new.grad.isfinite().all()
    assert (
        losses.kl_estimates(new.detach(), torch.tensor([[old, -1.0, old]]), "k3").isfinite().all()
    )
    if advantage == 0:
        assert losses.cispo_losses(new, ratios, torch.zeros(1, 3), 1.0, 2.0).tolist() == [[0, 0, 0]]
