"""The chat agent against a real server and its faults."""

from __future__ import annotations

import gzip
import json
import threading

import pytest
import runs
from chat_endpoint import GOOD, KEY, completion, raw

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.agents.scripted import Oracle
from vagen_benchmarks.clients.base import Sampling
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.runner import Policy
from vagen_benchmarks.runs.scoring import make_scoring

pytestmark = pytest.mark.usefixtures("keys")


def play(tmp_path, url, episodes=2, policy=None, name="openai:m", models=None, **options):
    model = Registry(models).find(name, url)
    agent = ChatAgent(
        model,
        base_url=url,
        **{"attempts": 3, "timeout": 5.0, "first_wait": 0.01, "patience": 0.0, **options},
    )
    path = tmp_path / "run"
    outcome = runs.play(path, [agent], policy=policy or Policy(concurrency=2), episodes=episodes)
    return outcome, runs.episodes(path)


def test_good_endpoint_is_played_and_costs_are_recorded(tmp_path, endpoint):
    outcome, episodes = play(tmp_path, endpoint.url, sampling=Sampling(max_tokens=150, top_p=0.9))
    assert (outcome.played, outcome.failed, outcome.left) == (2, 0, 0)
    for episode in episodes:
        assert [turn["reply"] for turn in episode.turns] == [endpoint.good] * 3
        assert all(
            (call["ending"], call["attempts"], call["prompt_tokens"]) == ("stop", 1, 11)
            for call in episode.calls
        )
    body = endpoint.requests[0]
    assert (body["model"], body["max_completion_tokens"], body["top_p"]) == ("m", 150, 0.9)
    assert "temperature" not in body  # nobody asked for one
    kinds = [
        part["type"]
        for message in body["messages"]
        if message["role"] == "user"
        for part in message["content"]
    ]
    assert "image_url" in kinds


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (500, "server_error"),
        ((429, {"retry-after-ms": "5"}), "rate_limited"),
        (504, "timeout"),
        (raw("<html", "text/html"), "nonsense"),
        (raw("{{{{"), "nonsense"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{",
            "unreachable",
        ),
        (b"\x00\x01 this is not HTTP\r\n\r\n", "nonsense"),
        (b"", "unreachable"),
        ({"choices": []}, "nonsense"),
        ({"choices": [{"message": {"content": 7}}]}, "nonsense"),
        ({"error": {"message": "slow down", "code": 429}}, "rate_limited"),
        (
            {
                "choices": [
                    {"error": {"message": "broke off", "code": 502}, "message": {"content": ""}}
                ]
            },
            "server_error",
        ),
        ({"content": "<answer>U", "finish": "network_error"}, "server_error"),
        ({"error": "model is loading"}, "server_error"),
        ({"object": "error", "message": "worker is gone", "code": 50002}, "server_error"),
    ],
)
def test_fault_is_retried_then_recorded_as_what_it_is(tmp_path, endpoint, fault, kind):
    endpoint.script = lambda number, body: fault
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.played, outcome.failed) == (0, 1)
    assert len(endpoint.requests) == 3
    assert episode.failure.kind == kind
    assert episode.turns == []


PAGE = raw("<html></html>", "text/html", "404 Not Found")


@pytest.mark.parametrize(
    "fault", [500, (429, {"retry-after": "0"}), b"", {"choices": []}, 401, 403, PAGE]
)
def test_passing_fault_costs_only_time(tmp_path, endpoint, fault):
    endpoint.script = lambda number, body: fault if number % 2 == 0 else endpoint.good
    outcome, episodes = play(tmp_path, endpoint.url, episodes=2, policy=Policy(concurrency=1))
    assert (outcome.played, outcome.failed, outcome.reason) == (2, 0, "")
    assert [call["attempts"] for episode in episodes for call in episode.calls] == [2] * 6


@pytest.mark.parametrize(("status", "requests"), [(400, 1), (401, 3), (404, 3), (422, 1)])
def test_rejected_request_is_retried_only_where_it_may_pass(tmp_path, endpoint, status, requests):
    endpoint.script = lambda number, body: status
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.failed, len(endpoint.requests), episode.failure.kind) == (
        1,
        requests,
        "rejected",
    ), episode.failure


