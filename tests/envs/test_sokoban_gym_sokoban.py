"""`generator="gym-sokoban"`: levels of that package's own generator, the same for a seed everywhere."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest

import vagen_envs  # noqa: F401
from perf import peers
from vagen_envs.conformance import check
from vagen_envs.errors import LevelError, MissingExtraError
from vagen_envs.seeding import HashStream, content_hash
from vagen_envs.sokoban import gym_sokoban
from vagen_envs.sokoban.gym_sokoban import GymSokobanRooms

WINDOW = {"min_solution_length": 1, "max_solution_length": 12}


def sokoban(**options):
    options = {"generator": "gym-sokoban", "split": "test", **options}
    return gym.make("vagen/Sokoban-v0", **options).unwrapped


def test_rooms_are_those_that_the_package_makes_of_the_same_numbers(monkeypatch):
    """Its environment is reset with the stream's numbers; of its rooms the split's first is ours."""
    peer = peers.sokoban_env(6, 6, 2)
    module = peers.gym_sokoban().room_utils
    for seed in range(5):
        drawn = gym_sokoban._FromStream(HashStream("test", seed))
        monkeypatch.setattr(module, "random", drawn)
        monkeypatch.setattr(module, "np", gym_sokoban._Numpy(drawn))
        ours = GymSokobanRooms().draw(
            HashStream("test", seed), "test", size=(6, 6), num_boxes=2, shortest=1, longest=30
        )
        for _ in range(100):
            peer.reset()
            theirs = gym_sokoban._level(peer.room_fixed, peer.room_state)
            if theirs == ours:
                break
        assert theirs == ours
        length = peers.shortest_solution(peer.room_fixed, peer.room_state, 30)
        assert length is not None


def test_levels_are_in_the_window_and_of_the_split():
    env = sokoban(**WINDOW)
    lengths = []
    for seed in range(40):
        state = env.reset(seed=seed)[1]["state"]
        assert not set(state.boxes) & set(state.targets)
        lengths.append(len(env.plan()))
    assert min(lengths) == 1
    assert 1 <= max(lengths) <= 12
    found = [
        {
            env.reset(seed=seed, options={"split": split})[1]["level"]["content"]
            for seed in range(30)
        }
        for split in ("train", "test")
    ]
    assert not found[0] & found[1]


def test_a_seed_names_the_same_level_whatever_the_global_generators_and_threads():
    def level(seed):
        random.seed(seed + 1)
        np.random.seed(seed + 2)  # noqa: NPY002 - what the package would draw from
        return sokoban(**WINDOW).reset(seed=seed % 8)[1]["level"]["content"]

    before = random.getstate()
    alone = [level(seed) for seed in range(8)]
    assert random.getstate() != before  # by the test, which seeds it
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(level, range(16))) == alone * 2
    assert content_hash("".join(alone).encode()) == "02fc9c55ffcf48215c2925db70d296f9"


def test_the_global_generators_stay_as_they_are():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    sokoban().reset(seed=3)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002
    assert "gym" not in sys.modules
    assert "gym_sokoban" not in sys.modules


def test_it_is_an_environment_of_the_contract():
    check("vagen/Sokoban-v0", seeds=(0, 1), generator="gym-sokoban", **WINDOW)


def test_a_window_without_rooms_is_an_error(monkeypatch):
    monkeypatch.setattr(gym_sokoban, "_MOST_ROOMS", 3)
    env = sokoban(min_solution_length=25, max_solution_length=25)
    with pytest.raises(LevelError, match="none of 3 rooms of gym-sokoban"):
        env.reset(seed=1)


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gym_sokoban", None)
    with pytest.raises(MissingExtraError, match=r"vagen-envs\[gym-sokoban\]"):
        sokoban()
