"""The chat agent against a real server and its faults."""

from __future__ import annotations

import gzip
import json
import threading
import time

import pytest
import runs
from chat_endpoint import GOOD, completion

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.agents.scripted import Oracle
from vagen_benchmarks.clients.base import Sampling
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.runner import Policy
from vagen_benchmarks.runs.scoring import make_scoring
from vagen_envs.context import ContextPolicy

KEY = "sk-secret-0123456789abcdef"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def play(tmp_path, url, episodes=2, policy=None, name="openai:m", models=None, **options):
    model = Registry(models).find(name, url)
    agent = ChatAgent(
        model, base_url=url, **{"attempts": 3, "timeout": 5.0, "first_wait": 0.01, "patience": 0.0, **options}
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
            (call["ending"], call["attempts"], call["prompt_tokens"]) == ("stop", 1, 11) for call in episode.calls
        )
    body = endpoint.requests[0]
    assert (body["model"], body["max_completion_tokens"], body["top_p"]) == ("m", 150, 0.9)
    assert "temperature" not in body  # nobody asked for one
    kinds = [part["type"] for message in body["messages"] if message["role"] == "user" for part in message["content"]]
    assert "image_url" in kinds


def test_history_window_limits_the_prompt(tmp_path, endpoint):
    play(tmp_path, endpoint.url, episodes=1, context=ContextPolicy(turns=0))
    assert [len(body["messages"]) for body in endpoint.requests] == [2, 2, 2]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (500, "server_error"),
        ((429, {"retry-after-ms": "5"}), "rate_limited"),
        (504, "timeout"),
        (
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\n<html",
            "nonsense",
        ),
        (
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n{{{{",
            "nonsense",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{", "unreachable"),
        (b"\x00\x01 this is not HTTP\r\n\r\n", "nonsense"),
        (b"", "unreachable"),
        ({"choices": []}, "nonsense"),
        ({"choices": [{"message": None}]}, "nonsense"),
        ({"choices": [{"message": {"content": 7}}]}, "nonsense"),
        ({"error": {"message": "model is loading"}}, "server_error"),
        ({"error": {"message": "slow down", "code": 429}}, "rate_limited"),
        (
            {"choices": [{"error": {"message": "broke off", "code": 502}, "message": {"content": ""}}]},
            "server_error",
        ),
        ({"content": None, "finish": "error"}, "server_error"),
        ({"content": "<answer>U", "finish": "network_error"}, "server_error"),
        ({"content": "", "finish": "abort"}, "server_error"),
        ({"content": "", "finish": "insufficient_system_resource"}, "server_error"),
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


@pytest.mark.parametrize("fault", [500, (429, {"retry-after": "0"}), b"", {"choices": []}])
def test_passing_fault_costs_only_time(tmp_path, endpoint, fault):
    endpoint.script = lambda number, body: fault if number % 2 == 0 else endpoint.good
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.played, outcome.failed) == (1, 0)
    assert [call["attempts"] for call in episode.calls] == [2, 2, 2]


def test_fault_in_the_middle_keeps_the_turns_before(tmp_path, endpoint):
    endpoint.script = lambda number, body: endpoint.good if number < 2 else 503
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (len(episode.turns), episode.failure.kind) == (2, "server_error")


@pytest.mark.parametrize(("status", "requests"), [(400, 1), (401, 3), (404, 3), (422, 1)])
def test_rejected_request_is_retried_only_where_it_may_pass(tmp_path, endpoint, status, requests):
    endpoint.script = lambda number, body: status
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.failed, len(endpoint.requests), episode.failure.kind) == (1, requests, "rejected"), episode.failure


PAGE = b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 13\r\n\r\n<html></html>"


@pytest.mark.parametrize("fault", [401, 403, 404, PAGE])
def test_one_passing_refusal_loses_no_episode(tmp_path, endpoint, fault):
    endpoint.script = lambda number, body: fault if number in (0, 4) else endpoint.good
    outcome, _ = play(tmp_path, endpoint.url, episodes=3)
    assert (outcome.played, outcome.failed, outcome.reason) == (3, 0, "")


def test_endpoint_that_is_down(tmp_path, closed_port):
    outcome, (episode,) = play(tmp_path, closed_port, episodes=1)
    assert (outcome.played, outcome.failed, episode.failure.kind) == (0, 1, "unreachable")


def test_endpoint_that_is_too_slow(tmp_path, endpoint):
    endpoint.script = lambda number, body: 3.0
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1, timeout=0.1, attempts=2)
    assert (outcome.failed, episode.failure.kind) == (1, "timeout")


@pytest.mark.parametrize(
    ("answer", "ending", "reply"),
    [
        ({"content": "<answer>Up", "finish": "length"}, "length", "<answer>Up"),
        ({"content": None, "refusal": "I can't help."}, "refusal", "I can't help."),
        ({"content": "", "finish": "content_filter"}, "filtered", ""),
        ({"content": "", "finish": "SAFETY"}, "filtered", ""),
        ({"content": "", "finish": "guardrail_intervened"}, "filtered", ""),
        ({"content": "", "finish": "refusal"}, "refusal", ""),
        ({"content": "<answer>Up", "finish": "MAX_TOKENS"}, "length", "<answer>Up"),
        ({"content": "<answer>Up", "finish": "model_length"}, "length", "<answer>Up"),
        ({"content": "<answer>Up", "finish": ["odd"]}, "stop", "<answer>Up"),
        ({"content": [{"type": "refusal", "refusal": "I can't."}]}, "refusal", "I can't."),
        ({"content": None}, "empty", ""),
        ({"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]}, "stop", "in parts"),
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
        {"error": {"message": "This model's maximum context length is 4096", "code": "context_length_exceeded"}},
        {"error": "This model's maximum context length is 4096"},
        {"object": "error", "message": "This model's maximum context length is 4096", "code": 400},
    ],
)
def test_full_context_that_is_said_with_a_good_status_is_an_ending(tmp_path, endpoint, said):
    endpoint.script = lambda number, body: said if number else endpoint.good
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.played, outcome.failed, episode.ended.kind) == (1, 0, "context full")


def test_a_reply_that_grows_without_end_when_it_is_unpacked_is_cut(tmp_path, endpoint):
    packed = gzip.compress(b" " * 100_000_000)
    endpoint.script = lambda number, body: (
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(packed), packed)
    )
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.failed, episode.failure.kind) == (1, "nonsense")
    assert "longer than" in episode.failure.message


@pytest.mark.parametrize(
    "message",
    [
        {"content": GOOD, "reasoning_content": "hm"},
        {"content": GOOD, "reasoning": "hm"},
        {"content": GOOD, "thinking": "hm"},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": GOOD},
            ]
        },
        {"content": [{"type": "thinking", "thinking": "hm"}, GOOD]},
        {"content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": GOOD}]},
        {
            "content": [
                {"type": "reasoning", "summary": [{"text": "hm"}]},
                {"type": "redacted_thinking", "data": "…"},
                GOOD,
            ]
        },
        {"content": GOOD, "reasoning": {"text": "hm"}},
        {"content": GOOD, "reasoning_content": ["h", {"text": "m"}]},
        {"content": GOOD, "reasoning_text": "hm"},
        {"content": GOOD, "thinking_blocks": [{"type": "thinking", "thinking": "hm"}]},
        {
            "content": GOOD,
            "reasoning_details": [
                {"type": "reasoning.text", "text": "h"},
                {"type": "reasoning.summary", "summary": "m"},
                {"type": "reasoning.encrypted", "data": "…"},
            ],
        },
    ],
)
def test_reasoning_is_found_wherever_servers_put_it(tmp_path, endpoint, message):
    endpoint.script = lambda number, body: dict(message)
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert {(turn["reply"], call["reasoning"]) for turn, call in zip(episode.turns, episode.calls, strict=True)} == {
        (GOOD, "hm")
    }


