"""A moment of an environment as bytes: brought back in another process, refused when it is somebody else's."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import operator
import pickle
import subprocess
import sys
import zlib

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_adapters.two_player_sokoban.seat import TwoPlayerSokobanSeat
from vagen_envs.errors import (
    ConfigError,
    EpisodeOverError,
    LevelError,
    SimulatorError,
    SnapshotError,
)
from vagen_envs.frozen_lake.env import FrozenLakeEnv
from vagen_envs.spaces import MAX_TEXT_LENGTH

SOKOBAN, LAKE = "vagen/Sokoban-v0", "vagen/FrozenLake-v0"
SAFE = ("SFFF", "FFFF", "FFFF", "FFHG")
"""A lake in which few moves don't end an episode."""


def played(env_id=SOKOBAN, **options):
    env = gym.make(env_id, **options).unwrapped
    env.reset(seed=7)
    env.reset(options={"split": "val"})
    turn = env.step("<answer>Up</answer>")[4]["turn"]
    assert turn.executed
    env.step("Nonsense \ud800 é")
    return env


def rest(env):
    """What is to be seen from here on, by replies that no oracle chose."""
    seen = []
    for reply in ("<answer>Left,Left</answer>", "nothing", "<answer>Down,Right,Up</answer>"):
        if env._running:
            observation, *scores, info = env.step(reply)
            seen.append(
                [
                    info["turn"].to_json(),
                    scores,
                    observation.get("image", np.zeros(1)).tobytes().hex(),
                ]
            )
    return [*seen, *(env.reset()[1]["level"] for _ in range(3)), env.np_random.integers(1000)]


def forged(snapshot, body):
    """A snapshot of the same environment that says `body`, with a right checksum."""
    head = snapshot.split(b"\n", 1)[0].rsplit(b" ", 1)[0]
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"%b %08x\n%b" % (head, zlib.crc32(text), text)


def body_of(snapshot):
    return json.loads(snapshot.split(b"\n")[1])


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        (SOKOBAN, {}),
        (SOKOBAN, {"observation": "text", "max_turns": 9}),
        (LAKE, {"is_slippery": True, "max_turns": 20}),
    ],
)
def test_another_process_goes_on_from_a_snapshot_byte_for_byte(env_id, options, tmp_path):
    env = played(env_id, **options)
    (tmp_path / "moment").write_bytes(env.snapshot())
    code = (
        "import json, pathlib, sys, gymnasium; sys.path.insert(0, 'tests/envs'); import test_snapshots as t\n"
        f"env = gymnasium.make({env_id!r}, **{options!r}).unwrapped\n"
        f"env.restore(pathlib.Path({str(tmp_path / 'moment')!r}).read_bytes())\n"
        "print(json.dumps(t.rest(env), default=int))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == json.loads(json.dumps(rest(env), default=int))


@pytest.mark.parametrize(
    "how", [copy.deepcopy, copy.copy, lambda env: pickle.loads(pickle.dumps(env))]
)
def test_copies_go_on_alone(how):
    env = gym.make(LAKE, is_slippery=True, max_turns=20)  # with Gymnasium's wrappers
    env.reset(seed=3)
    env.step("<answer>Up</answer>")
    twin = how(env)
    assert twin.spec == env.spec
    if (
        how is copy.copy
    ):  # a shallow copy of a wrapper holds the same environment; of an environment it is a new one
        twin = how(env.unwrapped)
    before = env.unwrapped.snapshot()
    ahead = rest(twin.unwrapped)
    assert env.unwrapped.snapshot() == before
    assert rest(env.unwrapped) == ahead


@pytest.mark.parametrize("env_id", [SOKOBAN, LAKE, "vagen/SVGReconstruction-v0", "vagen/Sample-v0"])
def test_a_seed_of_numpy_is_the_seed(env_id):
    env, other = (gym.make(env_id, observation="text").unwrapped for _ in range(2))
    level = env.reset(seed=np.arange(5)[3])[1]["level"]
    assert json.dumps(level) == json.dumps(other.reset(seed=3)[1]["level"])
    assert copy.deepcopy(env).snapshot() == env.snapshot() == other.snapshot()


def test_before_the_first_reset_and_after_the_end_there_is_a_moment_too():
    fresh = gym.make(SOKOBAN).unwrapped
    moment, twin = fresh.snapshot(), played()
    twin.restore(moment)
    with pytest.raises(EpisodeOverError):
        twin.step("x")
    with pytest.raises(EpisodeOverError):
        _ = twin.observed
    assert [twin.reset()[1]["level"] for _ in range(3)] == [
        fresh.reset()[1]["level"] for _ in range(3)
    ]
    while env_goes_on(fresh):
        pass
    twin.restore(fresh.snapshot())
    assert twin.observed == fresh.observed
    with pytest.raises(EpisodeOverError):
        twin.step("x")


def env_goes_on(env):
    _, _, terminated, truncated, _ = env.step("nothing")
    return not (terminated or truncated)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ((LAKE, {}), r"of vagen/Sokoban-v0, not of vagen/FrozenLake-v0"),
        ((SOKOBAN, {"max_turns": 4}), "with other options"),
        ((SOKOBAN, {"num_boxes": 2}), "with other options"),
        ((SOKOBAN, {"split": "test"}), "with other options"),
    ],
)
def test_a_snapshot_of_something_else_is_refused_and_changes_nothing(other, message):
    env = gym.make(other[0], **other[1]).unwrapped
    env.reset(seed=1)
    before = env.snapshot()
    with pytest.raises(SnapshotError, match=message):
        env.restore(played().snapshot())
    assert env.snapshot() == before
    env.step("x")


