"""Models as they are today: how they write, what is sent to them, what keys do, and when endpoints are down."""

from __future__ import annotations

import itertools
import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import runs
from chat_endpoint import GOOD, KEY, Endpoint
from typer.testing import CliRunner

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.cli import app
from vagen_benchmarks.clients.base import retry_after
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.errors import EndpointError, ProtocolError
from vagen_benchmarks.runs.job import parse_headers
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.runner import Policy

pytestmark = pytest.mark.usefixtures("keys")
FREE = {"strategy": "free_think", "parsing": "strict"}
FORMS = {
    "as asked": {"content": "<think>Up it is.</think><answer>Up</answer>"},
    "plain text": {"content": "Up it is.\n\n<answer>Up</answer>"},
    "another tag": {"content": "<thinking>Up it is.</thinking><answer>Up</answer>"},
    "a field of its own": {
        "content": "<answer>Up</answer>",
        "reasoning_content": "Up it is. Or <answer>Left</answer>?",
    },
    "an empty thought": {"content": "<think></think><answer>Up</answer>"},
}


def play(
    path, url, name="openai:m", episodes=1, policy=None, options=None, env="frozenlake", **asked
):
    asked = {"attempts": 2, "patience": 0.0, "timeout": 5.0, **asked}
    agents = make_agents([name], Asked(base_url=url, **asked))
    outcome = runs.play(path, agents, [env], policy=policy, episodes=episodes, options=options)
    return outcome, runs.episodes(path)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_acts_and_is_paid_under_the_profile_that_fits(tmp_path, endpoint, form):
    endpoint.script = lambda number, body: dict(FORMS[form])
    _, (episode,) = play(tmp_path / "run", endpoint.url, profile="native", options=FREE)
    for turn in episode.turns:
        assert [each["text"] for each in turn["executed"]] == ["Up"]
        assert "format" in [term["name"] for term in turn["rewards"]]
        assert ("Up it is." in (turn["parsed"]["think"] or "")) == (form != "an empty thought")
    described = RunFolder(tmp_path / "run").protocol.agents[0]["profile"]
    assert described == {
        "name": "native",
        "options": {"layout": "untagged", "native_thinking": "allow"},
        "hidden": True,
    }
    assert "<think>" not in endpoint.requests[0]["messages"][0]["content"]  # the prompt agrees
    for message in endpoint.requests[-1]["messages"]:
        if message["role"] == "assistant" and form == "a field of its own":
            assert (
                message["content"] == "<answer>Up</answer>"
            )  # and providers get no reasoning back


def test_a_profile_changes_the_prompt_the_parser_and_the_format_check(tmp_path, endpoint):
    endpoint.script = lambda number, body: dict(FORMS["another tag"])
    _, (episode,) = play(tmp_path / "1", endpoint.url, profile="thinking", options=FREE)
    assert (
        "<thinking>...</thinking><answer>...</answer>"
        in endpoint.requests[0]["messages"][0]["content"]
    )
    assert all(turn["parsed"]["well_formed"] for turn in episode.turns)
    _, (episode,) = play(tmp_path / "2", endpoint.url, options=FREE)
    assert not any(turn["executed"] for turn in episode.turns)
    _, (episode,) = play(
        tmp_path / "3",
        endpoint.url,
        profile="thinking",
        options={**FREE, "tags": ["think", *"orpa"]},
    )
    assert (
        "<think>...</think><a>...</a>" in endpoint.requests[-1]["messages"][0]["content"]
    )  # the run's own go before


@pytest.mark.parametrize(
    ("form", "fits"),
    [("as asked", "tagged"), ("plain text", "untagged"), ("a field of its own", "native")],
)
def test_models_try_says_which_profile_fits(endpoint, form, fits):
    endpoint.script = lambda number, body: dict(FORMS[form])
    shown = CliRunner().invoke(app, ["models", "try", "openai:m", "--base-url", endpoint.url])
    assert shown.exit_code == 0, shown.output
    assert f"profile that fits openai:m is {fits}" in shown.output
    assert f"--profile {fits}" in shown.output
    assert len(endpoint.requests) == (2 if fits == "tagged" else 4)


def test_the_models_are_listed():
    shown = CliRunner().invoke(app, ["models"], terminal_width=300)
    assert "claude-sonnet-5.5" in shown.output
    for model in Registry().models.values():
        assert model.price is None or (
            model.price.date and model.price.source and model.price.output > 0
        )


