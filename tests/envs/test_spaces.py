"""`UnicodeText` under every way that Gymnasium moves observations about."""

from __future__ import annotations

import copy
import pickle
import tempfile

import gymnasium as gym
import pytest
from gymnasium import wrappers
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector import AsyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_envs.spaces import MAX_TEXT_LENGTH, UnicodeText


class Echo(gym.Env):
    """Says back what it was told."""

    observation_space = gym.spaces.Dict(text=UnicodeText(), number=gym.spaces.Discrete(9))
    action_space = UnicodeText()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"text": "reset", "number": 0}, {}

    def step(self, action):
        return {"text": action, "number": len(action) % 9}, 0.0, False, False, {}


ODD = ["", "plain", "ünïcödé 日本 😀", "\ud800 lone", "nul\0inside", "y" * MAX_TEXT_LENGTH]


@given(st.text(st.characters(exclude_categories=())))
def test_any_string_is_inside(text):
    assert text in UnicodeText()


def test_what_is_not_a_string_or_too_long_is_outside():
    assert "x" * (MAX_TEXT_LENGTH + 1) not in UnicodeText()
    assert b"bytes" not in UnicodeText()
    assert 3 not in UnicodeText()


def test_samples_are_inside_and_follow_from_the_seed():
    one, other = UnicodeText(seed=3), UnicodeText(seed=3)
    samples = [one.sample() for _ in range(50)]
    assert samples == [other.sample() for _ in range(50)]
    assert all(sample in one for sample in samples)
    assert len(set(samples)) > 40


def test_spaces_compare_by_length_and_survive_pickling():
    assert UnicodeText(5) == UnicodeText(5) != UnicodeText(6)
    assert pickle.loads(pickle.dumps(UnicodeText(5))) == UnicodeText(5)
    assert copy.deepcopy(UnicodeText(5)) == UnicodeText(5)
    with pytest.raises(ValueError, match="max_length is 0"):
        UnicodeText(0)


@pytest.mark.parametrize(
    "options",
    [{}, {"context": "fork"}, {"context": "spawn"}, {"shared_memory": False}, {"copy": False}],
)
def test_async_vector_environments_carry_any_text(options):
    vector = AsyncVectorEnv([Echo] * 3, **options)
    try:
        observations, _ = vector.reset(seed=1)
        assert tuple(observations["text"]) == ("reset",) * 3
        for i in range(len(ODD)):
            said = tuple(ODD[(i + k) % len(ODD)] for k in range(3))
            observations, *_ = vector.step(said)
            assert tuple(observations["text"]) == said
            assert observations["number"].tolist() == [len(text) % 9 for text in said]
    finally:
        vector.close()


WRAPPERS = {
    "TimeLimit": lambda env: wrappers.TimeLimit(env, 2),
    "Autoreset": wrappers.Autoreset,
    "PassiveEnvChecker": wrappers.PassiveEnvChecker,
    "OrderEnforcing": wrappers.OrderEnforcing,
    "RecordEpisodeStatistics": wrappers.RecordEpisodeStatistics,
    "RenderCollection": wrappers.RenderCollection,
    "RecordVideo": lambda env: wrappers.RecordVideo(env, tempfile.mkdtemp(), disable_logger=True),
    "HumanRendering": wrappers.HumanRendering,
    "StickyAction": lambda env: wrappers.StickyAction(env, 0.5),
    "RepeatAction": lambda env: wrappers.RepeatAction(env, 2),
    "DelayObservation": lambda env: wrappers.DelayObservation(env, 1),
    "TimeAwareObservation": wrappers.TimeAwareObservation,
    "TimeAwareObservation in a dictionary": lambda env: wrappers.TimeAwareObservation(
        env, flatten=False
    ),
    "FrameStackObservation": lambda env: wrappers.FrameStackObservation(env, 3),
    "FrameStackObservation padded with zeros": lambda env: wrappers.FrameStackObservation(
        env, 3, padding_type="zero"
    ),
    "NormalizeReward": wrappers.NormalizeReward,
    "TransformAction": lambda env: wrappers.TransformAction(
        env, lambda action: action, env.action_space
    ),
    "TransformObservation": lambda env: wrappers.TransformObservation(
        env, dict, env.observation_space
    ),
    "FilterObservation": lambda env: wrappers.FilterObservation(env, ["text"]),
    "FlattenObservation": wrappers.FlattenObservation,
    "AddRenderObservation": lambda env: wrappers.AddRenderObservation(env, render_only=True),
    "TransformReward": lambda env: wrappers.TransformReward(env, lambda reward: 2 * reward),
    "ClipReward": lambda env: wrappers.ClipReward(env, 0.0, 1.0),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_of_gymnasium_work(name, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    if name in ("RecordVideo", "HumanRendering"):
        pytest.importorskip("moviepy" if name == "RecordVideo" else "pygame")
    env = WRAPPERS[name](
        gym.make("vagen/FrozenLake-v0", render_mode="rgb_array", max_episode_steps=3)
    )
    observation, _ = env.reset(seed=1)
    assert observation in env.observation_space
    for _ in range(2):
        observation, *_, info = env.step(env.unwrapped.oracle_reply())
        assert observation in env.observation_space
        assert info["turn"].parsed.format_correct
        if info["turn"].terminated or info["turn"].truncated:
            break
    env.close()


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_a_flattened_text_is_read_back(text):
    space = UnicodeText(40)
    flat = flatten(space, text)
    assert flat in flatten_space(space)
    assert unflatten(space, flat) == text
    assert flatdim(space) == 40
