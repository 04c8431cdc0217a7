"""FrozenLake against Gymnasium's own."""

from __future__ import annotations

import json
import random
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv as TheirLake
from oracle import finish, reply_of

import vagen_envs  # noqa: F401
from vagen_envs.config import RUNGS
from vagen_envs.errors import ConfigError, LevelError
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.grid import ACTIONS

THEIRS = ("Left", "Down", "Right", "Up")


def their_map(state: FrozenLakeState) -> list[str]:
    letters = {"_": "F", "O": "H", "G": "G", "P": "S"}
    return ["".join(letters[symbol] for symbol in row) for row in state.symbolic().splitlines()]


def play_beside(env, theirs, chooser):
    """The last turn of an episode in both, or None where sixty moves end nothing."""
    for _ in range(60):
        action = chooser.choice([*ACTIONS, *env.plan()])
        turn = env.step(reply_of(env, action))[4]["turn"]
        cell, reward, over, *_ = theirs.step(THEIRS.index(action))
        at = divmod(int(cell), theirs.desc.shape[1])
        assert (turn.after.player, turn.terminated, turn.success) == (at, over, reward == 1)
        if over:
            return turn
    return None


@pytest.mark.parametrize(
    "options", [{}, {"size": 8, "max_solution_length": 14}, {"preset": "released"}]
)
def test_moves_and_ends_are_those_of_gymnasium(options):
    env = gym.make("vagen/FrozenLake-v0", **options, max_turns=100).unwrapped
    chooser, ends = random.Random(0), Counter()
    for seed in range(60):
        theirs = TheirLake(desc=their_map(env.reset(seed=seed)[1]["state"]), is_slippery=False)
        theirs.reset(seed=0)
        if (turn := play_beside(env, theirs, chooser)) is not None:
            ends[turn.success] += 1
    assert min(ends.values()) > 3


@pytest.mark.parametrize(
    "desc",
    [
        ["SFFFF", "FHFHF", "FFFFG"],
        ["SG"],
        [["S", "F"], ["H", "F"], ["F", "G"]],
        ["SFG", "FHF", "FFG"],
        np.asarray(["SFF", "FHG"], dtype="c"),
        ["SFS", "FFG"],
    ],
    ids=str,
)
def test_maps_are_those_that_gymnasium_takes(desc):
    env, copy = (
        gym.make("vagen/FrozenLake-v0", desc=desc, max_turns=100).unwrapped for _ in range(2)
    )
    theirs = TheirLake(desc=desc, is_slippery=False)
    shape, chooser, starts = theirs.desc.shape, random.Random(0), set()
    for seed in range(20):
        observation, info = env.reset(seed=seed)
        assert observation["image"].shape == (32 * shape[0], 32 * shape[1], 3)
        starts.add(info["state"].player)
        theirs.reset(seed=0)
        theirs.s = int(np.ravel_multi_index(info["state"].player, shape))
        play_beside(env, theirs, chooser)
        goals = (env.true_state.target, *env.true_state.more_targets)
        assert sorted(goals) == [tuple(map(int, at)) for at in np.argwhere(theirs.desc == b"G")]
    assert len(starts) == (theirs.desc == b"S").sum()
    copy.restore(env.snapshot())
    read = type(env.true_state).from_json(json.loads(json.dumps(env.true_state.to_json())))
    assert copy.true_state == env.true_state == read


def test_slippery_steps_go_where_gymnasiums_go_a_third_each():
    desc = ("FFFFF", "FFFFF", "FFSFF", "FFFFF", "FFFFG")
    env = gym.make("vagen/FrozenLake-v0", desc=desc, is_slippery=True, min_solution_length=1)
    for action in ACTIONS:
        seen = Counter()
        for seed in range(900):
            env.reset(seed=seed)
            seen[env.step(f"<answer>{action}</answer>")[4]["state"].player] += 1
        theirs = TheirLake(desc=desc, is_slippery=True)
        expected = {divmod(int(to), 5) for _, to, *_ in theirs.P[12][THEIRS.index(action)]}
        assert set(seen) == expected
        assert all(240 < count < 360 for count in seen.values())


def test_slips_follow_from_the_seed_and_imagination_sees_them():
    env = gym.make("vagen/FrozenLake-v0", is_slippery=True).unwrapped
    for seed in range(30):
        env.reset(seed=seed)
        expected = env.imagine(["Up", "Left"])
        turn = env.step("<answer>Up,Left</answer>")[4]["turn"]
        assert turn.after == expected


def test_the_oracle_solves_every_test_level_within_the_window():
    env = gym.make("vagen/FrozenLake-v0", split="test")
    for seed in range(500):
        env.reset(seed=seed)
        assert 5 <= len(env.unwrapped.plan()) <= 9
        assert finish(env)[-1].success, seed


def test_the_best_blind_string_solves_less_than_a_twentieth():
    """Of all 4^9 strings of nine moves, on Gymnasium's own tables, in which holes and the goal hold one fast."""
    env = gym.make("vagen/FrozenLake-v0", split="test", observation="text")
    solved = np.zeros(4**9, int)
    for seed in range(500):
        state = env.reset(seed=seed)[1]["state"]
        steps = TheirLake(desc=their_map(state), is_slippery=False).P
        table = np.array(
            [[steps[cell][action][0][1] for cell in range(16)] for action in range(4)], np.int8
        )
        at = np.array([4 * state.player[0] + state.player[1]], np.int8)
        for _ in range(9):
            at = table[:, at].ravel()
        solved += at == 4 * state.target[0] + state.target[1]
    assert 0 < solved.max() / 500 < 0.05


