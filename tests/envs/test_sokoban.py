"""Sokoban against gym-sokoban (moves, rewards, pictures) and against a plain forward search (lengths)."""

from __future__ import annotations

import functools
import itertools
import random
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import finish, reply_of

import vagen_envs  # noqa: F401
from perf import peers
from vagen_envs.errors import ConfigError, LevelError
from vagen_envs.grid import ACTIONS
from vagen_envs.seeding import HashStream
from vagen_envs.sokoban.levels import cells, draw_level, inside, longest_solution
from vagen_envs.sokoban.solver import Solutions
from vagen_envs.sokoban.splits import split_of_board

CONFIGURATIONS = [
    {},
    {"preset": "released"},
    {"num_boxes": 2},
    {"dim_room": (7, 9), "num_boxes": 3},
    {"dim_room": (10, 10), "num_boxes": 4},
    {"dim_room": (5, 5), "min_solution_length": 1},
]


@pytest.fixture(scope="module", autouse=True)
def tiles_read_once():
    """gym-sokoban reads seven files for each picture, nearly all of its time."""
    drawing = peers.gym_sokoban().render_utils
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            drawing, "imageio", SimpleNamespace(imread=functools.cache(drawing.imageio.imread))
        )
        yield


def peer_at(state):
    """gym-sokoban's environment standing in the same position."""
    peer = peers.sokoban_env(state.height, state.width, len(state.boxes))
    fixed = np.zeros((state.height, state.width), int)
    for cell in range(state.height * state.width):
        fixed[divmod(cell, state.width)] = state.floor >> cell & 1
    for target in state.targets:
        fixed[target] = 2
    room = fixed.copy()
    for box in state.boxes:
        room[box] = 3 if box in state.targets else 4
    room[state.player] = 5
    peer.room_fixed, peer.room_state = fixed, room
    peer.player_position = np.array(state.player)
    peer.num_env_steps = peer.reward_last = 0
    peer.boxes_on_target = sum(box in state.targets for box in state.boxes)
    peer.box_mapping = {}
    return peer


@pytest.mark.parametrize("options", CONFIGURATIONS)
def test_moves_rewards_and_pictures_are_those_of_gym_sokoban(options):
    env = gym.make(
        "vagen/Sokoban-v0",
        **{"box_off_target_reward": -1.0, "format_reward": 0.0, **options},
        max_turns=1000,
        max_steps=1000,
    )
    chooser = random.Random(0)
    for seed in range(8):
        observation, info = env.reset(seed=seed)
        peer = peer_at(info["state"])
        assert np.array_equal(peer.render("rgb_array"), observation["image"])
        for _ in range(60):
            action = chooser.choice(ACTIONS)
            observation, reward, terminated, _, info = env.step(reply_of(env, action))
            _, peer_reward, peer_done, _ = peer.step(1 + ACTIONS.index(action))
            # gym-sokoban also takes 0.1 off the step that solves it; table 16 doesn't.
            kept = 0.0 if options.get("preset") == "released" else 0.1
            assert reward == pytest.approx(peer_reward + kept * terminated)
            assert terminated == peer_done
            assert np.array_equal(peer.render("rgb_array"), observation["image"])
            if terminated:
                break


@pytest.mark.parametrize("options", CONFIGURATIONS)
def test_solution_lengths_are_exact_and_in_the_window(options):
    env = gym.make("vagen/Sokoban-v0", split="test", **options).unwrapped
    config = env.config
    for seed in range(12):
        state = env.reset(seed=seed)[1]["state"]
        peer = peer_at(state)
        length = peers.shortest_solution(
            peer.room_fixed, peer.room_state, config.max_solution_length
        )
        assert length == len(env.plan())
        assert config.min_solution_length <= length <= config.max_solution_length
        assert len(state.boxes) == len(state.targets) == config.num_boxes


def test_the_oracle_solves_every_test_level():
    env = gym.make("vagen/Sokoban-v0", split="test")
    for seed in range(500):
        env.reset(seed=seed)
        assert finish(env)[-1].success, seed


def test_the_oracle_finds_its_way_back_from_anywhere_or_says_that_a_box_is_stuck():
    env = gym.make("vagen/Sokoban-v0", max_turns=1000, max_steps=1000).unwrapped
    chooser = random.Random(1)
    stuck = solved = 0
    for seed in range(40):
        env.reset(seed=seed)
        for _ in range(4):
            if env.step(f"<answer>{chooser.choice(ACTIONS)}</answer>")[2]:
                break
        try:
            while env._running:
                env.step(env.oracle_reply())
            solved += 1
        except LevelError as error:
            assert "stuck" in str(error)  # noqa: PT017
            stuck += 1
    assert solved > 10
    assert stuck > 0