def test_what_is_asked_is_sent_and_nothing_else(tmp_path, endpoint):
    play(tmp_path / "1", endpoint.url)
    assert set(endpoint.requests[-1]) == {"model", "messages", "max_completion_tokens"}
    sampling = {
        "temperature": 0.2,
        "top_p": 0.9,
        "effort": "low",
        "seed": 5,
        "reasoning_tokens": 1000,
        "extra": {"top_k": 3},
    }
    play(tmp_path / "2", endpoint.url, sampling=sampling, headers={"x-team": "$ANTHROPIC_API_KEY"})
    body = endpoint.requests[-1]
    assert (body["temperature"], body["top_p"], body["reasoning_effort"], body["seed"]) == (
        0.2,
        0.9,
        "low",
        5,
    )
    assert (body["top_k"], body["max_completion_tokens"]) == (3, 1400)
    assert endpoint.headers[-1]["x-team"] == KEY
    play(
        tmp_path / "3",
        endpoint.url,
        name="gpt-5-mini",
        sampling={"max_tokens": 400, "temperature": 0.7},
    )
    assert (
        endpoint.requests[-1]["max_completion_tokens"] == 16_400
    )  # it thinks apart from its reply
    assert "temperature" not in endpoint.requests[-1]  # which it refuses
    play(tmp_path / "4", endpoint.url, name="gpt-4o", sampling={"temperature": "none"})
    assert "temperature" not in endpoint.requests[-1]


def test_other_providers_are_asked_in_their_own_words(tmp_path, endpoint):
    pytest.importorskip("anthropic")
    sampling = {"effort": "low", "reasoning_tokens": 600}
    play(tmp_path / "a", endpoint.root, name="anthropic:c", sampling=sampling)
    assert endpoint.requests[-1]["output_config"] == {"effort": "low"}
    assert endpoint.requests[-1]["max_tokens"] == 1000
    with pytest.raises(ProtocolError, match="takes no seed"):
        play(tmp_path / "b", endpoint.root, name="anthropic:c", sampling={"seed": 1})
    pytest.importorskip("google.genai")
    play(tmp_path / "g", endpoint.root, name="gemini:g", sampling={**sampling, "seed": 3})
    config = endpoint.requests[-1]["generationConfig"]
    assert (config["maxOutputTokens"], config["seed"]) == (1000, 3)
    assert [*config["thinkingConfig"].values()] == ["LOW"]


def test_a_url_with_a_query_and_another_header_for_the_key(tmp_path, endpoint):
    url = f"{endpoint.root}/openai/deployments/d/?api-version=2024-10-21"
    outcome, _ = play(tmp_path / "run", url, name="azure:d")
    assert outcome.played == 1
    assert endpoint.paths[0] == "/openai/deployments/d/chat/completions?api-version=2024-10-21"
    assert endpoint.headers[0]["api-key"] == KEY


@pytest.mark.parametrize(
    "name", ["messages", "model", "stream", "n", "max_tokens", "max_completion_tokens", "system"]
)
def test_fields_that_the_run_says_itself_are_no_extra_ones(name):
    """Another model would be asked than the table names, or more be spent than was set aside."""
    with pytest.raises(ProtocolError, match=f"--extra {name}"):
        make_agents(["openai:m"], Asked(base_url="http://x/v1", sampling={"extra": {name: 2}}))


@pytest.mark.parametrize(
    "name", ["content-length", "Transfer-Encoding", "connection", "Accept-Encoding"]
)
def test_headers_that_say_how_a_request_is_sent_are_refused(name):
    with pytest.raises(ProtocolError, match="how a request is sent"):
        parse_headers([f"{name}=5"])


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "ftp://x/v1", "http://", "http://x:port/v1", "/v1"]
)
def test_a_url_that_is_none_is_said_at_once(url):
    with pytest.raises(ProtocolError, match="the URL"):
        make_agents(["openai:m"], Asked(base_url=url))


