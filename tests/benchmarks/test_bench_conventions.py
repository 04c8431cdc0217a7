"""Where keys go, how providers are named, and what is said of proxies, waits and limits."""

from __future__ import annotations

import json
import re

import pytest
import runs
from chat_endpoint import GOOD, completion
from commands import vagen
from ports import free_port

from vagen_adapters.context import ContextPolicy
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.runner import Policy

KEY = "sk-9f8e7d6c5b4a3210"


def bench(endpoint, path, name="openai:m", *more):
    words = ["bench", "-e", "frozenlake", "-n", 1, "-a", name, "--base-url", endpoint.url]
    return vagen(*words, "--attempts", 2, "--patience", 1, "--out", path / "run", *more)


def sent(endpoint):
    return {headers.get("authorization") for headers in endpoint.headers}


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_openais_key_goes_to_another_host_only_if_asked_for(tmp_path, endpoint, key):
    done = bench(endpoint, tmp_path / "1")
    assert done.returncode == 0
    assert sent(endpoint) == {"Bearer none"}
    assert (
        "OPENAI_API_KEY isn't sent to 127.0.0.1; --key-from OPENAI_API_KEY sends it" in done.stderr
    )
    endpoint.headers.clear()
    done = bench(endpoint, tmp_path / "2", "openai:m", "--key-from", "OPENAI_API_KEY")
    assert sent(endpoint) == {f"Bearer {KEY}"}
    assert "isn't sent" not in done.stderr


def test_resume_sends_the_key_that_the_run_was_begun_with(tmp_path, endpoint, monkeypatch):
    monkeypatch.setenv("MINE", KEY)
    endpoint.script = lambda number, body: 400
    assert bench(endpoint, tmp_path, "openai:m", "--key-from", "MINE").returncode != 0
    endpoint.script = lambda number, body: GOOD
    assert vagen("resume", tmp_path / "run").returncode == 0
    assert sent(endpoint) == {f"Bearer {KEY}"}


def test_a_refused_key_is_said_with_how_to_send_it(tmp_path, endpoint, key):
    endpoint.script = lambda number, body: 401
    done = bench(endpoint, tmp_path)
    assert "--key-from OPENAI_API_KEY" in done.stderr.partition("1 × ")[2]


def test_openais_own_hosts_and_its_variable_get_the_key(endpoint, key, monkeypatch):
    for url in (None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"):
        assert Registry().find("openai:m", url).key(url) == KEY
    for url in (
        "https://api.openai.com.evil.example/v1",
        "https://notopenai.com",
        "http://x/openai.com",
    ):
        assert Registry().find("openai:m", url).key(url) == ""
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    (agent,) = make_agents(["openai:m"], Asked())
    assert agent._client._key == KEY  # set together, as OpenAI's SDK has it
    with pytest.raises(ProtocolError, match="variable NONE"):
        make_agents(["openai:m"], Asked(key_from="NONE"))


@pytest.mark.parametrize(
    ("name", "variable", "url"),
    [
        ("openrouter:m", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1"),
        ("hf:m", "HF_TOKEN", "https://router.huggingface.co/v1"),
        ("vllm:m", "", "http://localhost:8000/v1"),
        ("sglang:m", "", "http://localhost:30000/v1"),
        ("lmstudio:m", "", "http://localhost:1234/v1"),
        ("llamacpp:m", "", "http://localhost:8080/v1"),
        ("ollama:m", "", "http://localhost:11434/v1"),
    ],
)
def test_providers_have_their_addresses_and_keys(monkeypatch, name, variable, url):
    monkeypatch.delenv(variable or "NONE", raising=False)
    if variable:
        with pytest.raises(ProtocolError, match=variable):
            make_agents([name], Asked())
        monkeypatch.setenv(variable, KEY)
    (agent,) = make_agents([name], Asked())
    assert agent._client._url == url


@pytest.mark.parametrize("name", ["azure:m", "bedrock:m"])
def test_providers_whose_users_have_addresses_of_their_own_need_it(monkeypatch, name):
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    with pytest.raises(ProtocolError, match="--base-url, such as https"):
        make_agents([name], Asked())


def test_a_models_name_alone_with_an_address_is_one_short_error(endpoint):
    for words in (["models", "try", "x"], ["bench", "-e", "sokoban", "-a", "x"]):
        done = vagen(*words, "--base-url", endpoint.url)
        assert (done.returncode, done.stderr.strip()) == (
            2,
            "vagen: unknown agent 'x'. A model at --base-url is named openai:x",
        )


def test_reasoning_is_sent_with_every_reply_where_the_endpoint_gives_any(tmp_path, endpoint):
    """A reply that came without gets a blank, which such providers accept."""

    def script(number, body):
        replies = [each for each in body["messages"] if each["role"] == "assistant"]
        if any("reasoning_content" not in each for each in replies[-1:]) and number > 1:
            return 400, {}, {"error": {"message": "reasoning_content is missing in message 2"}}
        return {"content": GOOD, **({} if number == 1 else {"reasoning_content": f"t{number}"})}

    endpoint.script = script
    agent = ChatAgent(
        Registry().find("openai:m", endpoint.url),
        base_url=endpoint.url,
        context=ContextPolicy(reasoning="keep"),
        attempts=1,
        patience=0.0,
    )
    outcome = runs.play(tmp_path, [agent], ["frozenlake"], policy=Policy(concurrency=1), episodes=1)
    assert (outcome.played, outcome.failed) == (1, 0)
    last = [each for each in endpoint.requests[-1]["messages"] if each["role"] == "assistant"]
    assert [each["reasoning_content"] for each in last] == ["t0", " "]


def test_a_blank_is_sent_where_the_first_reply_came_without_reasoning(tmp_path, endpoint):
    """Before any reasoning has come, only the refusal tells that the endpoint wants it."""

    def script(number, body):
        replies = [each for each in body["messages"] if each["role"] == "assistant"]
        if any("reasoning_content" not in each for each in replies):
            return 400, {}, {"error": {"message": "reasoning_content is missing in message 2"}}
        return GOOD

    endpoint.script = script
    done = bench(endpoint, tmp_path, "openai:m", "--context", "reasoning=keep")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
        "too many images and documents: 21 + 0 > 20",
    ],
)
def test_a_limit_of_many_pictures_advises_the_context(tmp_path, endpoint, words):
    endpoint.script = lambda number, body: (
        (400, {}, {"error": {"message": words}}) if number > 1 else GOOD
    )
    done = bench(endpoint, tmp_path)
    assert "--context last:" in done.stdout + done.stderr


