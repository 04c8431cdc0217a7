"""Chat messages: what a context policy shows of an episode, against a literal account of each; pictures in messages."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import picture_of

import vagen_envs  # noqa: F401
from vagen_adapters.context import HIDDEN, ContextPolicy, chat_messages, summary_messages
from vagen_adapters.message_parts import observation_parts
from vagen_envs.core import Observation
from vagen_envs.errors import ConfigError
from vagen_envs.pictures import Picture


@st.composite
def policies(draw):
    kind = draw(st.sampled_from(["all", "last", "summary"]))
    answers = draw(st.booleans())
    return ContextPolicy(
        turns=draw(st.integers(0, 6)) if kind == "last" else None,
        summary=draw(st.integers(1, 6)) if kind == "summary" else None,
        summary_tokens=draw(st.sampled_from([64, 256])) if kind == "summary" else 256,
        answers=answers,
        current_picture=draw(st.booleans()),
        reasoning=draw(st.sampled_from(["drop", "turn"] if answers else ["drop", "turn", "keep"])),
    )


@pytest.fixture(scope="module")
def episode():
    env = gym.make(
        "vagen/FrozenLake-v0",
        max_turns=6,
        is_slippery=False,
        desc=("SFFF", "FFFF", "FFFF", "FFFG"),
        strategy="free_think",
    )
    env.reset(seed=1)
    turns = []
    for number in range(5):
        text = "no answer" if number == 2 else f"<think>thought {number}</think><answer>Up</answer>"
        turns.append(env.step(text)[4]["turn"])
    return env.unwrapped.system_prompt, turns


@given(policies())
def test_the_text_form_reads_back(policy):
    assert ContextPolicy.parse(str(policy)) == policy


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lst:2", "Did you mean 'last:N'"),
        ("last", "Known, joined by commas: all, last:N"),
        ("last:-1", "Known"),
        ("summary:0", "integer from 1 up"),
        ("last:2,last:3", "another such part"),
        ("last:2,summary:3", "give one of them"),
        ("all,last:2", "give one of them"),
        ("answers,reasoning=keep", "give one of them"),
        ("reasoning=yes", "Did you mean 'reasoning="),
        ("", "Known"),
    ],
)
def test_a_policy_that_makes_no_sense_is_one_clear_error(text, reason):
    with pytest.raises(ConfigError, match=reason):
        ContextPolicy.parse(text)


def literal(policy, system, turns, now, summaries, hidden):
    """Which turns are shown, told step by step; each message as (role, text, pictures, hidden)."""
    shown = []
    for number in range(len(turns)):
        if policy.summary is not None and number < len(turns) // policy.summary * policy.summary:
            continue
        if policy.turns is not None and len(turns) - number > policy.turns:
            continue
        shown.append(number)
    messages = [("system", system, 0, None)]
    for number in [*shown, len(turns)]:
        is_now = number == len(turns)
        pictures = 1 if is_now or not policy.current_picture else 0
        begins = policy.summary is not None and number > 0 and number % policy.summary == 0
        messages.append(("user", summaries[number] if begins else "", pictures, None))
        if not is_now:
            turn = turns[number]
            reply = f"<answer>{turn.parsed.answer or ''}</answer>" if policy.answers else turn.reply
            messages.append(
                ("assistant", reply, 0, hidden[number] if policy.reasoning == "keep" else None)
            )
    return messages


@given(policies(), st.integers(0, 4))
def test_messages_are_those_of_a_literal_account(episode, policy, played):
    system, turns = episode
    now = turns[played - 1].result if played else turns[0].observed
    summaries = {number: f"summary written before {number}" for number in range(1, 6)}
    hidden = [{"blocks": number} if number != 1 else None for number in range(played)]
    found = chat_messages(
        system, turns[:played], now, context=policy, summaries=summaries, hidden=hidden
    )
    expected = literal(policy, system, turns[:played], now, summaries, hidden)
    assert [message["role"] for message in found] == [role for role, *_ in expected]
    for message, (role, text, pictures, thought) in zip(found, expected, strict=True):
        assert message.get(HIDDEN) == thought
        if role == "user":
            assert sum(part["type"] == "image_url" for part in message["content"]) == pictures
            words = "".join(part.get("text", "") for part in message["content"])
            assert (text in words) if text else ("summary written" not in words)
        else:
            assert message["content"] == text


@given(policies())
def test_sequences_cover_each_reply_once_as_it_was_shown(episode, policy):
    _, turns = episode
    spans = list(policy.sequences(len(turns)))
    assert [turn for start, end in spans for turn in range(start, end)] == list(range(len(turns)))
    for start, end in spans:
        for now in range(
            start, end
        ):  # a prompt in a sequence begins where the sequence's first prompt does
            assert policy.first_shown(now) == policy.first_shown(start)


def test_a_missing_summary_is_an_error_and_a_request_for_one_ends_the_messages(episode):
    system, turns = episode
    policy = ContextPolicy.parse("summary:2:64,reasoning=turn")
    with pytest.raises(ConfigError, match="summary before turn 3 is missing"):
        chat_messages(system, turns[:2], turns[1].result, context=policy)
    asked = summary_messages(system, turns[:2], context=policy, hidden=[None, "thought"])
    assert asked[-2][HIDDEN] == "thought"  # of the running turn only
    assert "at most 64 tokens" in asked[-1]["content"][0]["text"]


def test_a_finished_episode_ends_with_its_last_reply(episode):
    system, turns = episode
    messages = chat_messages(system, turns[1:3], context=ContextPolicy(turns=1, answers=True))
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [message["content"] for message in messages[2::2]] == [
        "<answer>Up</answer>",
        "no answer",
    ]


def test_either_form_of_a_picture_is_the_picture(episode):
    now = episode[1][0].result
    as_url, as_pil = (chat_messages("", [], now, pictures=form)[-1] for form in ("data_url", "pil"))
    (pil,) = [part["image"] for part in as_pil["content"] if part["type"] == "image"]
    assert picture_of(as_url) == now.picture
    assert np.array_equal(np.array(pil), now.picture.pixels)
    with pytest.raises(ConfigError, match=r"pictures='pill'.*Did you mean 'pil'"):
        chat_messages("", [], now, pictures="pill")


@given(
    st.lists(st.sampled_from(["<image>", "a", "\n", "<", "<ima", "ge>", ">"]), max_size=12).map(
        "".join
    )
)
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
