"""`UnicodeText` under every way that Gymnasium moves observations about."""

from __future__ import annotations

import copy
import pickle
import tempfile

import gymnasium as gym
import numpy as np
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
    "NumpyToTorch": wrappers.NumpyToTorch,
    "ArrayConversion": lambda env: wrappers.ArrayConversion(env, np, np),
}
UNFIT = {
    "AtariPreprocessing": "wants the Arcade Learning Environment",
    "ClipAction, RescaleAction, DiscretizeAction": "want a box of actions; a reply is text",
    "GrayscaleObservation, ResizeObservation, ReshapeObservation, RescaleObservation": "want a box of "
    "observations; here it is in a dictionary, so FilterObservation or TransformObservation come first",
    "DtypeObservation, NormalizeObservation, MaxAndSkipObservation, DiscretizeObservation": "the same",
    "JaxToNumpy, JaxToTorch": "want an environment written in JAX",
    "AddWhiteNoise, ObstructView": "work on what `render` gives, and are left to Gymnasium's own tests",
}
"""Wrappers of Gymnasium 1.4 that aren't tried, and why."""


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_of_gymnasium_work(name, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    if name in ("NumpyToTorch", "ArrayConversion"):
        pytest.importorskip("array_api_compat")
        pytest.importorskip("torch")
    if name in ("RecordVideo", "HumanRendering"):
        pytest.importorskip("moviepy" if name == "RecordVideo" else "pygame")
    env = WRAPPERS[name](
        gym.make("vagen/FrozenLake-v0", render_mode="rgb_array", max_episode_steps=3)
    )
    observation, _ = env.reset(seed=1)
    assert name == "NumpyToTorch" or observation in env.observation_space
    for _ in range(2):
        observation, *_, info = env.step(env.unwrapped.oracle_reply())
        assert name == "NumpyToTorch" or observation in env.observation_space
        assert info["turn"].parsed.format_correct
        if info["turn"].terminated or info["turn"].truncated:
            break
    env.close()


def test_every_wrapper_of_gymnasium_is_tried_or_named():
    """A wrapper that is new in Gymnasium is to be looked at."""
    listed = {name.split(" ")[0] for name in WRAPPERS} | set(", ".join(UNFIT).split(", "))
    base = {"ActionWrapper", "ObservationWrapper", "RewardWrapper", "Wrapper", "vector"}
    assert set(wrappers.__all__) - base <= listed


def test_a_tensor_is_what_a_learner_of_torch_gets():
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    env = wrappers.NumpyToTorch(gym.make("vagen/FrozenLake-v0"))
    observation, info = env.reset(seed=1, options={"split": "test"})
    assert isinstance(observation["image"], torch.Tensor)
    assert isinstance(observation["text"], str)
    assert info["state"] == env.unwrapped.true_state
    assert info["level"]["split"] == "test"
    *_, info = env.step(env.unwrapped.oracle_reply())
    assert info["turn"].executed


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vectors_of_tensors(mode):
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    for wrapper, options in (
        ("NumpyToTorch", {}),
        ("ArrayConversion", {"env_xp": np, "target_xp": torch}),
    ):
        made = gym.make_vec("vagen/FrozenLake-v0", num_envs=2, vectorization_mode=mode)
        envs = getattr(wrappers.vector, wrapper)(made, **options)
        observation, info = envs.reset(seed=1)
        assert isinstance(observation["image"], torch.Tensor)
        assert isinstance(observation["text"], tuple)
        observation, reward, *_, info = envs.step(("<answer>Up</answer>",) * 2)
        assert isinstance(reward, torch.Tensor)
        assert observation["image"].shape == (2, 128, 128, 3)
        assert [turn.env_id for turn in info["turn"]] == ["vagen/FrozenLake-v0"] * 2
        envs.close()


def test_the_spec_knows_the_turns_and_adds_no_limit():
    """`TimeAwareObservation` without a limit of its own; the registered spec stays as it is."""
    env = gym.make("vagen/FrozenLake-v0", max_turns=5)
    assert env.spec.max_episode_steps == 5
    assert gym.spec("vagen/FrozenLake-v0").max_episode_steps is None
    assert not isinstance(env, wrappers.TimeLimit)
    timed = wrappers.TimeAwareObservation(env, flatten=False)
    assert timed.reset(seed=1)[0] in timed.observation_space
    assert timed.max_timesteps == 5


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_a_flattened_text_is_read_back(text):
    space = UnicodeText(40)
    flat = flatten(space, text)
    assert flat in flatten_space(space)
    assert unflatten(space, flat) == text
    assert flatdim(space) == 40