@pytest.mark.parametrize(
    ("answer", "ending", "reply"),
    [
        ({"content": None, "refusal": "I can't help."}, "refused", "I can't help."),
        ({"content": "", "finish": "content_filter"}, "filtered", ""),
        ({"content": "", "finish": "refusal"}, "refused", ""),
        ({"content": "<answer>Up", "finish": "length"}, "cut", "<answer>Up"),
        ({"content": "<answer>Up", "finish": "MAX_TOKENS"}, "cut", "<answer>Up"),
        ({"content": "<answer>Up", "finish": ["odd"]}, "stop", "<answer>Up"),
        ({"content": [{"type": "refusal", "refusal": "I can't."}]}, "refused", "I can't."),
        ({"content": None}, "empty", ""),
        ({"content": " \n"}, "empty", " \n"),
        (
            {"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]},
            "stop",
            "in parts",
        ),
    ],
)
def test_odd_replies_are_played_as_what_they_are(tmp_path, endpoint, answer, ending, reply):
    endpoint.script = lambda number, body: answer
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.played, outcome.failed) == (1, 0)
    assert {call["ending"] for call in episode.calls} == {ending}
    assert {turn["reply"] for turn in episode.turns} == {reply}


@pytest.mark.parametrize(
    "said",
    [
        {
            "error": {
                "message": "This model's maximum context length is 4096",
                "code": "context_length_exceeded",
            }
        },
        {"error": "This model's maximum context length is 4096"},
        {"object": "error", "message": "This model's maximum context length is 4096", "code": 400},
    ],
)
def test_full_context_that_is_said_with_a_good_status_is_an_ending(tmp_path, endpoint, said):
    endpoint.script = lambda number, body: said if number else endpoint.good
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.played, outcome.failed, episode.ended.kind) == (1, 0, "overflow")


def test_a_reply_that_grows_without_end_when_it_is_unpacked_is_cut(tmp_path, endpoint):
    packed = raw(gzip.compress(b" " * 100_000_000), **{"content-encoding": "gzip"})
    endpoint.script = lambda number, body: packed
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.failed, episode.failure.kind) == (1, "nonsense")
    assert "longer than" in episode.failure.message


DETAILS = [
    {"type": "reasoning.text", "text": "h"},
    {"type": "reasoning.summary", "summary": "m"},
    {"type": "reasoning.encrypted", "data": "…"},
]


@pytest.mark.parametrize(
    "message",
    [
        {"content": GOOD, "reasoning_content": "hm"},
        {"content": GOOD, "reasoning_content": ["h", {"text": "m"}]},
        {"content": GOOD, "reasoning": {"text": "hm"}},
        {"content": GOOD, "thinking_blocks": [{"type": "thinking", "thinking": "hm"}]},
        {"content": GOOD, "reasoning_details": DETAILS},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, GOOD]},
        {
            "content": [
                {"type": "reasoning", "summary": [{"text": "hm"}]},
                {"type": "redacted_thinking", "data": "…"},
                GOOD,
            ]
        },
    ],
)
def test_reasoning_is_found_wherever_servers_put_it(tmp_path, endpoint, message):
    endpoint.script = lambda number, body: dict(message)
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    said = {
        (turn["reply"], call["reasoning"])
        for turn, call in zip(episode.turns, episode.calls, strict=True)
    }
    assert said == {(GOOD, "hm")}


def test_an_answer_with_a_byte_order_mark_is_read(tmp_path, endpoint):
    answer = raw(json.dumps(completion({"content": GOOD}, "stop")).encode("utf-8-sig"))
    endpoint.script = lambda number, asked: answer
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert {turn["reply"] for turn in episode.turns} == {GOOD}


def test_run_stops_when_nothing_works(tmp_path, endpoint):
    endpoint.script = lambda number, body: 400
    outcome, episodes = play(
        tmp_path, endpoint.url, episodes=40, policy=Policy(concurrency=2, give_up_after=5)
    )
    assert "in a row failed" in outcome.reason
    assert 5 <= outcome.failed <= 7
    assert outcome.left == 40 - outcome.failed
    assert len(episodes) == outcome.failed


def test_key_is_sent_and_written_nowhere(tmp_path, endpoint, capfd):
    """Even an endpoint that echoes it in an error doesn't get it into a file."""
    steps = [(401, {"x": "y"}), {"oops": KEY}, (400, {}, {"error": {"message": f"no {KEY}"}})]
    endpoint.script = lambda number, body: steps[min(number, 2)]
    asked = {"episodes": 3, "policy": Policy(concurrency=1), "key_from": "OPENAI_API_KEY"}
    play(tmp_path, endpoint.url, **asked)
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    from vagen_benchmarks.report import write_report

    write_report(RunFolder(tmp_path / "run"))
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert len(files) >= 4
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert KEY not in "".join(capfd.readouterr())
    assert "[OPENAI_API_KEY]" in (tmp_path / "run" / "episodes.jsonl").read_text()


