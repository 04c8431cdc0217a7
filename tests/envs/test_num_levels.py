"""`num_levels`: episodes draw from the first levels of a split, which stay those of their seeds."""

from __future__ import annotations

import gymnasium as gym
import published
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vagen_envs.errors import ConfigError
from vagen_envs.seeding import SPLITS

ID = "vagen/FrozenLake-v0"
TEXT = {"observation": "text"}


def made(**options):
    return gym.make(ID, **TEXT, **options).unwrapped


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**31 - 1), st.sampled_from(SPLITS))
def test_a_seed_plays_the_level_of_its_remainder(num_levels, seed, split):
    few, all_levels = made(num_levels=num_levels, split=split), made(split=split)
    level = few.reset(seed=seed)[1]["level"]
    assert level == all_levels.reset(seed=seed % num_levels)[1]["level"]
    assert few.level_count == num_levels
    assert few.reset(seed=level["seed"])[1]["level"] == level


def test_unseeded_episodes_draw_all_of_them_and_no_other():
    env = made(num_levels=3)
    env.reset(seed=8)
    assert {env.reset()[1]["level"]["seed"] for _ in range(60)} == {0, 1, 2}


def test_training_levels_are_none_of_test():
    env = made(num_levels=40)
    drawn = {
        split: {
            env.reset(seed=seed, options={"split": split})[1]["level"]["content"]
            for seed in range(40)
        }
        for split in ("train", "test")
    }
    assert not drawn["train"] & drawn["test"]


def test_a_level_beyond_them_is_refused():
    env = made(num_levels=3)
    assert env.reset(options={"level": 2})[1]["level"]["seed"] == 2
    with pytest.raises(ConfigError, match=r"no level=3.*has 3"):
        env.reset(options={"level": 3})
    for wrong in (0, -1, 1.5, "4"):
        with pytest.raises(ConfigError, match="num_levels"):
            made(num_levels=wrong)


def test_published_levels_are_at_most_as_many_as_there_are(tmp_path):
    options = published.boards(tmp_path)
    for asked, count in ((2, 2), (3, 3), (9, 3)):
        env = gym.make("vagen/Sokoban-v0", num_levels=asked, split="test", **options).unwrapped
        assert env.level_count == count
        contents = {env.reset(seed=seed)[1]["level"]["content"] for seed in range(12)}
        assert contents == set(published.contents(options)[:count])
