"""`preset="released"` of the grids is VAGEN's released code, line by line of the table in docs/papers.md."""

from __future__ import annotations

import itertools

import gymnasium as gym
import pytest
from oracle import reply_of as reply

import vagen_envs  # noqa: F401

NAMES = ("Up", "Down", "Left", "Right")
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
    """At the second action: the first finds no box counted yet."""
    env = released(SOKOBAN, num_boxes=2, max_turns=60, max_actions_per_turn=1)
    for seed, first in itertools.product(range(200), NAMES):
        env.reset(seed=seed)
        env.step(reply(env, first))
        for action in NAMES:
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


def test_a_box_that_begins_on_its_target_is_paid_for_at_the_first_action():
    """As gym-sokoban counts, from 0: whatever the first action is, and once."""
    env = released(SOKOBAN, num_boxes=2, max_turns=60, max_actions_per_turn=1)
    tried = 0
    for seed in range(200):
        state = env.reset(seed=seed)[1]["state"]
        if not set(state.boxes) & set(state.targets):
            continue
        for action in NAMES:
            moment = env.snapshot()
            turn = env.step(reply(env, action))[4]["turn"]
            if turn.before.boxes == turn.after.boxes:
                tried += 1
                assert terms(turn)["box_on_target"] == 1.0
                env.restore(env.snapshot())
                again = env.step(reply(env, action))[4]["turn"]
                assert again.before.boxes != again.after.boxes or (
                    "box_on_target" not in terms(again)
                )
            env.restore(moment)
        if tried > 8:
            break
    assert tried > 8
    ours = gym.make(SOKOBAN, num_boxes=2, boxes_on_target=True).unwrapped
    for seed in range(40):
        ours.reset(seed=seed)
        turn = ours.step(reply(ours, "Up"))[4]["turn"]
        assert turn.before.boxes != turn.after.boxes or "box_on_target" not in terms(turn)


@pytest.mark.parametrize("env_id", [SOKOBAN, LAKE])
def test_there_and_back_again_is_not_effective(env_id):
    options = {} if env_id == SOKOBAN else {"desc": ("SFF", "FFF", "FFG")}
    env, ours = released(env_id, **options), gym.make(env_id, **options).unwrapped
    seen = set()
    for one, seed in ((one, seed) for one in (env, ours) for seed in range(30)):
        state = one.reset(seed=seed)[1]["state"]
        for there, back in (("Up", "Down"), ("Left", "Right"), ("Down", "Up"), ("Right", "Left")):
            one.reset(seed=seed)
            turn = one.step(reply(one, there, back))[4]["turn"]
            moved = all(each.effective for each in turn.executed) and len(turn.executed) == 2
            if moved and turn.after.player == state.player:
                seen.add((one is env, turn.metrics["action_is_effective"]))
    assert seen == {(True, False), (False, True)}


@pytest.mark.parametrize("env_id", [SOKOBAN, LAKE])
def test_what_follows_the_action_that_ends_the_episode_is_not_read(env_id):
    options = {"max_turns": 60}
    for one, pays in (
        (released(env_id, **options), True),
        (gym.make(env_id, **options).unwrapped, False),
    ):
        one.reset(seed=3)
        while len(one.plan()) > 1:
            one.step(reply(one, one.plan()[0]))
            assert one._running
        turn = one.step(reply(one, one.plan()[0], "Sideways"))[4]["turn"]
        assert turn.success
        assert ("format" in terms(turn)) is pays
        assert turn.metrics["action_is_valid"] is pays


@pytest.mark.parametrize("env_id", [SOKOBAN, LAKE])
def test_names_are_read_with_regard_to_case(env_id):
    for one, counts in ((released(env_id), 0), (gym.make(env_id).unwrapped, 1)):
        one.reset(seed=3)
        turn = one.step(reply(one, "up"))[4]["turn"]
        assert len(turn.executed) == counts
