"""A split or level that a reset names holds until another is named, also through automatic resets."""

from __future__ import annotations

import gymnasium as gym
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_envs.errors import ConfigError, SnapshotError
from vagen_envs.seeding import SPLITS

ID = "vagen/FrozenLake-v0"
SHORT = {"max_turns": 1, "max_actions_per_turn": 9, "observation": "text"}
REPLY = "<answer>Up</answer>"


def ending_each_turn():
    return gym.make(ID, **SHORT).unwrapped


def splits_seen(vector, turns):
    """The splits of all episodes that a vector environment begins."""
    seen = set()
    for _ in range(turns):
        *_, terminated, truncated, infos = vector.step([REPLY] * vector.num_envs)
        seen |= {level["split"] for level in levels_of(infos)}
        if vector.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            _, infos = vector.reset(options={"reset_mask": terminated | truncated})
            seen |= {level["split"] for level in levels_of(infos)}
    return seen


def levels_of(infos):
    found = infos["level"]
    names = found["split"]
    return [{"split": name} for name in names]


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("vectorization_mode", ["sync", "async"])
def test_vector_environments_stay_in_the_split(mode, vectorization_mode):
    vector = gym.make_vec(
        ID,
        num_envs=2,
        vectorization_mode=vectorization_mode,
        vector_kwargs={"autoreset_mode": mode},
        **SHORT,
    )
    try:
        vector.reset(seed=3, options={"split": "test"})
        assert splits_seen(vector, 6) == {"test"}
        vector.reset(options={"split": "val"})
        assert splits_seen(vector, 4) == {"val"}
    finally:
        vector.close()


def test_a_level_holds_until_a_seed_a_split_or_another_level_is_named():
    env = ending_each_turn()

    def played(**asked):
        level = env.reset(**asked)[1]["level"]
        return level["split"], level["seed"]

    assert played(options={"level": 5}) == ("train", 5)
    assert played() == ("train", 5)
    assert played(options={"level": 6}) == ("train", 6)
    assert played(options={"level": None, "split": None}) == ("train", 6)
    assert played(seed=9) == ("train", 9)
    assert played()[1] not in (5, 6, 9)
    assert played(options={"split": "val", "level": 4}) == ("val", 4)
    assert played() == ("val", 4)
    assert played(options={"split": "test"})[1] != 4
    assert played()[0] == "test"


def test_a_configured_level_outlasts_seeds_and_splits():
    env = gym.make(ID, level=7, **SHORT).unwrapped
    env.reset(options={"level": 3})
    assert env.reset()[1]["level"]["seed"] == 3
    assert env.reset(seed=1)[1]["level"]["seed"] == 7


def test_a_refused_reset_names_nothing():
    env = ending_each_turn()
    env.reset(options={"split": "test"})
    with pytest.raises(ConfigError):
        env.reset(options={"split": "dev"})
    with pytest.raises(ConfigError):
        env.reset(seed=-1, options={"split": "val"})
    assert env.reset()[1]["level"]["split"] == "test"


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(SPLITS),
    st.none() | st.integers(0, 2**31),
)
def test_a_snapshot_holds_the_choice(split, level):
    env, other = ending_each_turn(), ending_each_turn()
    env.reset(seed=1)
    env.reset(options={"split": split, "level": level})
    other.restore(env.snapshot())
    assert other.reset()[1]["level"] == env.reset()[1]["level"]


@pytest.mark.parametrize("choice", [["dev", None], ["test", -1], ["test", True], ["test"], None, 1])
def test_a_forged_choice_is_refused(choice):
    import json
    import zlib

    env = ending_each_turn()
    env.reset(seed=1)
    head, body = env.snapshot().split(b"\n")
    parts = json.loads(body)
    parts[-1] = choice
    rest = json.dumps(parts).encode()
    with pytest.raises(SnapshotError):
        env.restore(b"%b%08x\n%b" % (head[:-8], zlib.crc32(rest), rest))
