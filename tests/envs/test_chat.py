"""Turns as chat messages."""

from __future__ import annotations

import base64
import io

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import vagen_envs  # noqa: F401
from vagen_envs.chat import observation_parts
from vagen_envs.context import ContextPolicy, chat_messages
from vagen_envs.core import Observation
from vagen_envs.errors import ConfigError
from vagen_envs.pictures import Picture

HOSTILE = "<think>I see <image></think><answer>Fly <ima<image>ge>,Up</answer>"


@pytest.fixture(scope="module")
def episode():
    env = gym.make("vagen/Sokoban-v0", max_turns=5, separator="|")
    env.reset(seed=3)
    turns = []
    for reply in (env.unwrapped.oracle_reply(), HOSTILE, "no tags at all", "<answer>Up</answer>"):
        *_, over, _, info = env.step(reply)
        turns.append(info["turn"])
        if over:
            break
    return env.unwrapped.system_prompt, turns


def pictures_of(messages):
    return [part for message in messages if message["role"] == "user" for part in message["content"]
            if part["type"] != "text"]  # fmt: skip


def test_whole_episode_has_every_turn_in_order(episode):
    system, turns = episode
    messages = chat_messages(system, turns, turns[-1].result)
    assert [message["role"] for message in messages] == ["system", *["user", "assistant"] * len(turns), "user"]
    assert messages[0]["content"] == system
    assert [message["content"] for message in messages[2::2]] == [turn.reply for turn in turns]
    assert len(pictures_of(messages)) == len(turns) + 1


def test_finished_episode_ends_with_its_last_reply(episode):
    system, turns = episode
    messages = chat_messages(system, turns, context=ContextPolicy(turns=1, answers=True))
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert messages[-1]["content"] == turns[-1].reply
    assert messages[2]["content"] == "<answer></answer>"  # that turn's reply had no answer


@given(n=st.integers(0, 7), played=st.integers(0, 4))
def test_window_holds_the_latest_n_turns_and_now(episode, n, played):
    system, turns = episode
    turns = turns[:played]
    now = turns[-1].result if turns else episode[1][0].observed
    messages = chat_messages(system, turns, now, context=ContextPolicy(turns=n))
    assert len(messages) == 2 + 2 * min(n, len(turns))
    assert messages[-1]["content"] == observation_parts(now)
    if n and turns:
        assert messages[-2]["content"] == turns[-1].reply


def test_without_reasoning_only_answers_of_earlier_replies_stay(episode):
    system, turns = episode
    kept = chat_messages(system, turns[:1], turns[0].result, context=ContextPolicy(answers=True))[2]["content"]
    assert kept == f"<answer>{turns[0].parsed.answer}</answer>"


def test_data_url_is_the_picture(episode):
    _, turns = episode
    (part,) = [part for part in observation_parts(turns[0].observed) if part["type"] == "image_url"]
    head, data = part["image_url"]["url"].split(",")
    assert head == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        assert np.array_equal(np.array(image.convert("RGB")), turns[0].observed.picture.pixels)


def test_pil_form_is_the_picture(episode):
    _, turns = episode
    (part,) = [part for part in observation_parts(turns[0].observed, "pil") if part["type"] == "image"]
    assert np.array_equal(np.array(part["image"]), turns[0].observed.picture.pixels)


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


def test_text_observation_has_no_picture():
    env = gym.make("vagen/Sokoban-v0", observation="text")
    env.reset(seed=0)
    turn = env.step("x")[4]["turn"]
    assert [part["type"] for part in observation_parts(turn.observed)] == ["text"]


def test_an_unknown_form_of_pictures_is_refused(episode):
    system, turns = episode
    with pytest.raises(ConfigError, match=r"pictures='pill'.*Did you mean 'pil'"):
        chat_messages(system, turns, pictures="pill")


@pytest.mark.parametrize("turns", [-1, True, 1.5, "1"])
def test_bad_window_is_refused(turns):
    with pytest.raises(ConfigError, match="integer from 0 up"):
        ContextPolicy(turns=turns)