@pytest.mark.parametrize(
    ("desc", "message"),
    [
        (("SFF", "FFGF"), "rectangle"),
        (("SFX", "FFF", "FFG"), "letters"),
        (("FFF", "FFF", "FFG"), "an S"),
        (("SHF", "HHF", "FFG"), "no way"),
    ],
)
def test_wrong_maps_are_refused(desc, message):
    with pytest.raises(ConfigError, match=message):
        gym.make("vagen/FrozenLake-v0", desc=desc)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"size": 3, "min_solution_length": 9},
            "min_solution_length=9 .*at most 6, the longest way on 3x3",
        ),
        ({"difficulty": 5, "size": 4}, "min_solution_length=24 .*at most 10.*raise size"),
        (
            {"corners": True, "size": 8, "max_solution_length": 9},
            "max_solution_length=9 .*at least 14",
        ),
        ({"corners": True, "max_turns": 1}, "max_solution_length=3 .*at least 6.*max_turns"),
        ({"corners": True, "min_solution_length": 7, "max_solution_length": 7}, "at least 8"),
    ],
)
def test_an_impossible_window_is_refused_with_the_fix(options, says):
    with pytest.raises(ConfigError, match=says):
        gym.make("vagen/FrozenLake-v0", **options)


def test_a_window_that_few_lakes_fit_is_told_at_the_reset():
    env = gym.make(
        "vagen/FrozenLake-v0", size=3, split="val"
    )  # of its 5 to 6 moves there are few maps
    with pytest.raises(LevelError, match=r"in val .*widen the window"):
        env.reset(seed=1)


@pytest.mark.parametrize("options", [{"preset": "released"}, {"corners": True}])
@pytest.mark.parametrize(
    "more", [{"size": 8}, {"size": 16}, *({"difficulty": rung} for rung in RUNGS)]
)
def test_from_corner_to_corner_there_are_lakes_of_every_size_and_rung(options, more):
    env = gym.make("vagen/FrozenLake-v0", observation="text", **options, **more).unwrapped
    for seed in range(2):
        env.reset(seed=seed)
        assert env.true_state.player == (0, 0)
        assert finish(env)[-1].success


def test_states_read_as_in_the_paper():
    state = FrozenLakeState(4, (3, 1), (0, 3), ((1, 0), (2, 2)))
    assert state.symbolic() == "___G\nO___\n__O_\n_P__"
    assert state.structured() == (
        "{player_position: (3, 1), target_position: (0, 3), hole_positions: [(1, 0), (2, 2)], grid_size: (4, 4)}"
    )
    assert state.sentences() == (
        "target is above and on the right side of the player",
        "hole0 is above and on the left side of the player",
        "hole1 is above and on the right side of the player",
    )
    assert FrozenLakeState(3, (0, 0), (2, 2), ((0, 0),)).symbolic() == "X__\n___\n__G"
    assert FrozenLakeState(3, (2, 2), (2, 2), ()).symbolic() == "___\n___\n__*"


def test_the_picture_shows_each_thing_where_it_is():
    env = gym.make("vagen/FrozenLake-v0", desc=("SFH", "FFF", "FFG"))
    image = env.reset()[0]["image"]
    tiles = {
        (row, column): image[32 * row : 32 * row + 32, 32 * column : 32 * column + 32].tobytes()
        for row in range(3)
        for column in range(3)
    }
    frozen = tiles[1, 1]
    assert [at for at, tile in tiles.items() if tile != frozen] == [(0, 0), (0, 2), (2, 2)]
    assert len(set(tiles.values())) == 4
    moved = env.step("<answer>Down</answer>")[0]["image"]
    assert moved[32:64, :32].tobytes() == tiles[0, 0]
    assert moved[:32, :32].tobytes() == frozen
    assert np.array_equal(moved[64:], image[64:])


def test_words_about_slipping_are_true():
    """What is told of an action is where the player came to, whatever was meant; and each case occurs."""
    env = gym.make(
        "vagen/FrozenLake-v0", is_slippery=True, max_actions_per_turn=1, max_turns=9
    ).unwrapped
    moved = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}
    told = Counter()
    for seed in range(60):
        env.reset(seed=seed)
        for name in ("Up", "Left", "Down", "Right", "Up", "Right"):
            turn = env.step(reply_of(env, name))[4]["turn"]
            (done,) = turn.executed
            step = tuple(b - a for a, b in zip(turn.before.player, turn.after.player, strict=True))
            if "did not move you" in done.feedback:
                kind = "stood still"
                assert step == (0, 0)
            elif "slipped: you went" in done.feedback:
                kind = "slipped"
                went = done.feedback.split("you went ")[1].split(".")[0]
                assert step == moved[went] != moved[name]
            else:
                kind = "went"
                assert step == moved[name]
            assert ("fell into a hole" in done.feedback) == (turn.after.player in turn.after.holes)
            assert "edge" not in done.feedback
            assert done.feedback in turn.result.text
            told[kind] += 1
            if turn.terminated:
                break
    assert min(told.values()) > 20
    assert set(told) == {"stood still", "slipped", "went"}