def test_an_answer_with_a_byte_order_mark_is_read(tmp_path, endpoint):
    body = json.dumps(completion({"content": GOOD}, "stop")).encode("utf-8-sig")
    endpoint.script = lambda number, asked: (
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert {turn["reply"] for turn in episode.turns} == {GOOD}


def test_more_is_read_from_no_cache_than_was_asked(tmp_path, endpoint):
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 10**6}}
    endpoint.script = lambda number, body: {**completion({"content": GOOD}, "stop"), "usage": usage}
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert {call["cached_tokens"] for call in episode.calls} == {10}


def test_hidden_reasoning_is_kept_beside_the_reply(tmp_path, endpoint):
    endpoint.script = lambda number, body: {"content": endpoint.good, "reasoning_content": "hm"}
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (episode.calls[0]["reasoning"], episode.turns[0]["reply"]) == ("hm", endpoint.good)


def test_run_stops_when_nothing_works(tmp_path, endpoint):
    endpoint.script = lambda number, body: 400
    outcome, episodes = play(tmp_path, endpoint.url, episodes=40, policy=Policy(concurrency=2, give_up_after=5))
    assert "in a row failed" in outcome.reason
    assert 5 <= outcome.failed <= 7
    assert outcome.left == 40 - outcome.failed
    assert len(episodes) == outcome.failed