def test_no_key_for_openai_itself_is_said_at_once(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ProtocolError, match="OPENAI_API_KEY"):
        make_agents(["openai:gpt-4o"], Asked())


def test_concurrency_is_used(tmp_path, endpoint):
    inside, most, lock = 0, 0, threading.Lock()
    gate = threading.Barrier(4, timeout=10)

    def script(number, body):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        if number < 4:
            gate.wait()  # passes only if four requests are in flight at once
        with lock:
            inside -= 1
        return endpoint.good

    endpoint.script = script
    outcome, episodes = play(tmp_path, endpoint.url, episodes=8, policy=Policy(concurrency=4))
    assert (outcome.played, most) == (8, 4)
    assert sorted(episode.seed for episode in episodes) == list(range(8))


@pytest.fixture(params=["anthropic:claude-x", "gemini:gemini-x"])
def provider(request, endpoint):
    pytest.importorskip("anthropic" if request.param.startswith("anthropic") else "google.genai")
    return request.param


def test_other_providers_are_played(tmp_path, endpoint, provider):
    endpoint.script = lambda number, body: {"content": endpoint.good, "reasoning_content": "hm"}
    outcome, (episode,) = play(
        tmp_path, endpoint.root, episodes=1, name=provider, sampling=Sampling(150, 0.5)
    )
    assert (outcome.played, outcome.failed) == (1, 0)
    assert [turn["reply"] for turn in episode.turns] == [endpoint.good] * 3
    call = episode.calls[0]
    assert (call["ending"], call["prompt_tokens"], call["completion_tokens"]) == ("stop", 11, 7)
    assert call["reasoning"] == "hm"
    body = json.dumps(endpoint.requests[-1])
    assert body.count("image/png") == 3
    assert body.count("image") < 20  # no placeholder is left beside the pictures
    assert "<image>" not in body
    assert "150" in body
    assert any(KEY in value for value in endpoint.headers[0].values())


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (529, "server_error"),
        ((429, {"retry-after": "0"}), "rate_limited"),
        (401, "rejected"),
        (b"", "unreachable"),
        (raw("{{{{"), "nonsense"),
        ({"oops": 1}, "nonsense"),
    ],
)
def test_faults_of_other_providers(tmp_path, endpoint, provider, fault, kind):
    endpoint.script = lambda number, body: fault
    outcome, (episode,) = play(tmp_path, endpoint.root, episodes=1, name=provider)
    assert (outcome.failed, episode.failure.kind, len(endpoint.requests)) == (1, kind, 3)


@pytest.mark.parametrize(
    ("who", "answer", "ending"),
    [
        ("anthropic:c", {"content": "<answer>U", "finish": "max_tokens"}, "cut"),
        ("anthropic:c", {"content": "no.", "finish": "refusal"}, "refused"),
        ("anthropic:c", {"content": None}, "empty"),
        ("gemini:g", {"content": "<answer>U", "finish": "MAX_TOKENS"}, "cut"),
        ("gemini:g", {"content": None, "finish": "SAFETY"}, "filtered"),
        ("gemini:g", {"promptFeedback": {"blockReason": "SAFETY"}}, "filtered"),
        ("gemini:g", {"content": None}, "empty"),
        ("gemini:g", {"content": None, "finish": "LANGUAGE"}, "filtered"),
    ],
)
def test_odd_replies_of_other_providers(tmp_path, endpoint, who, answer, ending):
    pytest.importorskip("anthropic" if who.startswith("anthropic") else "google.genai")
    endpoint.script = lambda number, body: answer
    outcome, (episode,) = play(tmp_path, endpoint.root, episodes=1, name=who)
    assert (outcome.played, outcome.failed) == (1, 0)
    assert {call["ending"] for call in episode.calls} == {ending}


def test_own_registry_is_added(tmp_path, endpoint):
    own = tmp_path / "models.toml"
    own.write_text(
        f'[providers.mine]\nclient = "openai"\nkey = "MY_KEY"\nbase_url = "{endpoint.url}"\n'
        '[models.small]\nprovider = "mine"\nid = "acme/small"\ntemperature = false\nextra = {top_k = 5}\n'
    )
    (agent,) = make_agents(["small"], Asked(), own)
    assert agent.describe()["sampling"]["temperature"] is None
    outcome, _ = play(tmp_path, None, episodes=1, name="small", models=own)
    assert outcome.played == 1
    assert (endpoint.requests[0]["model"], endpoint.requests[0]["top_k"]) == ("acme/small", 5)
    assert "temperature" not in endpoint.requests[0]