def test_the_same_prompts_elsewhere_are_the_same_configuration(tmp_path):
    for name in ("one", "two", "three"):
        (tmp_path / name / "sokoban").mkdir(parents=True)
        (tmp_path / name / "sokoban" / "first.txt").write_text(f"$view {len(name) == 5}")
    moment = played(prompt_pack=str(tmp_path / "one")).snapshot()
    played(prompt_pack=str(tmp_path / "two")).restore(moment)
    with pytest.raises(SnapshotError, match="other options"):
        played(prompt_pack=str(tmp_path / "three")).restore(moment)


EPISODE, CONTENT, TURNS, STEPS, RUNNING, TEXT, WORLD, STATE, PIXELS = 2, *range(2, 10)
"""Places: of the episode in a snapshot; in the episode, of the counts, the text that was shown, the
world, and a state and pixels that are carried.
"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def with_one(items, path, value):
    """Items within items, one of which is another."""
    place, *rest = path
    return [
        *items[:place],
        with_one(items[place], rest, value) if rest else value,
        *items[place + 1 :],
    ]


@pytest.mark.parametrize("env_id", [SOKOBAN, LAKE, "two players"])
@given(
    JSON
    | st.sampled_from([-1, 10**9, 2**40, 10**30, True, "zz", "dev", {"bit_generator": "MT19937"}])
)
def test_whatever_is_said_is_refused_or_playable(env_id, value):
    options = {"is_slippery": True} if env_id == LAKE else {}
    env = (
        TwoPlayerSokobanSeat() if env_id == "two players" else gym.make(env_id, **options).unwrapped
    )
    env.reset(seed=7)
    if env_id == LAKE:
        env.step("<answer>Up</answer>")  # its world is the actions that were played
    good = env.snapshot()
    body = body_of(good)
    places = [(i,) for i in range(len(body))] + [(EPISODE, i) for i in range(len(body[EPISODE]))]
    places += [(EPISODE, WORLD, i) for i in range(len(body[EPISODE][WORLD]))]
    for said in (value, body[:2], [*body, 1], *(with_one(body, place, value) for place in places)):
        try:
            env.restore(forged(good, said))
        except SnapshotError:
            env.restore(good)
            assert env.snapshot() == good
            continue
        with contextlib.suppress(
            LevelError, EpisodeOverError
        ):  # stuck boxes, and the end of an episode
            env.step("<answer>Up</answer>")
            env.step(env.oracle_reply())


@given(st.binary(max_size=300))
def test_no_bytes_are_believed(data):
    env = played()
    for snapshot in (
        data,
        bytearray(data),
        str(data),
        None,
        env._heading + data,
        forged(env.snapshot(), data),
    ):
        with pytest.raises(SnapshotError):
            env.restore(snapshot)


def test_a_generator_of_another_kind_is_said_and_one_of_the_users_own_is_kept():
    env = played()
    env.np_random = np.random.Generator(np.random.PCG64(99))
    twin = played()
    twin.restore(env.snapshot())
    assert rest(twin) == rest(env)
    env.np_random = np.random.Generator(np.random.MT19937(1))
    with pytest.raises(SnapshotError, match="JSON"):
        env.snapshot()


def test_seats_of_one_table_are_copied_together():
    from vagen_adapters import vagen_two_player_sokoban_v0

    env = vagen_two_player_sokoban_v0.parallel_env()
    env.reset(seed=4)
    twin = copy.deepcopy(env)
    assert twin.players[0].table is twin.players[1].table is twin.table is not env.table
    while env.agents:
        replies = env.oracle_replies()
        assert twin.oracle_replies() == replies
        one, other = env.step(replies), twin.step(replies)
        assert one[1:4] == other[1:4]
        for agent, observation in one[0].items():
            assert np.array_equal(observation["image"], other[0][agent]["image"])


@pytest.mark.parametrize(
    ("env_id", "place", "wrong"),
    [
        *(
            pytest.param(
                "vagen/Navigation-v0",
                (EPISODE, STATE, "visible_objects"),
                seen,
                marks=pytest.mark.sim,
            )
            for seen in ([{}], [["Chair"]], 7, None, [[1, 2, 3]])
        ),
        *(
            ("vagen/Sample-v0", (EPISODE, PIXELS), pixels)
            for pixels in ("", "AAAA", "?", 7, None, [])
        ),
    ],
)
def test_what_is_carried_and_is_none_is_refused(env_id, place, wrong):
    pytest.importorskip("mujoco" if "Navigation" in env_id else "math_verify")
    env = gym.make(env_id).unwrapped
    env.reset(seed=1)
    good = env.snapshot()
    body = body_of(good)
    functools.reduce(operator.getitem, place[:-1], body)[place[-1]] = wrong
    with pytest.raises(SnapshotError):
        env.restore(forged(good, body))
    env.restore(good)
    env.step("x")


def said_of_an_episode(env, **changes):
    """A snapshot of this moment, in which the episode says something else."""
    body = body_of(env.snapshot())
    for name, value in changes.items():
        body[EPISODE][globals()[name]] = value
    return forged(env.snapshot(), body)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"TURNS": 3}, "the budget is spent, but the episode goes on"),
        ({"STEPS": 9, "WORLD": ["Up"] * 9}, "the budget is spent, but the episode goes on"),
        ({"TURNS": -1}, "-1 is no number of levels, turns or steps"),
        ({"STEPS": True}, "True is no number of levels, turns or steps"),
        ({"STEPS": 0}, "more or fewer than were counted"),
        ({"WORLD": ["Down", "Fly"]}, "an action can't be read"),
        ({"RUNNING": 1}, "a level is malformed"),
        ({"CONTENT": None}, "a level is malformed"),
        ({"CONTENT": "another"}, "it was drawn by another version"),
        ({"TEXT": "x" * (MAX_TEXT_LENGTH + 1)}, "no text, or too long"),
        ({"TEXT": None}, "no text, or too long"),
    ],
)
def test_an_episode_that_cannot_be_is_refused_and_none_is_running(changes, said):
    env = gym.make(LAKE, desc=SAFE, max_turns=3, max_steps=9).unwrapped
    env.reset(seed=7)
    env.step("<answer>Down,Right</answer>")
    good = env.snapshot()
    with pytest.raises(SnapshotError, match=rf"the snapshot's inside is wrong .*{said}.*; restore"):
        env.restore(said_of_an_episode(env, **changes))
    with pytest.raises(EpisodeOverError):
        env.step("x")
    env.restore(good)
    env.step("x")


def test_an_episode_at_its_bounds_is_restored():
    """The last turn is to come, with the longest text; or the budget is spent, and it is over."""
    env = gym.make(LAKE, max_turns=3).unwrapped
    env.reset(seed=7)
    for changes in (
        {"TURNS": 2, "TEXT": "x" * MAX_TEXT_LENGTH},
        {"TURNS": 3, "RUNNING": False},
    ):
        moment = said_of_an_episode(env, **changes)
        twin = gym.make(LAKE, max_turns=3).unwrapped
        twin.restore(moment)
        assert body_of(twin.snapshot()) == body_of(moment)
        assert twin._running is changes.get("RUNNING", True)


def test_a_moment_in_a_longer_episode_is_as_if_played_here():
    """What was played before the restore is part of the next snapshot."""
    env, twin = (gym.make(LAKE, desc=SAFE).unwrapped for _ in range(2))
    env.reset(seed=3)
    env.step("<answer>Up</answer>")
    twin.reset(seed=8)
    twin.step("<answer>Left,Left</answer>")
    twin.restore(env.snapshot())
    for each in (env, twin):
        each.step("<answer>Left</answer>")
    assert twin.snapshot() == env.snapshot()
    assert body_of(twin.snapshot())[EPISODE][WORLD] == ["Up", "Left"]


@pytest.mark.parametrize("observation", ["image", "text"])
def test_a_carried_state_and_picture_are_shown_again(observation):
    """Environments that can't look again carry what was seen."""
    pytest.importorskip("scipy")
    env, twin = (gym.make("vagen/Sample-v0", observation=observation).unwrapped for _ in range(2))
    env.reset(seed=1)
    twin.reset(seed=2)
    twin.restore(env.snapshot())
    assert twin.observed == env.observed
    assert twin.true_state == env.true_state
    assert (twin.observed.picture is None) == (observation == "text")
    assert twin.snapshot() == env.snapshot()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda moment: "text", "a snapshot is bytes, not str; pass what"),
        (lambda moment: b"", "not a snapshot of form 3; pass what"),
        (lambda moment: moment.replace(b" 3 ", b" 2 ", 1), "not a snapshot of form 3; pass what"),
        (lambda moment: moment[:-1], "damaged or cut off"),
        (lambda moment: b"vagen-snapshot 3 own/Env-v0 0 0\n", "of own/Env-v0, not of vagen/Sok"),
        (lambda moment: forged(moment, b"["), r"can't be read \(JSONDecodeError: "),
        (lambda moment: forged(moment, {}), r"can't be read \(its body is a dict\)"),
        (lambda moment: forged(moment, [7]), r"inside is wrong \(ValueError: not enough values"),
    ],
)
def test_bytes_are_refused_with_the_reason(change, said):
    env = played()
    with pytest.raises(SnapshotError, match=said):
        env.restore(change(env.snapshot()))