def test_failed_episodes_are_played_again_on_resume(tmp_path, endpoint):
    endpoint.script = lambda number, body: 400
    outcome, _ = play(tmp_path, endpoint.url)
    assert outcome.failed == 2
    endpoint.script = lambda number, body: endpoint.good
    outcome, episodes = play(tmp_path, endpoint.url)
    assert (outcome.played, outcome.failed) == (2, 0)
    assert [episode.failure for episode in episodes] == [None, None]


def test_key_is_sent_and_written_nowhere(tmp_path, endpoint, capfd):
    """Even an endpoint that echoes it in an error doesn't get it into a file."""
    steps = [(401, {"x": "y"}), {"oops": KEY}, (400, {}, {"error": {"message": f"no {KEY}"}})]
    endpoint.script = lambda number, body: steps[min(number, 2)]
    play(tmp_path, endpoint.url, episodes=3, policy=Policy(concurrency=1))
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
    assert json.dumps(sorted(episode.seed for episode in episodes)) == json.dumps(list(range(8)))


@pytest.fixture(params=["anthropic:claude-x", "gemini:gemini-x"])
def provider(request, endpoint):
    pytest.importorskip("anthropic" if request.param.startswith("anthropic") else "google.genai")
    return request.param


def test_other_providers_are_played(tmp_path, endpoint, provider):
    endpoint.script = lambda number, body: {"content": endpoint.good, "reasoning_content": "hm"}
    outcome, (episode,) = play(tmp_path, endpoint.root, episodes=1, name=provider, sampling=Sampling(150, 0.5))
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
    ("fault", "kind", "requests"),
    [
        (500, "server_error", 3),
        (529, "server_error", 3),
        ((429, {"retry-after": "0"}), "rate_limited", 3),
        (401, "rejected", 3),
        (b"", "unreachable", 3),
        (
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n{{{{",
            "nonsense",
            3,
        ),
        ({"oops": 1}, "nonsense", 3),
    ],
)
def test_faults_of_other_providers(tmp_path, endpoint, provider, fault, kind, requests):
    endpoint.script = lambda number, body: fault
    outcome, (episode,) = play(tmp_path, endpoint.root, episodes=1, name=provider)
    assert (outcome.failed, episode.failure.kind, len(endpoint.requests)) == (1, kind, requests)


def test_slow_answers_of_other_providers(tmp_path, endpoint, provider):
    endpoint.script = lambda number, body: 2.0
    _, (episode,) = play(tmp_path, endpoint.root, episodes=1, name=provider, timeout=0.2, attempts=1)
    assert episode.failure.kind == "timeout"


@pytest.mark.parametrize(
    ("who", "answer", "ending"),
    [
        ("anthropic:c", {"content": "<answer>U", "finish": "max_tokens"}, "length"),
        ("anthropic:c", {"content": "no.", "finish": "refusal"}, "refusal"),
        ("anthropic:c", {"content": None}, "empty"),
        ("gemini:g", {"content": "<answer>U", "finish": "MAX_TOKENS"}, "length"),
        ("gemini:g", {"content": None, "finish": "SAFETY"}, "filtered"),
        ("gemini:g", {"promptFeedback": {"blockReason": "SAFETY"}}, "filtered"),
        ("gemini:g", {"content": None}, "empty"),
    ],
)
def test_odd_replies_of_other_providers(tmp_path, endpoint, who, answer, ending):
    pytest.importorskip("anthropic" if who.startswith("anthropic") else "google.genai")
    endpoint.script = lambda number, body: answer
    outcome, (episode,) = play(tmp_path, endpoint.root, episodes=1, name=who)
    assert (outcome.played, outcome.failed) == (1, 0)
    assert {call["ending"] for call in episode.calls} == {ending}


def test_registry_has_the_models_of_table_21():
    rows = {
        "vlm-r1-3b": "omlab/VLM-R1-Qwen2.5VL-3B-Math-0305",
        "qwen2.5-vl-3b": "Qwen/Qwen2.5-VL-3B-Instruct",
        "qwen2.5-vl-7b": "Qwen/Qwen2.5-VL-7B-Instruct",
        "qwen2.5-vl-72b": "Qwen/Qwen2.5-VL-72B-Instruct",
        "gpt-4o": "gpt-4o",
        "gemini-2.0": "gemini-2.0-flash",
        "claude-3.7-sonnet": "claude-3-7-sonnet-20250219",
    }
    registry = Registry()
    for name, model_id in rows.items():
        model = registry.find(name)
        sampling = model.sampling()
        assert (model.id, sampling.max_tokens, sampling.temperature) == (model_id, 400, 0.7)
    for model in registry.models.values():
        if model.price is not None:
            assert model.price.date is not None
            assert model.price.source


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


@pytest.mark.parametrize("text", ["[models.x]\nprovider = 'no'\nid = 'y'", "[providers.x]\nclient = 'opnai'\nkey = ''", "=",
                                  "[models.x]\nprovider = 'openai'\nid = 'y'\nheat = 3"])  # fmt: skip
def test_broken_registry_is_one_clear_error(tmp_path, text):
    (tmp_path / "models.toml").write_text(text)
    with pytest.raises(ProtocolError, match=r"models\.toml is not a registry"):
        Registry(tmp_path / "models.toml")


def test_rate_limit_headers_hold_requests_back(tmp_path, endpoint):
    limited = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "150ms"}
    times = []

    def script(number, body):
        times.append(time.monotonic())
        return (200, limited) if number == 0 else endpoint.good

    endpoint.script = script
    play(tmp_path, endpoint.url, episodes=1)
    assert times[1] - times[0] >= 0.15


@pytest.mark.timeout(60)
def test_a_nonsensical_rate_limit_holds_up_nobody(tmp_path, endpoint):
    limited = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1" * 64 + "x"}
    endpoint.script = lambda number, body: endpoint.good if number else (200, limited)
    assert play(tmp_path, endpoint.url, episodes=1)[0].played == 1


@pytest.mark.parametrize(
    ("answer", "value"), [("<think>It fits.</think><answer>YES</answer>", 1.0), (KEY, None), (401, None)]
)
def test_a_model_that_judges(tmp_path, endpoint, monkeypatch, answer, value):
    """Its verdicts stand in the turns. One that fails leaves them unscored, costs no episode and leaks no key."""
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    endpoint.script = lambda number, body: answer
    scoring = make_scoring({"judge": "llm:small"})
    outcome = runs.play(tmp_path / "run", [Oracle()], ["frozenlake"], scoring=scoring, episodes=1)
    scoring.judge.close()
    assert (outcome.played, outcome.failed) == (1, 0)
    (episode,) = runs.episodes(tmp_path / "run")
    for turn in episode.turns:
        assert turn["metrics"].get("grounding") == value
        assert turn["metrics"].get("world_modeling_unscored", False) == (value is None)
        assert turn["metrics"]["grounding_reason"]
        assert ("grounding" in {term["name"] for term in turn["rewards"]}) == (value is not None)
    assert KEY not in (tmp_path / "run" / "episodes.jsonl").read_text()


@pytest.mark.parametrize(
    ("who", "base", "path"),
    [
        ("openai:m", "/v1", "/v1/chat/completions"),
        ("openai:m", "/v1/", "/v1/chat/completions"),
        ("openai:m", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai:m", "/openai/deployments/m/chat/completions?api-version=1", "/openai/deployments/m/chat/completions?api-version=1"),
        ("anthropic:c", "", "/v1/messages"),
        ("anthropic:c", "/v1", "/v1/messages"),
        ("anthropic:c", "/proxy/v1/messages/", "/proxy/v1/messages"),
        ("gemini:g", "/proxy", "/proxy/v1/models/g:generateContent"),
        ("gemini:g", "/v1", "/v1/models/g:generateContent"),
        ("gemini:g", "/v1beta/", "/v1beta/models/g:generateContent"),
    ],
)  # fmt: skip
def test_base_url_may_end_with_what_is_added_to_it(tmp_path, endpoint, monkeypatch, who, base, path):
    monkeypatch.setenv(f"{who.partition(':')[0].upper()}_API_KEY", "a-secret")
    outcome, _ = play(tmp_path, endpoint.root + base, episodes=1, name=who)
    assert outcome.played == 1
    assert set(endpoint.paths) == {path}


USAGES = [
    {"promptTokenCount": -1, "candidatesTokenCount": 7},
    {"promptTokenCount": 10**400},
    {"promptTokenCount": 0.5},
    {},
]


@pytest.mark.parametrize("usage", USAGES)
def test_odd_numbers_of_gemini_spoil_no_reply(tmp_path, endpoint, monkeypatch, usage):
    monkeypatch.setenv("GEMINI_API_KEY", "a-secret")
    endpoint.script = lambda number, body: {
        "candidates": [{"content": {"parts": [{"text": GOOD}]}, "finishReason": "STOP"}], "usageMetadata": usage
    }  # fmt: skip
    outcome, (episode,) = play(tmp_path, endpoint.root, episodes=1, name="gemini:g")
    assert outcome.played == 1
    assert all(call["estimated"] and 0 < call["prompt_tokens"] < 10**6 for call in episode.calls)


@pytest.mark.parametrize(
    ("said", "kind"),
    [({"error": {"code": 503, "message": "overloaded"}}, "server_error"), ({"usageMetadata": {}}, "nonsense")],
)
def test_what_gemini_says_instead_of_an_answer_is_one_line(tmp_path, endpoint, monkeypatch, said, kind):
    monkeypatch.setenv("GEMINI_API_KEY", "a-secret")
    endpoint.script = lambda number, body: said
    _, (episode,) = play(tmp_path, endpoint.root, episodes=1, name="gemini:g")
    assert episode.failure.kind == kind
    assert "\n" not in episode.failure.message


def test_a_thought_longer_than_an_action_holds_costs_no_answer(tmp_path, endpoint):
    endpoint.script = lambda number, body: "hm " * 20_000 + "</think><answer>Up</answer>"
    profile = Registry().profile("untagged")
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1, profile=profile)
    assert all(turn["executed"] for turn in episode.turns)
