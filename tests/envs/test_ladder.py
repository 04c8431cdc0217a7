"""The ladder: each rung is as it was, can be solved within its budget, and is harder than the one before."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.registration import load_env_creator
from oracle import finish

import measure_ladder
import vagen_envs  # noqa: F401
from vagen_envs.config import RUNGS
from vagen_envs.errors import ConfigError

GRIDS = ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"]
ALL = [*GRIDS, "vagen/Navigation-v0", "vagen/PrimitiveSkill-v0", "vagen/SVGReconstruction-v0"]
GOLDEN = Path(__file__).parent.parent / "golden" / "ladder.json"


def first_levels(env_id):
    """The contents of the first four test levels of each rung."""
    envs = [gym.make(env_id, difficulty=rung, split="test", observation="text") for rung in RUNGS]
    return [[env.reset(seed=seed)[1]["level"]["content"] for seed in range(4)] for env in envs]


@pytest.mark.parametrize("env_id", GRIDS)
def test_rungs_are_frozen(env_id):
    assert first_levels(env_id) == json.loads(GOLDEN.read_text())[env_id]


@pytest.mark.parametrize("env_id", GRIDS)
@pytest.mark.parametrize("rung", RUNGS)
def test_the_budget_suffices_for_the_oracle(env_id, rung):
    assert measure_ladder.success(env_id, rung, "oracle", 10) == 1


@pytest.mark.parametrize("env_id", GRIDS)
def test_noisy_play_solves_less_on_higher_rungs(env_id):
    low, middle, high = (measure_ladder.success(env_id, rung, "noisy", 32) for rung in (0, 2, 5))
    assert low > middle > high


def test_four_boxes_stand_off_target_and_long_levels_fit_their_turns():
    env = gym.make(
        "vagen/Sokoban-v0", num_boxes=4, dim_room=(8, 8), max_solution_length=12, observation="text"
    ).unwrapped
    for seed in range(20):
        state = env.reset(seed=seed)[1]["state"]
        assert len(set(state.boxes) - set(state.targets)) == 4
    long = {
        "dim_room": (8, 8),
        "min_solution_length": 20,
        "max_solution_length": 25,
        "observation": "text",
    }
    env = gym.make("vagen/Sokoban-v0", **long).unwrapped
    for seed in range(5):
        env.reset(seed=seed)
        assert finish(env)[-1].success


def test_what_is_given_wins_over_the_rung():
    config = gym.make("vagen/Sokoban-v0", difficulty=2, num_boxes=1, max_turns=9).unwrapped.config
    assert (config.difficulty, config.dim_room, config.num_boxes, config.max_turns) == (
        2,
        (7, 7),
        1,
        9,
    )


def test_what_is_no_task_and_no_size_is_an_error_of_configuration():
    for env_id, options in (
        (ALL[3], {"task": ["place"]}),
        (GRIDS[1], {"size": 10**12, "corners": True}),
    ):
        with pytest.raises(ConfigError, match=next(iter(options))):
            config_of(env_id, difficulty=4, **options)


def config_of(env_id, **options):
    """The configuration alone, which needs no simulator."""
    return load_env_creator(gym.spec(env_id).entry_point).config_class.create(**options)


@pytest.mark.parametrize("env_id", ALL)
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("actions", [1, 2, 4])
def test_turns_of_a_rung_follow_from_the_actions_of_one(env_id, rung, actions):
    usual, config = (
        config_of(env_id, difficulty=rung),
        config_of(env_id, difficulty=rung, max_actions_per_turn=actions),
    )
    assert config.max_turns >= usual.max_turns or actions > usual.max_actions_per_turn
    if actions >= usual.max_actions_per_turn and env_id not in GRIDS:
        assert config.max_turns == usual.max_turns


def test_turns_that_nobody_gave_give_way_and_those_that_are_given_do_not():
    assert config_of(ALL[2], difficulty=0, max_solution_length=40).max_turns == 8
    assert (
        config_of(
            ALL[2], preset="released", max_actions_per_turn=1, max_solution_length=16
        ).max_turns
        == 16
    )
    assert config_of(ALL[3], difficulty=2, max_actions_per_turn=1).max_turns == 4
    with pytest.raises(ConfigError, match=r"max_turns=3 .*at least 4"):
        config_of(ALL[3], difficulty=2, max_actions_per_turn=1, max_turns=3)


@pytest.mark.parametrize(
    ("task", "rung"), [("drawer", 1), ("align", 3), ("place", 4), ("place", 5)]
)
def test_a_task_that_a_rung_has_no_room_for_is_told(task, rung):
    with pytest.raises(ConfigError, match=f"task='{task}' .*beside difficulty={rung}"):
        config_of(ALL[3], difficulty=rung, task=task)
    assert config_of(ALL[3], difficulty=rung, task="stack").task == "stack"


def test_turns_follow_from_the_level_and_what_the_oracle_cannot_solve_is_refused():
    def made(**options):
        return gym.make("vagen/Sokoban-v0", **options).unwrapped.config

    assert made(max_solution_length=25).max_turns == 9
    assert made(max_actions_per_turn=1).max_turns == 9
    assert made(max_turns=2).max_solution_length == 6
    assert made(max_steps=4).max_solution_length == 4
    for options in (
        {"max_turns": 3, "max_solution_length": 10},
        {"max_steps": 5, "max_solution_length": 9},
    ):
        with pytest.raises(ConfigError, match="at least"):
            made(**options)