@pytest.mark.parametrize("seed", [-2, 1.5, True, "7", None])
def test_a_seed_that_cannot_be_is_refused(seed):
    env = played()
    moment = env.snapshot()
    with pytest.raises(SnapshotError, match="a seed or generator that can't be"):
        env.restore(forged(moment, [seed, *body_of(moment)[1:]]))
    env.restore(forged(moment, [-1, *body_of(moment)[1:]]))  # of a generator of the user's own
    assert env.np_random_seed == -1


def test_other_options_are_told_by_their_fingerprints():
    one, other = gym.make(LAKE).unwrapped, gym.make(LAKE, max_turns=9).unwrapped
    here, there = (each._heading.split()[3].decode()[:16] for each in (one, other))
    with pytest.raises(SnapshotError, match=rf"\(fingerprint {there}, here {here}"):
        one.restore(other.snapshot())


class Counting(FrozenLakeEnv):
    """Counts the levels that it draws."""

    drawn = 0

    def _drawn(self, stream, split):
        self.drawn += 1
        return super()._drawn(stream, split)


def test_a_level_that_is_loaded_is_not_drawn_again_by_a_restore():
    env = Counting()
    env.reset(seed=1)
    moment = env.snapshot()
    env.step("<answer>Up</answer>")
    env.restore(moment)
    assert env.drawn == 1
    env.reset(seed=2)
    env.restore(moment)
    assert env.drawn == 3


