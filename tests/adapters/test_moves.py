"""Numbered moves and pictures: the same episodes as by replies, without the reward for a format."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from vagen_adapters.moves import Moves
from vagen_envs.errors import ConfigError

GRIDS = ("vagen/FrozenLake-v0", "vagen/Sokoban-v0")
STRATEGIES = ("no_think", "free_think", "grounding", "grounding_world_modeling")


@pytest.mark.parametrize("env_id", GRIDS)
@pytest.mark.parametrize("moves_per_turn", [1, 3])
def test_gymnasiums_checks_pass(env_id, moves_per_turn):
    env = Moves(gym.make(env_id), moves_per_turn)
    check_env(env, skip_render_check=True)
    assert env.observation_space.dtype == np.uint8
    space = gym.spaces.Discrete(4)
    if moves_per_turn > 1:
        space = gym.spaces.MultiDiscrete([4] * moves_per_turn)
    assert env.action_space == space


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(GRIDS),
    st.sampled_from(STRATEGIES),
    st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=4),
    st.integers(0, 50),
)
def test_an_episode_is_that_of_the_replies_without_the_format_reward(env_id, strategy, moves, seed):
    options = {"strategy": strategy, "max_turns": 4}
    env = Moves(gym.make(env_id, **options), moves_per_turn=2)
    plain = gym.make(env_id, format_reward=0.0, **options)
    picture, info = env.reset(seed=seed)
    assert info == {}
    assert np.array_equal(picture, plain.reset(seed=seed)[0]["image"])
    over = False
    for chosen in moves:
        if over:
            break
        picture, reward, terminated, truncated, info = env.step(np.array(chosen))
        answer = ",".join(env.names[number] for number in chosen)
        assert f"<answer>{answer}</answer>" in env.turn.reply
        seen, *expected, about = plain.step(env.turn.reply)
        assert np.array_equal(picture, seen["image"])
        assert reward == pytest.approx(expected[0])
        assert [terminated, truncated] == expected[1:]
        assert env.turn.executed == about["turn"].executed
        assert env.turn.parsed.format_correct
        assert info == {"is_success": about["turn"].success}
        over = terminated or truncated
    assert (env.turn is None) == (not moves)


@pytest.mark.parametrize("env_id", GRIDS)
def test_a_solved_episode_earns_nothing_for_the_format_of_turns_that_are_left(env_id):
    options = {"difficulty": 0, "max_turns": 20}
    env, plain = Moves(gym.make(env_id, **options)), gym.make(env_id, format_reward=0.0, **options)
    env.reset(seed=1)
    plain.reset(seed=1)
    terminated = False
    while not terminated:
        answer = plain.unwrapped.oracle_reply().rsplit("<answer>", 1)[1]
        move = re.match(r"\w+", answer)[0]
        _, reward, terminated, _, info = env.step(env.names.index(move))
        assert reward == pytest.approx(plain.step(env.turn.reply)[1])
    assert info == {"is_success": True}
    assert "remaining_format" in {term.name for term in env.turn.rewards}


@pytest.mark.parametrize(
    ("env_id", "options", "moves_per_turn", "message"),
    [
        ("vagen/Sample-v0", {}, 1, "actions are not names"),
        (GRIDS[0], {"observation": "text"}, 1, "has no picture"),
        (GRIDS[0], {}, 4, "moves_per_turn=4 is not valid: it must be from 1 to"),
        (GRIDS[0], {}, 0, "moves_per_turn=0"),
    ],
)
def test_what_numbers_cannot_say_is_refused(env_id, options, moves_per_turn, message):
    with pytest.raises(ConfigError, match=message):
        Moves(gym.make(env_id, **options), moves_per_turn)


def test_names_of_ones_own_are_written():
    env = Moves(gym.make(GRIDS[0], action_names=("west", "south", "east", "north")))
    env.reset(seed=1)
    env.step(2)
    assert "<answer>east</answer>" in env.turn.reply
    assert [action.text for action in env.turn.executed] == ["east"]


def test_it_works_in_vectors_without_a_row_for_the_end():
    envs = gym.make_vec(
        GRIDS[0],
        num_envs=3,
        vectorization_mode="async",
        wrappers=[Moves],
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        max_turns=1,
        num_levels=2,
    )
    try:
        first, _ = envs.reset(seed=0)
        pictures, _, _, truncated, infos = envs.step([0, 1, 2])
        assert first.shape == pictures.shape == (3, 128, 128, 3)
        over = truncated | (infos["final_info"]["is_success"])
        assert over.all() or not truncated.all()
    finally:
        envs.close()
