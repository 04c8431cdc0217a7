"""A seed means the same level everywhere, and no level is in two splits."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_envs.grid import canonical, symmetries
from vagen_envs.seeding import SPLITS, HashStream, split_of

GOLDEN = Path(__file__).parent.parent / "golden" / "levels.json"
CONFIGURATIONS = {
    "sokoban": ("vagen/Sokoban-v0", {}),
    "sokoban released": ("vagen/Sokoban-v0", {"preset": "released"}),
    "sokoban 8x9 2 boxes": ("vagen/Sokoban-v0", {"dim_room": (8, 9), "num_boxes": 2}),
    "frozen lake": ("vagen/FrozenLake-v0", {}),
    "frozen lake 7x7": ("vagen/FrozenLake-v0", {"size": 7, "max_solution_length": 12}),
    "frozen lake slippery": ("vagen/FrozenLake-v0", {"is_slippery": True}),
}


def level_hash(env_id: str, options: dict, split: str) -> str:
    """A hash over the first states and pictures of 128 levels."""
    env = gym.make(env_id, split=split, **options)
    digest = hashlib.sha256()
    for seed in range(128):
        observation, info = env.reset(seed=seed)
        digest.update(json.dumps([info["state"].to_json(), info["level"]], sort_keys=True).encode())
        digest.update(observation["image"].tobytes())
    return digest.hexdigest()


def all_hashes() -> dict[str, str]:
    return {
        f"{name}, {split}": level_hash(env_id, options, split)
        for name, (env_id, options) in CONFIGURATIONS.items()
        for split in SPLITS
    }


@pytest.fixture(scope="module")
def golden() -> dict[str, str]:
    return json.loads(GOLDEN.read_text())


def test_levels_are_the_same_in_a_process_with_another_hash_seed(golden):
    code = "import json, test_seeding; print(json.dumps(test_seeding.all_hashes()))"
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "12345",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == golden


def test_levels_are_the_golden_ones_in_threads_too(golden):
    """If this fails on purpose, the environment needs a new version: its scores can't be compared any more."""
    jobs = {
        (name, split): (env_id, options, split)
        for name, (env_id, options) in CONFIGURATIONS.items()
        for split in SPLITS
    }
    with ThreadPoolExecutor(8) as pool:
        hashes = list(pool.map(lambda job: level_hash(*job), jobs.values()))
    assert {
        f"{name}, {split}": each for (name, split), each in zip(jobs, hashes, strict=True)
    } == golden


@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
def test_splits_share_no_level_in_thousands(env_id):
    contents = {}
    for split in SPLITS:
        env = gym.make(env_id, split=split)
        contents[split] = {env.reset(seed=seed)[1]["level"]["content"] for seed in range(1500)}
        assert len(contents[split]) > 50
    assert not contents["train"] & contents["test"]
    assert not contents["train"] & contents["val"]
    assert not contents["val"] & contents["test"]


@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
def test_prompts_rewards_and_budgets_do_not_move_levels(env_id):
    plain, other = (
        gym.make(env_id),
        gym.make(env_id, strategy="no_think", max_turns=7, format_reward=0.0, scale=2),
    )
    for seed in range(20):
        assert plain.reset(seed=seed)[1] == other.reset(seed=seed)[1]


@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
def test_there_are_thousands_of_test_levels(env_id):
    env = gym.make(env_id, split="test", observation="text").unwrapped
    contents = {env.reset(seed=seed)[1]["level"]["content"] for seed in range(10_000)}
    assert len(contents) >= 2_000


@given(st.lists(st.integers(), max_size=4), st.integers(1, 700))
def test_a_stream_follows_from_its_key(key, count):
    one, other = HashStream(*key), HashStream(*key)
    drawn = [one.bits(17) for _ in range(count)]
    assert drawn == [other.bits(17) for _ in range(count)]
    assert one.child(3).bits(64) == HashStream(*key).child(3).bits(64) != one.child(4).bits(64)


@given(st.integers(1, 10**6), st.integers())
def test_draws_are_in_range(bound, key):
    stream = HashStream(key)
    assert 0 <= stream.below(bound) < bound
    assert 0 <= stream.random() < 1
    assert 2.0 <= stream.uniform(2.0, 3.0) <= 3.0
    items = list(range(20))
    assert len(set(stream.sample(items, 7)) & set(items)) == 7
    shuffled = items[:]
    stream.shuffle(shuffled)
    assert sorted(shuffled) == items


def test_draws_are_uniform():
    stream = HashStream("uniform")
    counts = [0] * 10
    for _ in range(20_000):
        counts[stream.below(10)] += 1
    assert all(1_800 < count < 2_200 for count in counts)


def test_splits_have_their_shares():
    counts = dict.fromkeys(SPLITS, 0)
    for i in range(10_000):
        counts[split_of(b"%d" % i)] += 1
    assert abs(counts["train"] - 8_000) < 200
    assert abs(counts["val"] - 1_000) < 120
    assert abs(counts["test"] - 1_000) < 120


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_boards_that_are_turned_or_mirrored_are_the_same(height, width, data):
    cells = bytes(
        data.draw(st.lists(st.integers(0, 3), min_size=height * width, max_size=height * width))
    )
    images = set(map(bytes, np.frombuffer(cells, np.uint8)[symmetries(height, width)]))
    assert len(images) <= (8 if height == width else 4)
    lying = sorted((height, width))  # a standing board is laid down
    assert {canonical(image, *lying) for image in images} == {canonical(cells, height, width)}
    other = bytes([cells[0] ^ 4, *cells[1:]])
    assert canonical(other, height, width) != canonical(cells, height, width)