class Breaks(FrozenLakeEnv):
    """A simulator that fails, or gives something else than it must."""

    fault = None

    def _execute(self, action):
        if self.fault == "raises":
            raise ZeroDivisionError("division by zero")
        if self.fault == "config":
            raise ConfigError("a reason of the environment's own")
        return None if self.fault == "returns" else super()._execute(action)


@pytest.mark.parametrize(
    ("fault", "kinds", "said"),
    [
        (
            "raises",
            [SimulatorError] * 2,
            r"vagen/FrozenLake-v0 broke: ZeroDivisionError: division by zero.*test_snapshots\.py",
        ),
        (
            "returns",
            [SimulatorError] * 2,
            r"Breaks\._execute\(\) returned a NoneType; .* a Executed",
        ),
        ("config", [ConfigError, SnapshotError], "a reason of the environment's own"),
    ],
)
def test_a_simulator_that_fails_ends_the_episode_and_is_named(fault, kinds, said):
    env = Breaks()
    env.reset(seed=1)
    env.step("<answer>Up</answer>")
    moment = env.snapshot()
    env.fault = fault
    acts = (lambda: env.step("<answer>Up</answer>"), lambda: env.restore(moment))
    for act, kind in zip(acts, kinds, strict=True):
        with pytest.raises(kind, match=said):
            act()
        with pytest.raises(EpisodeOverError):
            env.step("x")
    env.fault = None
    env.restore(moment)
    env.step("x")


def test_a_caller_that_writes_into_a_turns_level_breaks_no_snapshot():
    env = gym.make("vagen/Sokoban-v0").unwrapped
    env.reset(seed=1)
    env.step("<answer>Up</answer>")[4]["turn"].level["note"] = 1
    env.restore(env.snapshot())
    assert env.level["seed"] == 1