@pytest.mark.parametrize("name", ["openai:m", "anthropic:c", "gemini:g"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_key_follows_a_redirect(tmp_path, endpoint, name, status):
    other = Endpoint()
    try:
        endpoint.script = lambda number, body: (
            status,
            {"location": f"{other.root}/v1/chat/completions"},
        )
        _, (episode,) = play(tmp_path / "run", endpoint.root, name=name)
        assert other.requests == []
        assert not episode.ended.kind.counts
        assert KEY not in json.dumps(episode.to_json())
    finally:
        other.close()


class Caching(Endpoint):
    """Anthropic's messages with its prompt cache: the longest prefix that a mark has written is read."""

    def __init__(self):
        super().__init__()
        self.written, self.usages, self.script = set(), [], self.serve

    def serve(self, number, body):
        blocks = [
            *body["system"],
            *(block for message in body["messages"] for block in message["content"]),
        ]
        sizes, prefix, ends, marks = [], "", [], []
        for block in blocks:
            mark = block.pop("cache_control", None)
            sizes.append(100 if block["type"] == "image" else len(block["text"]) // 4 + 1)
            prefix += json.dumps(block, sort_keys=True)
            ends.append(prefix)
            marks.append(mark == {"type": "ephemeral"})
        assert 1 <= sum(marks) <= 4
        places = [i for i, marked in enumerate(marks) if marked]
        reachable = {i for place in places for i in range(max(0, place - 19), place + 1)}
        read = max((sum(sizes[: i + 1]) for i in reachable if ends[i] in self.written), default=0)
        written = sum(sizes[: places[-1] + 1]) - read
        self.written |= {ends[i] for i in places}
        usage = {
            "input_tokens": sum(sizes) - read - written,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": 50,
        }
        self.usages.append(usage)
        answer = {
            "id": "x",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_reason": "end_turn",
        }
        return 200, {}, answer | {"usage": usage, "content": [{"type": "text", "text": GOOD}]}


def test_an_episode_sends_its_history_at_the_price_of_the_cache(tmp_path):
    pytest.importorskip("anthropic")
    server, name = Caching(), "claude-sonnet-5.5"
    try:
        outcome, (episode,) = play(
            tmp_path / "run", server.root, name=name, env="sokoban", options={"max_turns": 5}
        )
    finally:
        server.close()
    assert len(episode.turns) == len(server.usages) == 5
    for before, after in itertools.pairwise(server.usages):
        whole = sum(before[name] for name in before if name != "output_tokens")
        assert after["cache_read_input_tokens"] == whole  # all that was sent the turn before
        assert after["input_tokens"] == 0
    bill = outcome.usage[name]
    assert bill.cached_tokens == sum(usage["cache_read_input_tokens"] for usage in server.usages)
    price = (
        sum(
            usage["input_tokens"] * 2.0
            + usage["cache_read_input_tokens"] * 0.10
            + usage["cache_creation_input_tokens"] * 2.5
            + 50 * 10.0
            for usage in server.usages
        )
        / 1e6
    )
    assert bill.dollars == pytest.approx(price)
    assert bill.dollars < 0.7 * (bill.prompt_tokens * 2.0 + 5 * 50 * 10.0) / 1e6


def test_retry_after_as_a_date():
    now = datetime.now(UTC).replace(microsecond=0)
    then = format_datetime(now + timedelta(seconds=90), usegmt=True)
    assert retry_after({"retry-after": then, "date": format_datetime(now, usegmt=True)}) == 90
    assert 80 < retry_after({"retry-after": then}) <= 91
    assert retry_after({"retry-after": format_datetime(now - timedelta(days=1), usegmt=True)}) == 0
    for odd in ("soon", "", "Sun, 99 Foo 2026", "-5", "nan\x00"):
        assert retry_after({"retry-after": odd}) in (None, 0)


def test_an_outage_is_waited_for_at_one_gate(tmp_path, endpoint):
    """While it lasts one request probes at a time, and afterwards the run goes on by itself."""
    down = {"from": 6, "until": None}
    said = []

    def script(number, body):
        if number == down["from"]:
            down["until"] = time.monotonic() + 1.5
        if down["until"] and time.monotonic() < down["until"]:
            said.append(time.monotonic())
            return 503
        return GOOD

    endpoint.script = script
    agents = [
        ChatAgent(
            Registry().find("openai:m", endpoint.url),
            base_url=endpoint.url,
            first_wait=0.1,
            patience=30.0,
        )
    ]
    outcome = runs.play(
        tmp_path / "run", agents, ["frozenlake"], episodes=24, policy=Policy(concurrency=8)
    )
    assert (outcome.played, outcome.failed, outcome.reason) == (24, 0, "")
    assert len(said) <= 8 + 8  # those in flight, and a few probes


def test_patience_comes_to_an_end(tmp_path, closed_port):
    agents = [
        ChatAgent(
            Registry().find("openai:m", closed_port),
            base_url=closed_port,
            first_wait=0.05,
            patience=0.6,
        )
    ]
    outcome = runs.play(
        tmp_path / "run", agents, ["frozenlake"], episodes=40, policy=Policy(concurrency=8)
    )
    assert "waited 1 s" in outcome.reason
    assert outcome.played == 0
    assert outcome.left >= 30


def test_one_request_that_breaks_its_server_holds_up_nobody(tmp_path, endpoint):
    """Its episode fails after its attempts; the others are played."""
    play(tmp_path / "look", endpoint.url, episodes=1)
    bad = endpoint.requests[0]["messages"][1]
    endpoint.script = lambda number, body: 500 if body["messages"][1] == bad else GOOD
    agent = ChatAgent(
        Registry().find("openai:m", endpoint.url),
        base_url=endpoint.url,
        first_wait=0.02,
        patience=60.0,
        attempts=3,
    )
    outcome = runs.play(
        tmp_path / "run", [agent], ["frozenlake"], episodes=12, policy=Policy(concurrency=4)
    )
    assert (outcome.played, outcome.failed) == (11, 1)


def drip():
    """An answer that comes a byte at a time, until the client has left."""
    yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
    for _ in range(600):
        time.sleep(0.05)
        yield b" "


@pytest.mark.timeout(25)
@pytest.mark.parametrize("name", ["openai:m", "anthropic:c", "gemini:g"])
def test_the_timeout_is_of_the_whole_answer(tmp_path, endpoint, name):
    endpoint.script = lambda number, body: drip()
    _, (episode,) = play(tmp_path / "run", endpoint.root, name=name, timeout=0.5, attempts=1)
    assert episode.ended.kind == "timeout"


def test_models_try_says_how_to_reach_an_endpoint():
    with pytest.raises(EndpointError, match=r"127.0.0.1.*start the server, or fix --base-url"):
        CliRunner().invoke(
            app,
            ["models", "try", "openai:m", "--base-url", "http://127.0.0.1:9/v1"],
            catch_exceptions=False,
        )