@given(st.integers(0, 10**9))
def test_boards_are_walled_and_hold_what_they_should(seed):
    level = draw_level(
        HashStream(seed), "train", height=7, width=6, num_boxes=2, shortest=3, longest=12
    )
    edge = [c for c in range(42) if c // 6 in (0, 6) or c % 6 in (0, 5)]
    assert not any(level.floor >> cell & 1 for cell in edge)
    for mask in (level.targets, level.boxes, 1 << level.player):
        assert mask & level.floor == mask
    assert level.boxes.bit_count() == level.targets.bit_count() == 2
    assert not level.boxes >> level.player & 1


def test_an_impossible_window_is_refused_with_the_fix():
    env = gym.make(
        "vagen/Sokoban-v0", dim_room=(5, 8), min_solution_length=59, max_solution_length=60
    )
    with pytest.raises(LevelError, match="widen the window"):
        env.reset(seed=1)


def test_states_read_as_in_the_paper():
    from vagen_envs.sokoban.state import SokobanState

    # The board of VAGEN's appendix C.1: #####, #_P_#, #_XO#, ###_#, #####.
    floor = sum(
        1 << row * 5 + column
        for row, column in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 3)]
    )
    state = SokobanState(5, 5, floor, (1, 2), ((2, 2),), ((2, 3),))
    assert state.symbolic() == "#####\n#_P_#\n#_XO#\n###_#\n#####"
    assert state.structured() == (
        "{player_position: (1, 2), box_positions: [(2, 2)], target_positions: [(2, 3)], grid_size: (5, 5)}"
    )
    assert state.sentences() == (
        "box0 is below and at the same column as the player",
        "target0 is below and on the right side of the player",
        "target0 is at the same row and to the right of box0",
    )
    solved = SokobanState(5, 5, floor, (2, 3), ((1, 2),), ((2, 3),))
    assert solved.symbolic().splitlines()[1:3] == ["#_X_#", "#__S#"]
    assert (
        SokobanState(5, 5, floor, (1, 1), ((2, 3),), ((2, 3),)).symbolic().splitlines()[2]
        == "#__*#"
    )


@pytest.mark.parametrize("scale", [2, 5])
def test_scale_enlarges_the_same_picture(scale):
    small = gym.make("vagen/Sokoban-v0").reset(seed=3)[0]["image"]
    large = gym.make("vagen/Sokoban-v0", scale=scale).reset(seed=3)[0]["image"]
    assert np.array_equal(large, np.kron(small, np.ones((scale, scale, 1), np.uint8)))


def test_no_test_board_lies_elsewhere_in_the_frame_in_train():
    def boards(split, count):
        env = gym.make("vagen/Sokoban-v0", split=split, observation="text")
        states = [env.reset(seed=seed)[1]["state"] for seed in range(count)]
        return {
            (state.floor, sum(1 << 6 * row + column for row, column in state.targets))
            for state in states
        }

    train, test = boards("train", 3000), boards("test", 3000)
    inner = sum(1 << 6 * row + column for row in range(1, 5) for column in range(1, 5))
    moved = set()
    for floor, targets in test:
        for there in range(1, 21):
            for shift in (int.__lshift__, int.__rshift__):
                floor_there = shift(floor, there)
                if not floor_there & ~inner and floor_there.bit_count() == floor.bit_count():
                    moved.add((floor_there, shift(targets, there)))
    assert len(moved) > 100
    assert moved & test  # such boards are drawn
    assert not moved & train
    for floor, targets in moved:
        assert split_of_board(cells(floor), cells(targets), 6) == "test"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"min_solution_length": 60, "max_solution_length": 60},
            "min_solution_length=60 .*at most 25.*raise dim_room",
        ),
        (
            {"dim_room": (7, 5), "min_solution_length": 26, "max_solution_length": 30},
            "at most 25: no room of 7x5",
        ),
        (
            {"dim_room": (5, 5), "num_boxes": 4},
            "num_boxes=4 .*on 5x5 cells so many can't all begin off target",
        ),
    ],
)
def test_longer_solutions_than_a_room_has_are_refused(options, says):
    with pytest.raises(ConfigError, match=says):
        gym.make("vagen/Sokoban-v0", **options)


@pytest.mark.parametrize("boxes", [1, 2, 3])
def test_no_small_room_takes_more_moves_than_was_counted(boxes):
    """Of all rooms of 5x5 cells, here counted anew."""
    ground, longest = cells(inside(5, 5)), {False: 0, True: 0}
    for chosen in itertools.product((0, 1), repeat=len(ground)):
        floor = sum(taken << cell for taken, cell in zip(chosen, ground, strict=True))
        room = floor & -floor
        for _ in ground:
            room = (room | room << 1 | room >> 1 | room << 5 | room >> 5) & floor
        for targets in itertools.combinations(cells(floor), boxes) if room == floor else ():
            solutions = Solutions(5, floor, sum(1 << cell for cell in targets))
            solutions.extend(60)
            for depth, layer in enumerate(solutions.layers):
                for may in longest:
                    if any(may or not at & solutions.targets for at in layer):
                        longest[may] = max(longest[may], depth)
    assert longest == {may: longest_solution(5, 5, boxes, may) for may in longest}