def test_the_advised_context_is_one_that_fits(tmp_path, endpoint):
    def script(number, body):
        shown = json.dumps(body["messages"]).count("data:image")
        full = {"error": {"message": "At most 3 image(s) may be provided in one prompt."}}
        return (400, {}, full) if shown > 3 else GOOD.replace("Up", "Left")

    endpoint.script = script
    words = ["bench", "-e", "sokoban", "-n", 3, "-a", "vllm:m", "-o", "max_turns=6"]
    words += ["--base-url", endpoint.url]
    done = vagen(*words, "--out", tmp_path / "all")
    advised = re.search(r"--context (last:\d+)", done.stdout)[1]
    done = vagen(*words, "--out", tmp_path / "fewer", "--context", advised)
    assert (advised, "overflow" in done.stdout) == ("last:2", False)


@pytest.mark.parametrize("after", ["Fri, 31 Dec 9999 23:59:59 GMT", "86400", "1e300"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_beyond_patience_is_an_error_at_once(tmp_path, endpoint, after, status):
    endpoint.script = lambda number, body: (status, {"retry-after": after})
    done = bench(endpoint, tmp_path, "openai:m", "--patience", 600)
    assert len(endpoint.requests) == 1
    assert "it asks to wait" in done.stderr
    assert "closed for longer than --patience" in done.stderr
    assert done.returncode == 3


def test_waits_are_shown(tmp_path, endpoint):
    steps = {0: (429, {"retry-after": "2.5"})}
    endpoint.script = lambda number, body: steps.get(number, GOOD)
    done = bench(endpoint, tmp_path, "openai:m", "--patience", 60)
    assert re.search(r"waiting 2 s before the next attempt: .*429", done.stderr)


@pytest.mark.parametrize("status", [407, 502])
def test_an_answer_of_a_proxys_own_names_it(tmp_path, endpoint, monkeypatch, status):
    place = endpoint.root.removeprefix("http://")
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{KEY}@{place}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    endpoint.script = lambda number, body: status
    words = ["bench", "-e", "frozenlake", "-n", 1, "-a", "vllm:m", "--attempts", 1, "--patience", 0]
    done = vagen(*words, "--base-url", "http://models.example/v1", "--out", tmp_path / "1")
    assert f"proxy {place}" in done.stderr
    assert "NO_PROXY" in done.stderr


def test_a_proxy_that_refuses_or_is_down_is_named(tmp_path, endpoint, monkeypatch):
    place = endpoint.root.removeprefix("http://")  # which takes no CONNECT
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{KEY}@{place}")
    words = ["bench", "-e", "frozenlake", "-n", 1, "-a", "vllm:m", "--attempts", 1, "--patience", 0]
    done = vagen(*words, "--base-url", "https://models.example/v1", "--out", tmp_path / "1")
    assert f"the proxy {place} refuses" in done.stderr
    assert "NO_PROXY" in done.stderr
    assert KEY not in done.stderr
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
    done = vagen(*words, "--base-url", "https://models.example/v1", "--out", tmp_path / "2")
    assert "by the proxy 127.0.0.1" in done.stderr
    assert KEY not in done.stderr


def test_diagnose_limits_replies(tmp_path, endpoint):
    endpoint.script = lambda number, body: completion({"content": GOOD}, "stop")
    words = ["diagnose", "-e", "frozenlake", "-a", "vllm:m", "-n", 2, "--max-tokens", 33]
    done = vagen(*words, "--base-url", endpoint.url, "--out", tmp_path / "run")
    assert done.returncode == 0, done
    assert {body["max_tokens"] for body in endpoint.requests} == {33}
