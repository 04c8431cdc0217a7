"""Done means seen: success and state are what the pictures show."""

from __future__ import annotations

import functools
import json

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_envs.seeding import HashStream

LAKE, SOKOBAN = "vagen/FrozenLake-v0", "vagen/Sokoban-v0"
NAVIGATION = "vagen/Navigation-v0"
SIMULATED = (NAVIGATION, "vagen/PrimitiveSkillPlace-v0", "vagen/SVGReconstruction-v0")


def make(env_id, **options):
    if "SVG" in env_id:
        options["scorer"] = "classical"
    return gym.make(env_id, disable_env_checker=True, **options).unwrapped


def single_turns(env_id, seeds, turns=6):
    """Turns of one random action each: state before, picture before, turn."""
    env = make(env_id)
    for seed in seeds:
        env.reset(seed=seed)
        stream = HashStream("contracts", seed)
        for _ in range(turns):
            if not env._running:
                break
            actions = list(env.random_actions(stream, 1))
            words = dict.fromkeys(("observation", "reasoning", "prediction"), "I act.")
            seen = env.observed.picture.sha256
            turn = env.step(env.grammar.render(actions, **words))[4]["turn"]
            yield seen, turn, env.observed.picture.sha256
    env.close()


@pytest.mark.parametrize(
    "env_id",
    [
        LAKE,
        SOKOBAN,
        pytest.param(NAVIGATION, marks=pytest.mark.sim),
        # PrimitiveSkill's poses are rounded: tests/envs/test_states_and_pictures.py compares those
        pytest.param("vagen/SVGReconstruction-v0", marks=pytest.mark.sim),
    ],
)
def test_what_changes_a_picture_changes_the_state(env_id):
    """Equal states look equal: a turn that leaves the state alone leaves the picture alone."""
    seeds, turns = (range(12), 6) if env_id in (LAKE, SOKOBAN) else (range(1), 5)
    pictures = {}
    for before, turn, after in single_turns(env_id, seeds, turns):
        for state, picture in ((turn.before, before), (turn.after, after)):
            key = (turn.level["content"], json.dumps(state.to_json(), sort_keys=True))
            assert pictures.setdefault(key, picture) == picture, state


@given(seed=st.integers(0, 10**6), turns=st.integers(0, 6))
@settings(max_examples=25)
def test_sokoban_is_done_when_every_box_stands_on_a_target(seed, turns):
    """Read off the board that the picture draws: no box beside its target is left."""
    env = make(SOKOBAN, representation="symbolic", observation="both")
    env.reset(seed=seed)
    for _ in range(turns):
        if not env._running:
            break
        turn = env.step(env.oracle_reply())[4]["turn"]
        board = turn.after.describe("symbolic")
        assert turn.success == ("X" not in board)


def test_a_lake_is_done_when_the_player_stands_on_the_goal():
    """The solved picture is the one in which the goal's cell shows the player."""
    for seed in range(20):
        env = make(LAKE)
        env.reset(seed=seed)
        while env._running:
            turn = env.step(env.oracle_reply())[4]["turn"]
            assert turn.success == (turn.after.player == turn.after.target)
            assert turn.terminated == turn.success


@functools.cache
def navigation_ends():
    """Of some levels: the oracle's last state, its episode's success, and whether the target shows."""
    from segmentation import segmented

    found = []
    env = make(NAVIGATION)
    for seed in range(6):
        env.reset(seed=seed)
        while env._running:
            turn = env.step(env.oracle_reply())[4]["turn"]
        shown = segmented(env.simulator)
        kinds = [each.kind for each in env.simulator.house.objects]
        wanted = [number for number, kind in enumerate(kinds) if kind == env.episode.target_type]
        found.append((turn.success, int(np.isin(shown, wanted).sum())))
    env.close()
    return found


@pytest.mark.sim
def test_navigation_is_done_when_the_target_is_in_sight():
    """A solved episode's last picture shows the object, in pixels that MuJoCo's segmentation counts."""
    pytest.importorskip("mujoco")
    ends = navigation_ends()
    assert any(success for success, _ in ends)
    assert all(pixels > 0 for success, pixels in ends if success), ends


@pytest.mark.parametrize("env_id", [LAKE, SOKOBAN])
def test_a_statement_is_judged_against_what_pictures_show(env_id):
    """Two levels that look alike are judged alike: the judge knows no more than the state, nor it than the picture."""
    from vagen_rewards import RuleJudge
    from vagen_rewards.scores import Statement

    env = make(env_id)
    env.reset(seed=5)
    one = env.true_state
    moment = env.snapshot()
    env.step("hm")
    other = env.true_state
    assert one == other
    env.restore(moment)
    for text in one.sentences():
        scores = {
            RuleJudge().score(Statement("grounding", text, state)).value for state in (one, other)
        }
        assert len(scores) == 1
