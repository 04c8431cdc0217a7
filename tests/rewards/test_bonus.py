"""The term that a solved episode earns for the turns it leaves, and the budgets it depends on."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.core import RewardTerm
from vagen_envs.errors import ConfigError
from vagen_envs.frozen_lake.env import FrozenLakeEnv
from vagen_rewards.bonus import REMAINING, Budget, budget_of, remaining

LAKE = "vagen/FrozenLake-v0"


@pytest.fixture(scope="module")
def solved():
    """The turn that solves a lake at once."""
    env = gym.make(LAKE, disable_env_checker=True, desc=("SG", "FF")).unwrapped
    env.reset(seed=0)
    turn = env.step(env.oracle_reply())[4]["turn"]
    assert turn.terminated
    assert turn.success
    return turn


def paid(turn, **values):
    """The turn with these terms."""
    return dataclasses.replace(turn, rewards=terms(**values))


def terms(**values):
    return tuple([RewardTerm(name, value) for name, value in values.items()])


def test_turns_that_are_left_earn_the_mean_of_those_that_were_played(solved):
    """Terms of the reasoning alone, in this turn and in those before it."""
    earlier = [
        paid(solved, grounding=0.5, world_modeling=0.25, format=9.0, success=10.0),
        paid(solved, grounding=0.25, repetition=-0.1, remaining_reasoning=0.7),
    ]
    turn = dataclasses.replace(solved, index=2)
    (term,) = remaining(turn, terms(grounding=0.5, world_modeling=0.3), earlier, turns=7)
    assert term.name == REMAINING
    assert term.value == pytest.approx((0.75 + 0.85 + 0.8) / 3 * 4)


def test_a_first_turn_that_solves_earns_its_own_terms_for_each_turn_left(solved):
    assert remaining(solved, terms(grounding=0.5), (), turns=3) == terms(remaining_reasoning=1.0)
    assert remaining(solved, terms(grounding=0.5), (), turns=2) == terms(remaining_reasoning=0.5)


@pytest.mark.parametrize(
    "change", [{"terminated": False}, {"metrics": {"success": False}}, {"index": 2}, {"index": 5}]
)
def test_an_episode_that_goes_on_fails_or_has_no_turn_left_earns_nothing(solved, change):
    turn = dataclasses.replace(solved, **change)
    assert remaining(turn, terms(grounding=0.5), (), turns=3) == ()


@pytest.mark.parametrize("value", [-0.5, 0.0])
def test_words_that_cost_are_no_fine_for_turns_that_are_left(solved, value):
    assert remaining(solved, terms(grounding=value), (), turns=9) == ()


def test_budgets_follow_from_options_without_an_environment():
    """The share scales bonuses of longer budgets down to that of the paper's three turns."""
    assert budget_of(LAKE, {}) == Budget(3, 1.0)
    assert budget_of(LAKE, {"max_turns": 12}) == Budget(12, 0.25)
    assert budget_of(LAKE, {"preset": "released", "max_turns": 6}) == Budget(6, 0.5)
    made = {"render_mode": "rgb_array", "disable_env_checker": True, "max_episode_steps": 5}
    assert budget_of(LAKE, {**made, "max_turns": 4}) == Budget(4, 0.75)


def test_options_may_be_paths(tmp_path):
    assert budget_of(LAKE, {"prompt_pack": tmp_path, "max_turns": 6}) == Budget(6, 0.5)


def test_presets_may_have_budgets_of_their_own():
    for preset in ("paper", "released"):
        env = gym.make("vagen/Sokoban-v0", preset=preset, disable_env_checker=True).unwrapped
        share = env.config.bonus_share
        assert budget_of("vagen/Sokoban-v0", {"preset": preset}) == (env.config.max_turns, share)


def test_wrong_options_and_environments_are_named():
    with pytest.raises(ConfigError, match="max_turnz"):
        budget_of(LAKE, {"max_turnz": 3})
    with pytest.raises(ConfigError, match="nobody/Env-v0"):
        budget_of("nobody/Env-v0", {})


def test_an_environment_made_by_a_function_is_asked_for_its_budget():
    def make(**options):
        return FrozenLakeEnv(**options)

    gym.register("own/Lake-v0", make, kwargs={"max_turns": 6})
    try:
        assert budget_of("own/Lake-v0", {}) == Budget(6, 0.5)
        assert budget_of("own/Lake-v0", {"max_turns": 4}) == Budget(4, 0.75)
    finally:
        del gym.registry["own/Lake-v0"]