@pytest.mark.parametrize(
    "text",
    [
        "[models.x]\nprovider = 'no'\nid = 'y'",
        "[providers.x]\nclient = 'opnai'\nkey = ''",
        "=",
        "[models.x]\nprovider = 'openai'\nid = 'y'\nheat = 3",
    ],
)
def test_broken_registry_is_one_clear_error(tmp_path, text):
    (tmp_path / "models.toml").write_text(text)
    with pytest.raises(ProtocolError, match=r"models\.toml is not a registry"):
        Registry(tmp_path / "models.toml")


@pytest.mark.parametrize(
    ("answer", "value"),
    [("<think>It fits.</think><answer>YES</answer>", 1.0), (KEY, None), (401, None)],
)
def test_a_model_that_judges(tmp_path, endpoint, monkeypatch, answer, value):
    """Its verdicts stand in the turns. One that fails leaves them unscored, costs no episode and leaks no key."""
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    endpoint.script = lambda number, body: answer
    scoring = make_scoring({"judge": "llm:small"})
    outcome = runs.play(tmp_path / "run", [Oracle()], ["frozenlake"], scoring=scoring, episodes=1)
    scoring.reward.judge.close()
    assert (outcome.played, outcome.failed) == (1, 0)
    (episode,) = runs.episodes(tmp_path / "run")
    for turn in episode.turns:
        assert turn["metrics"].get("grounding") == value
        assert turn["metrics"].get("world_modeling_unscored", False) == (value is None)
        assert turn["metrics"]["grounding_reason"]
        assert ("grounding" in {term["name"] for term in turn["rewards"]}) == (value is not None)
    assert KEY not in (tmp_path / "run" / "episodes.jsonl").read_text()


DEPLOYMENT = "/openai/deployments/m/chat/completions?api-version=1"


@pytest.mark.parametrize(
    ("who", "base", "path"),
    [
        ("openai:m", "/v1/", "/v1/chat/completions"),
        ("openai:m", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai:m", DEPLOYMENT, DEPLOYMENT),
        ("anthropic:c", "/v1", "/v1/messages"),
        ("anthropic:c", "/proxy/v1/messages/", "/proxy/v1/messages"),
        ("gemini:g", "/proxy", "/proxy/v1/models/g:generateContent"),
        ("gemini:g", "/v1beta/", "/v1beta/models/g:generateContent"),
    ],
)
def test_base_url_may_end_with_what_is_added_to_it(tmp_path, endpoint, who, base, path):
    outcome, _ = play(tmp_path, endpoint.root + base, episodes=1, name=who)
    assert outcome.played == 1
    assert set(endpoint.paths) == {path}


@pytest.mark.parametrize(
    "usage", [{"promptTokenCount": -1, "candidatesTokenCount": 7}, {"promptTokenCount": 0.5}, {}]
)
def test_odd_numbers_of_gemini_spoil_no_reply(tmp_path, endpoint, usage):
    candidate = {"content": {"parts": [{"text": GOOD}]}, "finishReason": "STOP"}
    endpoint.script = lambda number, body: {"candidates": [candidate], "usageMetadata": usage}
    outcome, (episode,) = play(tmp_path, endpoint.root, episodes=1, name="gemini:g")
    assert outcome.played == 1
    assert all(call["estimated"] and 0 < call["prompt_tokens"] < 10**6 for call in episode.calls)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"error": {"code": 503, "message": "overloaded"}}, "server_error"),
        ({"usageMetadata": {}}, "nonsense"),
    ],
)
def test_what_gemini_says_instead_of_an_answer_is_one_line(tmp_path, endpoint, said, kind):
    endpoint.script = lambda number, body: said
    _, (episode,) = play(tmp_path, endpoint.root, episodes=1, name="gemini:g")
    assert episode.failure.kind == kind
    assert "\n" not in episode.failure.message


def test_a_thought_longer_than_an_action_holds_costs_no_answer(tmp_path, endpoint):
    endpoint.script = lambda number, body: "hm " * 20_000 + "</think><answer>Up</answer>"
    profile = Registry().profile("untagged")
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1, profile=profile)
    assert all(turn["executed"] for turn in episode.turns)
