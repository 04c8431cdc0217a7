"""The search for levels of `vagen/Navigation-v0`: it ends, and what it skips would have been no level."""

from __future__ import annotations

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.errors import LevelError
from vagen_envs.navigation import levels
from vagen_envs.navigation.search import fewest_moves, shortest_path

pytest.importorskip("mujoco")
pytestmark = pytest.mark.sim


def make(**options):
    return gym.make("vagen/Navigation-v0", observation="text", **options).unwrapped


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"difficulty": 5, "rooms": 1}, "min_solution_length=48 .* ask for rooms=2 or more"),
        (
            {"rooms": 2, "min_solution_length": 90, "max_solution_length": 99},
            "rooms=2 .* widen the window",
        ),
    ],
)
def test_a_search_for_levels_that_are_nowhere_ends(options, says, monkeypatch):
    monkeypatch.setattr(levels, "_MOST_LOOKS", 100)
    monkeypatch.setattr(levels, "_MOST_HOUSES", 10)
    with pytest.raises(LevelError, match=says):
        make(**options).reset(seed=0)


def test_no_way_is_shorter_than_without_things_in_it():
    env = make(difficulty=1)
    for seed in range(5):
        env.reset(seed=seed)
        start, target = env.simulator.pose, env.episode.target_position
        fewest = fewest_moves(start, target, env.config.step_length, env.config.success_threshold)
        path = shortest_path(
            start, target, env.simulator.blocked, step=0.25, threshold=1.0, longest=99
        )
        free = shortest_path(start, target, lambda *_: False, step=0.25, threshold=1.0, longest=99)
        assert fewest == len(free) <= len(path)


def test_a_room_with_a_full_corner_is_a_level():
    """One in some thousand rooms has things where the agent's model begins: contacts by the hundred."""
    env = make(room="bedroom", step_length=0.5, max_actions_per_turn=2, max_turns=4, facing="any")
    env.reset(seed=1001149, options={"split": "train"})
    assert env.plan()
    assert env.simulator.house.kind == "bedroom"
