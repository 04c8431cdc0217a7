"""Estimators that compare episodes with each other, and those that need no critic, against literal loops."""

import dataclasses
import itertools
import statistics

import pytest
import torch
from batches import batches
from hypothesis import given, settings
from hypothesis import strategies as st

from vagen_adapters.ppo import advantages as ppo
from vagen_adapters.ppo import group_advantages as grouped
from vagen_adapters.ppo.trajectories import Trajectories


@st.composite
def comparable(draw):
    """Batches with groups, states that recur and what they are worth."""
    batch = draw(batches(max_rows=6))
    rows, turns = batch.turn_rewards.shape
    groups = draw(st.lists(st.integers(-2, 2), min_size=rows, max_size=rows))
    states = draw(st.lists(st.integers(0, 3), min_size=rows * turns, max_size=rows * turns))
    return dataclasses.replace(
        batch,
        values=None,
        group_ids=torch.tensor(groups),
        turn_states=torch.tensor(states).view(rows, turns),
        turn_values=torch.tensor(states, dtype=torch.float64).view(rows, turns) / 3
        + batch.turn_rewards,
    )


def rewards_of(batch):
    """For each row its turns that have tokens, and their rewards with KL rewards."""
    found = []
    for ids, rewards, kl in zip(batch.turn_ids, batch.turn_rewards, batch.kl_rewards, strict=True):
        turns = sorted({int(each) for each in ids if each >= 0})
        found.append({turn: float(rewards[turn] + kl[ids == turn].sum()) for turn in turns})
    return found


def to_go(rewards, gamma):
    """Turn by turn what comes from it on; the turns that a row has are next to each other."""
    return {
        turn: sum(
            gamma**i * rewards[other]
            for i, other in enumerate(t for t in sorted(rewards) if t >= turn)
        )
        for turn in rewards
    }


def assert_turns(found, batch, expected):
    for row, ids in enumerate(batch.turn_ids):
        by_token = [0.0 if turn < 0 else expected[row][int(turn)] for turn in ids]
        torch.testing.assert_close(
            found.advantages[row], torch.tensor(by_token, dtype=torch.float64), rtol=1e-8, atol=1e-8
        )
    assert not found.value_mask.any()


def against_mean(own, peers, scale):
    if len(peers) < 2:
        return 0.0
    return (own - statistics.fmean(peers)) / ((statistics.stdev(peers) + 1e-6) if scale else 1.0)


