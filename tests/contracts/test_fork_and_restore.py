"""Fork and restore: bytes of one moment put any environment of the same configuration there."""

from __future__ import annotations

import base64
import json
import subprocess
import sys

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_envs.errors import SnapshotError

GRIDS = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")
moves = st.sampled_from(("Up", "Down", "Left", "Right", "nonsense"))


def make(env_id, **options):
    return gym.make(env_id, disable_env_checker=True, **options).unwrapped


def play(env, replies):
    """All that is seen of some turns and of the next level."""
    seen = []
    for reply in replies:
        if not env._running:
            break
        seen.append(env.step(f"<answer>{reply}</answer>")[4]["turn"].to_json())
    env.reset()
    return [*seen, env.level, env.observed.to_json()]


@pytest.mark.parametrize("env_id", GRIDS)
@given(
    before=st.lists(moves, max_size=4),
    after=st.lists(moves, max_size=4),
    elsewhere=st.lists(moves, max_size=3),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=25)
def test_a_moment_goes_on_alike_wherever_it_is_restored(env_id, before, after, elsewhere, seed):
    """The same replies give the same turns and next levels: here, again, and in another instance."""
    env, other = make(env_id), make(env_id)
    env.reset(seed=seed)
    for reply in before:
        if env._running:
            env.step(f"<answer>{reply}</answer>")
    moment, shown = env.snapshot(), env.observed
    assert isinstance(moment, bytes)
    expected = play(env, after)
    other.reset(seed=seed + 1)
    play(other, elsewhere)
    for restored in (env, other, env):
        restored.restore(moment)
        assert restored.observed == shown
        assert restored.snapshot() == moment
        assert play(restored, after) == expected


ELSEWHERE = """
import base64, json, sys, gymnasium, vagen_envs
env_id, moment, replies = json.loads(sys.stdin.read())
env = gymnasium.make(env_id).unwrapped
env.restore(base64.b64decode(moment))
print(json.dumps([env.step(reply)[4]["turn"].to_json() for reply in replies]))
"""


@pytest.mark.parametrize("env_id", GRIDS)
def test_in_another_process(env_id):
    """Bytes alone carry the moment over."""
    env = make(env_id)
    env.reset(seed=11)
    env.step("hm")
    moment = base64.b64encode(env.snapshot()).decode()
    replies = ["<answer>Left</answer>"]
    data = json.dumps([env_id, moment, replies])
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=data.encode(), capture_output=True, check=True
    )
    here = [env.step(reply)[4]["turn"].to_json() for reply in replies]
    assert json.loads(done.stdout) == json.loads(json.dumps(here))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((GRIDS[0], {}), (GRIDS[1], {})),
        ((GRIDS[0], {}), (GRIDS[0], {"max_turns": 9})),
        ((GRIDS[1], {}), (GRIDS[1], {"is_slippery": True})),
    ],
    ids=str,
)
def test_another_configuration_refuses_it(one, other):
    """A snapshot names its id and options; an environment of others says so and keeps its episode."""
    first, second = (make(env_id, **options) for env_id, options in (one, other))
    first.reset(seed=1)
    second.reset(seed=1)
    before = second.snapshot()
    with pytest.raises(SnapshotError):
        second.restore(first.snapshot())
    assert second.snapshot() == before


@given(st.binary(max_size=60), st.integers(0, 10**4), st.integers(0, 255))
@settings(max_examples=60)
def test_bytes_that_are_no_snapshot_are_one_clear_error(noise, place, value):
    """Noise, and a snapshot with one other byte, are refused; nothing is executed of them."""
    env = make(GRIDS[1])
    env.reset(seed=1)
    moment = env.snapshot()
    at = place % len(moment)
    changed = moment[:at] + bytes([value]) + moment[at + 1 :]
    for data in (noise, changed, moment[:at]):
        if data != moment:
            with pytest.raises(SnapshotError):
                env.restore(data)
    env.restore(moment)
    assert env.snapshot() == moment
