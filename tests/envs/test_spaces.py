"""`UnicodeText` under every way that Gymnasium moves observations about."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

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
    "options", [{}, {"context": "fork"}, {"context": "spawn"}, {"shared_memory": False}, {"copy": False}]
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


def test_observations_of_the_async_environment_do_not_change_later():
    vector = AsyncVectorEnv([Echo] * 2)
    try:
        first, _ = vector.reset()
        vector.step(("a", "b"))
        assert first["text"] == ("reset", "reset")
        assert first in vector.observation_space
    finally:
        vector.close()


def test_sync_vector_environments_carry_any_text():
    vector = SyncVectorEnv([Echo] * 2)
    vector.reset()
    observations, *_ = vector.step((ODD[2], ODD[3]))
    assert observations["text"] == (ODD[2], ODD[3])
