"""Seeds, splits and the data of others: levels follow from the seed, and published data keeps its order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_envs.errors import ConfigError

GRIDS = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")
SPLITS = ("train", "val", "test")
ELSEWHERE = """
import json, sys, gymnasium, vagen_envs
found = []
for env_id in ("vagen/Sokoban-v0", "vagen/FrozenLake-v0"):
    env = gymnasium.make(env_id).unwrapped
    for split in ("train", "val", "test"):
        for seed in (0, 7, 2**31 - 1):
            shown, info = env.reset(seed=seed, options={"split": split})
            found.append([info["level"], shown["text"], env.observed.picture.sha256])
print(json.dumps(found))
"""


def elsewhere(hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], env=environment, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def test_a_level_is_the_same_in_every_process():
    """Nothing but id, version, configuration, split and seed decides on a level, nor its picture."""
    found = []
    for env_id in GRIDS:
        env = gym.make(env_id).unwrapped
        env.reset(seed=99)  # what was played before doesn't matter
        for split in SPLITS:
            for seed in (0, 7, 2**31 - 1):
                shown, info = env.reset(seed=seed, options={"split": split})
                found.append([info["level"], shown["text"], env.observed.picture.sha256])
    assert json.loads(json.dumps(found)) == elsewhere(1) == elsewhere(2)


@pytest.mark.parametrize("env_id", GRIDS)
@given(seeds=st.lists(st.integers(0, 2**31 - 1), min_size=2, max_size=12, unique=True))
@settings(max_examples=15)
def test_splits_are_disjoint_by_content(env_id, seeds):
    """No level of one split is a level of another, whatever the seeds."""
    env = gym.make(env_id, disable_env_checker=True).unwrapped
    contents = {split: set() for split in SPLITS}
    for split in SPLITS:
        for seed in seeds:
            level = env.reset(seed=seed, options={"split": split})[1]["level"]
            assert level["split"] == split
            contents[split].add(level["content"])
    assert not contents["train"] & contents["val"]
    assert not contents["train"] & contents["test"]
    assert not contents["val"] & contents["test"]


@pytest.mark.parametrize("env_id", GRIDS)
def test_a_configuration_has_levels_of_its_own(env_id):
    """Options that shape levels are part of what a level follows from; others are not."""
    same = {"max_turns": 9, "strategy": "no_think", "observation": "text"}
    other = {"dim_room": (7, 7)} if "Sokoban" in env_id else {"size": 5}
    contents = [
        gym.make(env_id, **options).unwrapped.reset(seed=4)[1]["level"]["content"]
        for options in ({}, same, other)
    ]
    assert contents[0] == contents[1] != contents[2]


def board(width):
    """A board that is solved by pushing its box right, `width` floor cells wide."""
    walls = "#" * (width + 4)
    return "\n".join([walls, "#@$" + " " * (width - 1) + ".#", walls])


@pytest.fixture
def published(tmp_path):
    """Boards in three folders; one of the test boards can't be solved and one is a repetition."""
    boards = {"train": [2, 3, 4, 5], "valid": [6, 7], "test": [10, 8, "bad", 8, 9]}
    for folder, widths in boards.items():
        (tmp_path / folder).mkdir()
        texts = [
            "#####\n#@#$#\n#.  #\n#####" if width == "bad" else board(width) for width in widths
        ]
        (tmp_path / folder / "boards.txt").write_text("\n\n".join(texts) + "\n")
    return str(tmp_path)


def made(path, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = gym.make(
            "vagen/Sokoban-v0",
            boards=path,
            render_mode="ansi",
            disable_env_checker=True,
            **options,
        ).unwrapped
    return env, [str(each.message) for each in caught]


def test_published_data_keeps_its_own_split_and_order(published):
    """A data set's test set is its test set, in its order; each level is played once by index."""
    widths = {}
    for split in SPLITS:
        env, _ = made(published, split=split)
        widths[split] = []
        for index in range(env.level_count):
            env.reset(options={"level": index})
            widths[split].append(len(env.render().replace("#", "")))
        by_seed = [env.reset(seed=seed)[1]["level"]["content"] for seed in range(env.level_count)]
        by_index = [
            env.reset(options={"level": index})[1]["level"]["content"]
            for index in range(env.level_count)
        ]
        assert by_seed == by_index
        assert len(set(by_index)) == env.level_count
        with pytest.raises(ConfigError, match="there is no level"):
            env.reset(options={"level": env.level_count})
    assert {split: len(found) for split, found in widths.items()} == {
        "train": 4,
        "val": 2,
        "test": 3,
    }
    assert widths["train"] == sorted(widths["train"])
    longest, shortest, middle = widths["test"]
    assert shortest < middle < longest


def test_what_cannot_be_played_is_skipped_and_counted(published):
    """A board without a solution and a repetition are left out, and one warning says how many."""
    _, said = made(published, split="test")
    _, again = made(published, split="train")
    messages = [each for each in [*said, *again] if "left out" in each]
    assert messages
    assert " 2 of 11 boards are left out" in messages[0]
