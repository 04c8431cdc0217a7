"""`preset="released"` of the grids is VAGEN's released code, line by line of the table in docs/paper.md."""

from __future__ import annotations

import gymnasium as gym
import pytest
from oracle import reply_of as reply

import vagen_envs  # noqa: F401

SOKOBAN, LAKE = "vagen/Sokoban-v0", "vagen/FrozenLake-v0"


def released(env_id, **options):
    return gym.make(env_id, preset="released", **options).unwrapped


def terms(turn):
    return {term.name: term.value for term in turn.rewards}


def test_sokoban_takes_min_actions_to_succeed_for_a_maximum():
    env = released(SOKOBAN)
    lengths = [len(env.plan()) for seed in range(200) if env.reset(seed=seed)]
    assert set(lengths) == {1, 2, 3, 4, 5}


def test_sokoban_boxes_may_begin_on_targets():
    env = released(SOKOBAN, num_boxes=2)
    states = [env.reset(seed=seed)[1]["state"] for seed in range(200)]
    assert any(set(state.boxes) & set(state.targets) for state in states)


def test_sokoban_adds_the_rewards_of_a_push_and_the_solving_one_costs_a_step_too():
    env = released(SOKOBAN)
    env.reset(seed=3)
    for move in list(env.plan())[:-3]:
        env.step(reply(env, move))
    turn = env.step(reply(env, *env.plan()))[4]["turn"]
    assert turn.success
    assert terms(turn) == pytest.approx(
        {"box_on_target": 1.0, "success": 10.0, "step": -0.1 * len(turn.executed), "format": 0.5}
    )


def test_sokoban_takes_one_for_a_box_pushed_off_a_target():
    env = released(SOKOBAN, num_boxes=2, max_turns=60, max_actions_per_turn=1)
    for seed in range(200):
        env.reset(seed=seed)
        for action in ("Up", "Down", "Left", "Right"):
            moment = env.snapshot()
            turn = env.step(reply(env, action))[4]["turn"]
            if "box_off_target" in terms(turn):
                assert terms(turn)["box_off_target"] == -1.0
                return
            env.restore(moment)
    raise AssertionError("no box could be pushed off a target at the start of 200 levels")


def test_the_lake_is_gymnasiums_corner_to_corner_and_costs_no_steps():
    env = released(LAKE)
    for seed in range(60):
        state = env.reset(seed=seed)[1]["state"]
        assert (state.player, state.target) == ((0, 0), (3, 3))
        assert len(env.plan()) == 6
    turn = env.step(reply(env, env.plan()[0]))[4]["turn"]
    assert terms(turn) == {"format": 0.5}


@pytest.mark.parametrize("env_id", [SOKOBAN, LAKE])
def test_reasoning_is_required_and_replies_are_read_as_there(env_id):
    env = released(env_id)
    env.reset(seed=1)
    bare = (
        "<think><observation>x</observation><prediction>y</prediction></think><answer>Up</answer>"
    )
    turn = env.step(bare)[4]["turn"]
    assert "format" not in terms(turn)
    assert env.config.parsing == "released"