@pytest.mark.parametrize("scale", [True, False])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_grpo_and_rloo_equal_arithmetic_on_lists(scale, data):
    batch = data.draw(batches(max_rows=6))
    groups = data.draw(
        st.lists(st.integers(-5, 5), min_size=len(batch.turn_ids), max_size=len(batch.turn_ids))
    )
    batch = dataclasses.replace(batch, group_ids=torch.tensor(groups), values=None)
    played = [bool(row.any()) for row in batch.mask]
    totals = [
        float(rewards.sum() + kl[mask].sum())
        for rewards, kl, mask in zip(batch.turn_rewards, batch.kl_rewards, batch.mask, strict=True)
    ]
    grpo, rloo = grouped.grpo(batch, scale=scale), grouped.rloo(batch)
    for b, total in enumerate(totals):
        group = [totals[c] for c in range(len(totals)) if groups[c] == groups[b] and played[c]]
        against_all = against_others = 0.0
        if played[b] and len(group) > 1:
            against_all = total - statistics.mean(group)
            if scale:
                against_all /= statistics.stdev(group) + 1e-6
            against_others = total - (sum(group) - total) / (len(group) - 1)
        row = batch.mask[b].double()
        torch.testing.assert_close(grpo.advantages[b], against_all * row, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(rloo.advantages[b], against_others * row, rtol=0, atol=1e-12)
    assert not grpo.value_mask.any()
    assert not rloo.value_mask.any()


@settings(max_examples=50, deadline=None)
@given(batch=comparable(), gamma=st.sampled_from([0.0, 0.9, 1.0]))
def test_rloo_by_turn_equals_arithmetic_on_lists(batch, gamma):
    groups, returns = batch.group_ids.tolist(), [to_go(each, gamma) for each in rewards_of(batch)]
    expected = []
    for row, own in enumerate(returns):
        others = [
            peer
            for other, peer in enumerate(returns)
            if groups[other] == groups[row] and other != row and peer
        ]
        baselines = {turn: [peer.get(turn, 0.0) for peer in others] for turn in own}
        expected.append(
            {turn: own[turn] - statistics.fmean(baselines[turn]) if others else 0.0 for turn in own}
        )
    assert_turns(grouped.rloo_turns(batch, gamma=gamma), batch, expected)


@settings(max_examples=50, deadline=None)
@given(
    batch=comparable(),
    gamma=st.sampled_from([0.0, 0.95, 1.0]),
    weight=st.sampled_from([0.0, 0.5, 1.0]),
    scale=st.booleans(),
)
def test_gigpo_equals_arithmetic_on_lists(batch, gamma, weight, scale):
    groups, states, rewards = (
        batch.group_ids.tolist(),
        batch.turn_states.tolist(),
        rewards_of(batch),
    )
    returns = [to_go(each, gamma) for each in rewards]
    expected = []
    for row, own in enumerate(returns):
        same = [other for other in range(len(groups)) if groups[other] == groups[row]]
        wholes = [sum(rewards[other].values()) for other in same if rewards[other]]
        of_episode = against_mean(sum(rewards[row].values()), wholes, scale) if own else 0.0
        expected.append({})
        for turn in own:
            met = [
                returns[other][t]
                for other in same
                for t in returns[other]
                if states[other][t] == states[row][turn]
            ]
            expected[row][turn] = of_episode + weight * against_mean(own[turn], met, scale)
    found = grouped.gigpo(batch, gamma=gamma, step_weight=weight, scale=scale)
    assert_turns(found, batch, expected)


@settings(max_examples=50, deadline=None)
@given(batch=comparable(), gamma=st.sampled_from([0.0, 0.9, 1.0]))
def test_vine_equals_arithmetic_on_lists(batch, gamma):
    expected = []
    for row, rewards in enumerate(rewards_of(batch)):
        turns = sorted(rewards)
        worth = {turn: float(batch.turn_values[row, turn]) for turn in turns}
        after = {turn: worth[following] for turn, following in itertools.pairwise(turns)}
        expected.append(
            {turn: rewards[turn] + gamma * after.get(turn, 0.0) - worth[turn] for turn in turns}
        )
    assert_turns(ppo.vine(batch, gamma=gamma), batch, expected)
    assert torch.equal(ppo.vine(batch).advantages, ppo.vine(batch, gamma=1.0).advantages)


@pytest.mark.parametrize("scale", [0.1, 1.0, 1000.0])
@pytest.mark.parametrize("name", ["grpo", "rloo", "rloo_turns", "gigpo"])
def test_identical_episodes_have_no_advantage(name, scale):
    """Rewards such as 0.1 have no exact sum: divided by its deviation, rounding became advantages of up to 1.57."""
    turn_ids = torch.arange(7).repeat_interleave(3).expand(8, -1).clone()
    rewards = (scale * torch.tensor([0.1, -0.1, 0.7, 0.3, -0.1, 1.1, 0.2])).expand(8, -1).clone()
    batch = Trajectories(
        turn_ids=turn_ids,
        turn_rewards=rewards,
        terminated=torch.ones(8, dtype=torch.bool),
        truncated=torch.zeros(8, dtype=torch.bool),
        group_ids=torch.zeros(8, dtype=torch.int64),
        turn_states=torch.arange(7).expand(8, -1).clone(),
    )
    assert getattr(grouped, name)(batch).advantages.abs().max() <= 1e-9 * scale
    rewards[0, 3] += 1e-3 * scale  # a difference that isn't rounding counts
    assert getattr(grouped, name)(batch).advantages[0].max() > 1e-5


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_equal_returns_in_other_parts_have_no_advantage(name):
    """Parts that are rounded to float32 add up to 1 but for 1e-7."""
    first = torch.linspace(0.03, 0.97, 8)
    batch = Trajectories(
        turn_ids=torch.tensor([0, 0, 1, 1]).expand(8, -1).clone(),
        turn_rewards=torch.stack([first, (1 - first.double()).float()], 1),
        terminated=torch.ones(8, dtype=torch.bool),
        truncated=torch.zeros(8, dtype=torch.bool),
        group_ids=torch.zeros(8, dtype=torch.int64),
    )
    assert getattr(grouped, name)(batch).advantages.abs().max() <= 1e-6
