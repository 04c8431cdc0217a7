"""Memory: one policy decides what a model is shown of earlier turns, in benchmark, trainer and adapters alike.

The trainer's side, which needs its libraries, is in tests/adapters/test_ppo_rollout.py.
"""

from __future__ import annotations

import json

import gymnasium as gym
import pytest
import runs
from hypothesis import given, settings
from hypothesis import strategies as st

from vagen_adapters.context import ContextPolicy, chat_messages
from vagen_adapters.gymnasium_env import ChatObservation
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.runner import Policy

LAKE = "vagen/FrozenLake-v0"
REPLIES = [
    f"<think><observation>seen {number}</observation><reasoning>why {number}</reasoning>"
    f"<prediction>then {number}</prediction></think><answer>{answer}</answer>"
    for number, answer in enumerate(("Wait", "Stay", "Wait,Stay"))
]
POLICIES = ["all", "last:0", "last:1", "answers", "last:2,answers", "current-picture"]


def texts(messages):
    """Messages without pictures' bytes: role and the texts of the parts."""
    return [
        (
            message["role"],
            [part.get("text", "picture") for part in message["content"]]
            if isinstance(message["content"], list)
            else message["content"],
        )
        for message in messages
    ]


def episode(env, replies=REPLIES):
    """Turns of one episode, with what was shown before each and after the last."""
    env = env.unwrapped
    env.reset(seed=3)
    turns, shown = [], [env.observed]
    for reply in replies:
        turns.append(env.step(reply)[4]["turn"])
        shown.append(env.observed)
    return turns, shown


@given(st.sampled_from(POLICIES), st.integers(0, 3))
@settings(max_examples=16)
def test_a_prompt_shows_what_its_policy_says_and_nothing_else(text, played):
    """Whole history, the latest turns, answers alone, one picture: read off the messages themselves."""
    env = gym.make(LAKE, max_turns=9, disable_env_checker=True)
    turns, shown = episode(env)
    policy = ContextPolicy.parse(text)
    messages = chat_messages("rules", turns[:played], shown[played], context=policy)
    assert [message["role"] for message in messages[:2]] == ["system", "user"]
    replies = [each["content"] for each in messages if each["role"] == "assistant"]
    first = 0 if "last" not in text else max(0, played - int(text.partition(":")[2][0]))
    assert len(replies) == played - first
    for number, reply in zip(range(first, played), replies, strict=True):
        if "answers" in text:
            assert f"seen {number}" not in reply
            assert turns[number].parsed.answer in reply
        else:
            assert reply == REPLIES[number]
    pictures = sum(
        "image_url" in part
        for each in messages
        for part in each["content"]
        if isinstance(part, dict)
    )
    assert pictures == (1 if "current-picture" in text else played - first + 1)
    assert str(ContextPolicy.parse(str(policy))) == str(policy)


@pytest.mark.parametrize("text", POLICIES)
def test_runner_and_adapter_send_the_policys_own_messages(tmp_path, endpoint, text):
    """What an endpoint receives in a run is what `chat_messages` gives, as is what the adapter observes."""
    policy = ContextPolicy.parse(text)
    endpoint.script = lambda number, body: REPLIES[number % 3]
    model = Registry(None).find("openai:m", endpoint.url)
    agent = ChatAgent(model, base_url=endpoint.url, context=policy, attempts=1, patience=0.0)
    options = {"max_turns": 3}
    runs.play(
        tmp_path / "run",
        [agent],
        ["frozenlake"],
        policy=Policy(concurrency=1),
        episodes=1,
        first_seed=3,
        options=options,
    )
    env = gym.make(LAKE, split="test", **options, disable_env_checker=True)
    turns, shown = episode(env)
    prompt = env.unwrapped.system_prompt
    chat = ChatObservation(gym.make(LAKE, split="test", **options, disable_env_checker=True), text)
    observed = chat.reset(seed=3)[0]
    for number, request in enumerate(endpoint.requests):
        expected = chat_messages(prompt, turns[:number], shown[number], context=policy)
        assert texts(request["messages"]) == texts(expected)
        assert observed == expected
        observed = chat.step(REPLIES[number])[0]
    assert len(endpoint.requests) == 3


def test_every_run_records_its_policy(tmp_path, endpoint):
    """A run's protocol names how much of the past its agents were shown."""
    model = Registry(None).find("openai:m", endpoint.url)
    for text in ("all", "last:2,answers", "summary:2:64"):
        agent = ChatAgent(model, base_url=endpoint.url, context=ContextPolicy.parse(text))
        folder = tmp_path / text.replace(":", "-")
        runs.play(folder, [agent], ["frozenlake"], episodes=1)
        (described,) = RunFolder(folder).protocol.agents
        assert described["context"] == text
        assert json.loads((folder / "protocol.json").read_text())["agents"][0]["context"] == text


def test_hidden_reasoning_goes_back_only_where_it_is_kept():
    """Dropped by default; kept, it stands beside the reply that it belongs to."""
    turns, shown = episode(gym.make(LAKE, max_turns=9, disable_env_checker=True))
    hidden = [{"thought": number} for number in range(3)]
    for text, expected in (("all", []), ("reasoning=keep", hidden)):
        messages = chat_messages(
            "rules", turns, shown[3], context=ContextPolicy.parse(text), hidden=hidden
        )
        assert [each["hidden"] for each in messages if "hidden" in each] == expected
