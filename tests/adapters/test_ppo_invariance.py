"""What must not change the training: where padding and observations stand, the order of the batch, and its cutting.

Token in, token out: an episode is its sampled tokens with what is known of each. Here the same episodes are laid out in
different ways, and the gradient of the whole loss with respect to every sampled token is compared.
"""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vagen_adapters.ppo import losses
from vagen_adapters.ppo.estimators import ESTIMATORS, WITHOUT_CRITIC
from vagen_adapters.ppo.trajectories import NOT_SAMPLED, Trajectories

DISCOUNTS = {
    "token_gae": {"gamma": 0.9, "lam": 0.8},
    "dual_discount_gae": {
        "gamma_turn": 0.9,
        "lam_turn": 0.8,
        "gamma_token": 0.95,
        "lam_token": 0.7,
    },
    "bilevel_gae": {"gamma_turn": 0.9, "lam_turn": 0.8, "gamma_token": 0.95, "lam_token": 0.7},
    "bilevel_gae_released": {"gamma_turn": 0.9, "gamma_token": 0.95, "lam": 0.8},
    "bilevel_gae_mixed": {"gamma_turn": 0.9, "lam_turn": 0.8, "lam_token": 0.7},
    "turn_gae": {"gamma": 0.9, "lam": 0.8},
    "grpo": {},
    "rloo": {},
    "rloo_turns": {"gamma": 0.9},
    "gigpo": {"gamma": 0.9, "step_weight": 0.7},
    "vine": {"gamma": 0.9},
}
GIVEN_BY = ("logprobs", "old_logprobs", "reference", "kl_rewards", "values")


@dataclasses.dataclass
class Played:
    """An episode as numbers of its sampled tokens, (N,), and of its turns, (T,); values also stand after turns."""

    sizes: list[int]
    tokens: dict
    states: torch.Tensor
    worth: torch.Tensor
    values_after: torch.Tensor
    rewards: torch.Tensor
    terminated: bool
    bootstrap: float


@st.composite
def episodes(draw):
    sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))

    def normal(*shape):
        return 0.3 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    def episode(turns):
        tokens = {name: normal(sum(turns)) for name in GIVEN_BY}
        states = torch.randint(2, (len(turns),), generator=generator)
        of_turns = [normal(len(turns)) for _ in range(3)]
        return Played(turns, tokens, states, *of_turns, draw(st.booleans()), float(normal(1)))

    return [episode(turns) for turns in draw(st.lists(sizes, min_size=2, max_size=4))]


@dataclasses.dataclass
class Layout:
    """Where things stand: unsampled tokens before each sampled one, padding on both sides, and the rows' order."""

    gaps: list[list[int]]
    left: list[int]
    right: list[int]
    order: list[int]


@st.composite
def layouts(draw, played):
    """Between turns there is always an observation; elsewhere there may be one, within a turn too."""
    gaps = []
    for episode in played:
        starts = {sum(episode.sizes[:turn]) for turn in range(len(episode.sizes))}
        gaps.append([draw(st.integers(int(at in starts), 3)) for at in range(sum(episode.sizes))])
    some = st.lists(st.integers(0, 3), min_size=len(played), max_size=len(played))
    return Layout(gaps, draw(some), draw(some), draw(st.permutations(range(len(played)))))


def gradients(name, level, played, layout):
    """By episode: of the loss, with respect to log-probabilities (N,), values before tokens (N,) and after turns (T,)."""
    noise = torch.Generator().manual_seed(7)
    places, width = [], 0
    for gaps, left, right in zip(layout.gaps, layout.left, layout.right, strict=True):
        at = left + torch.tensor(gaps).cumsum(0) + torch.arange(len(gaps))
        places.append(at)
        width = max(width, int(at[-1]) + 1 + right)
    rows = len(played)
    turns = max(len(each.sizes) for each in played)
    # What stands elsewhere is noise: it must reach nothing.
    dense = {
        key: torch.randn(rows, width, generator=noise, dtype=torch.float64) for key in GIVEN_BY
    }
    values = torch.randn(rows, width + 1, generator=noise, dtype=torch.float64)
    turn_ids, rewards = (
        torch.full((rows, width), NOT_SAMPLED),
        torch.zeros(rows, turns, dtype=torch.float64),
    )
    states, worth = (
        torch.full((rows, turns), 99),
        torch.full((rows, turns), torch.nan, dtype=torch.float64),
    )
    ends = []
    for row, number in enumerate(layout.order):
        episode, at = played[number], places[number]
        for key in dense:
            dense[key][row, at] = episode.tokens[key]
        turn_ids[row, at] = torch.repeat_interleave(
            torch.arange(len(episode.sizes)), torch.tensor(episode.sizes)
        )
        rewards[row, : len(episode.sizes)] = episode.rewards
        states[row, : len(episode.sizes)] = episode.states
        worth[row, : len(episode.sizes)] = episode.worth
        ends.append(at[torch.tensor(episode.sizes).cumsum(0) - 1])
        values[row, ends[row] + 1] = episode.values_after
        values[row, at] = episode.tokens["values"]
    in_order = [played[number] for number in layout.order]
    terminated = torch.tensor([each.terminated for each in in_order])
    batch = Trajectories(
        turn_ids=turn_ids,
        turn_rewards=rewards,
        terminated=terminated,
        truncated=~terminated,
        values=values,
        kl_rewards=dense["kl_rewards"],
        bootstrap_values=torch.tensor([each.bootstrap for each in in_order], dtype=torch.float64),
        group_ids=torch.zeros(rows, dtype=torch.int64),
        turn_states=states,
        turn_values=worth,
    )
    estimated = ESTIMATORS[name](batch, **DISCOUNTS[name])
    if name not in WITHOUT_CRITIC:
        estimated = estimated.whitened()
    logprobs = dense["logprobs"].requires_grad_()
    guesses = (values + 0.1).requires_grad_()
    weights = losses.token_weights(estimated.mask, turn_ids, level)
    of_values = estimated.value_mask.double()
    of = "turn" if level == "turn" else "token"
    ratios = losses.probability_ratios(logprobs, dense["old_logprobs"], turn_ids, of)
    loss = losses.policy_losses(ratios, estimated.advantages, 0.2, 0.28)
    loss = loss + 0.1 * losses.kl_estimates(logprobs, dense["reference"], "k3")
    total = (loss * weights).sum() / weights.sum()
    errors = losses.value_losses(guesses, values, estimated.returns, 0.05)
    total = total + (errors * of_values).sum() / of_values.sum().clamp(min=1)
    total.backward()
    touched = torch.zeros(rows, width, dtype=torch.bool)
    found = [None] * rows
    for row, number in enumerate(layout.order):
        at = places[number]
        touched[row, at] = True
        found[number] = (
            logprobs.grad[row, at],
            guesses.grad[row, at],
            guesses.grad[row, ends[row] + 1],
        )
    assert not logprobs.grad[~touched].any()  # nothing but sampled tokens is trained on
    return found


@pytest.mark.parametrize("name", ESTIMATORS)
@settings(max_examples=25, deadline=None)
@given(data=st.data(), level=st.sampled_from(["token", "turn", "sequence"]))
def test_padding_order_and_inserted_observations_change_no_gradient(name, data, level):
    """An observation may be inserted anywhere, even amid a turn, so that a turn's text comes in pieces.

    That holds for every estimator that masks observations. It can't for `token_gae` without the mask (vanilla PPO),
    for which an observation is the policy's own words; see below.
    """
    played = data.draw(episodes())
    first, second = (gradients(name, level, played, data.draw(layouts(played))) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        for ours, theirs in zip(one, other, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)  # weights are float32
