"""Observations as parts of chat messages."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import picture_of

import vagen_envs  # noqa: F401
from vagen_envs.chat import observation_parts
from vagen_envs.context import ContextPolicy, chat_messages
from vagen_envs.core import Observation
from vagen_envs.errors import ConfigError
from vagen_envs.pictures import Picture


@pytest.fixture(scope="module")
def turn():
    env = gym.make("vagen/Sokoban-v0")
    env.reset(seed=3)
    return env.step("no tags at all")[4]["turn"]


def test_a_finished_episode_ends_with_its_last_reply(turn):
    messages = chat_messages("system", [turn, turn], context=ContextPolicy(turns=1, answers=True))
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert [message["content"] for message in messages[2::2]] == ["<answer></answer>", turn.reply]


def test_either_form_of_a_picture_is_the_picture(turn):
    as_url, as_pil = (chat_messages("", [], turn.result, pictures=form)[-1] for form in ("data_url", "pil"))
    (pil,) = [part["image"] for part in as_pil["content"] if part["type"] == "image"]
    assert picture_of(as_url) == turn.result.picture
    assert np.array_equal(np.array(pil), turn.result.picture.pixels)
    with pytest.raises(ConfigError, match=r"pictures='pill'.*Did you mean 'pil'"):
        chat_messages("", [], turn.result, pictures="pill")


@given(st.lists(st.sampled_from(["<image>", "a", "\n", "<", "<ima", "ge>", ">"]), max_size=12).map("".join))
def test_as_many_placeholders_as_pictures_whatever_the_text(text):
    picture = Picture(np.zeros((2, 2, 3), np.uint8))
    parts = observation_parts(Observation(text, picture))
    assert [part["type"] for part in parts].count("image_url") == 1
    assert not any("<image>" in part.get("text", "") for part in parts)
    assert not any("<image>" in part["text"] for part in observation_parts(Observation(text, None)))
    if text.count("<image>") == 1:  # then nothing else is lost, and the picture stands in its place
        at = [part["type"] for part in parts].index("image_url")
        around = ["".join(part["text"] for part in side) for side in (parts[:at], parts[at + 1 :])]
        assert around == [side.strip("\n") for side in text.split("<image>")]
