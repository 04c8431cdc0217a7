"""Context policies in runs: strict servers of each provider's form, summaries, and comparison level by level."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import runs
from chat_endpoint import GOOD
from commands import vagen

from vagen_adapters.context import ContextPolicy
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.runner import Policy


def chat(number):
    message = {"role": "assistant", "content": GOOD, "reasoning_content": f"thought {number}"}
    message["reasoning_details"] = [
        {"type": "reasoning.encrypted", "data": f"secret {number}", "index": 0}
    ]
    answer = {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    return answer | {"usage": {"prompt_tokens": 11, "completion_tokens": 7}}, message


def responses(number):
    thought = {
        "type": "reasoning",
        "id": f"rs_{number}",
        "summary": [],
        "encrypted_content": f"secret {number}",
    }
    said = {"type": "output_text", "text": GOOD, "annotations": []}
    items = [
        thought,
        {"type": "message", "id": f"m_{number}", "role": "assistant", "content": [said]},
    ]
    usage = {
        "input_tokens": 11,
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    return {"id": "r", "status": "completed", "output": items, "usage": usage}, items


def anthropic(number):
    blocks = [
        {"type": "thinking", "thinking": f"thought {number}", "signature": f"signed {number}"},
        {"type": "redacted_thinking", "data": f"secret {number}"},
        {"type": "text", "text": GOOD},
    ]
    answer = {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": blocks}
    return answer | {
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 11, "output_tokens": 7},
    }, blocks


def gemini(number):
    parts = [
        {"text": f"thought {number}", "thought": True},
        {"text": GOOD, "thoughtSignature": "c2lnbmVk"},
    ]
    answer = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]
    }
    return answer | {"usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7}}, parts


def sent_back(form, body):
    """What a request holds of earlier replies, in order, as the provider gave it."""
    if form is responses:
        items = [item for item in body["input"] if item.get("type") in ("reasoning", "message")]
        return [items[at : at + 2] for at in range(0, len(items), 2)]
    if form is anthropic:
        replies = [
            message["content"] for message in body["messages"] if message["role"] == "assistant"
        ]
        return [
            [{name: part[name] for name in part if name != "cache_control"} for part in reply]
            for reply in replies
        ]
    if form is gemini:
        return [content["parts"] for content in body["contents"] if content["role"] == "model"]
    return [message for message in body["messages"] if message["role"] == "assistant"]


FORMS = {
    "openai:m": chat,
    "openai-responses:m": responses,
    "anthropic:c": anthropic,
    "gemini:g": gemini,
}


@pytest.mark.parametrize("name", FORMS)
def test_reasoning_goes_back_exactly_as_it_came(tmp_path, endpoint, name, monkeypatch):
    if name.startswith(("anthropic", "gemini")):
        pytest.importorskip("anthropic" if name.startswith("anthropic") else "google.genai")
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "none")
    form = FORMS[name]
    given = []

    def strict(number, body):
        if sent_back(form, body) != given:
            return 400, {}, {"error": {"message": "reasoning items are missing or changed"}}
        answer, hidden = form(number)
        given.append(hidden)
        return 200, {}, answer

    endpoint.script = strict
    url = endpoint.url if name.startswith("openai") else endpoint.root
    model = Registry(None).find(name, url)
    agent = ChatAgent(
        model, base_url=url, context=ContextPolicy(reasoning="keep"), attempts=1, patience=0.0
    )
    outcome = runs.play(tmp_path / "run", [agent], policy=Policy(concurrency=1), episodes=1)
    assert (outcome.played, outcome.failed) == (1, 0)
    (episode,) = runs.episodes(tmp_path / "run")
    assert len(episode.turns) == len(given) == 3
    assert [call["hidden"] is not None for call in episode.calls] == [True] * 3
    dropped = ChatAgent(model, base_url=url, attempts=1, patience=0.0)
    endpoint.script = lambda number, body: (
        400 if "secret" in json.dumps(body) else 200,
        {},
        form(number)[0],
    )
    outcome = runs.play(tmp_path / "dropped", [dropped], policy=Policy(concurrency=1), episodes=1)
    assert (outcome.played, outcome.failed) == (1, 0)  # nothing goes back by default
    assert all(call["hidden"] is None for call in runs.episodes(tmp_path / "dropped")[0].calls)


def openai_agent(endpoint):
    model, context = Registry(None).find("openai:m", endpoint.url), ContextPolicy(reasoning="keep")
    return ChatAgent(model, base_url=endpoint.url, context=context, attempts=1, patience=0.0)


def test_a_resumed_run_sends_an_episodes_own_reasoning_back(tmp_path, endpoint):
    given = []

    def strict(number, body):
        back = sent_back(chat, body)
        if not back:
            given.clear()  # another episode begins
        if number == 4 or back != given:
            return 400, {}, {"error": {"message": "broken, or reasoning is missing or changed"}}
        answer, hidden = chat(number)
        given.append(hidden)
        return 200, {}, answer

    endpoint.script = strict
    results = [
        runs.play(
            tmp_path / "run", [openai_agent(endpoint)], policy=Policy(concurrency=1), episodes=2
        )
        for _ in range(2)
    ]
    assert [(each.played, each.failed) for each in results] == [(1, 1), (1, 0)]
    for episode in runs.episodes(tmp_path / "run"):
        stored = [call["hidden"]["reasoning_content"] for call in episode.calls]
        assert len(set(stored)) == 3


def test_an_endpoint_that_hides_what_it_reasoned_is_one_error(tmp_path, endpoint):
    answer, message = chat(0)
    del message["reasoning_content"], message["reasoning_details"]
    answer["usage"]["completion_tokens_details"] = {"reasoning_tokens": 5}
    endpoint.script = lambda number, body: (200, {}, answer)
    outcome = runs.play(tmp_path / "run", [openai_agent(endpoint)], episodes=1)
    assert outcome.failed == 1
    assert "returned none of it" in str(outcome.failures)


def test_a_policy_that_a_provider_cannot_honour_is_refused_before_anything_is_paid():
    with pytest.raises(ProtocolError, match="openai-responses:m"):
        ChatAgent(
            Registry(None).find("openai:m", "https://api.openai.com/v1"),
            context=ContextPolicy(reasoning="keep"),
        )


def test_summaries_replace_turns_and_are_stored_counted_and_resumed(tmp_path, endpoint):
    def script(number, body):
        last = json.dumps(body["messages"][-1])
        return f"summary {number}" if "Write a summary" in last else GOOD

    endpoint.script = script
    common = (
        "bench -e frozenlake -o max_turns=5 -o is_slippery=false -n 1 -a openai:m"
        f" --base-url {endpoint.url} --context summary:2:64"
    ).split()
    done = vagen(*common, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    (episode,) = runs.episodes(tmp_path / "run")
    written = [(summary["before"], summary["text"]) for summary in episode.summaries]
    assert [before for before, _ in written] == [2, 4][: len(written)]
    assert written
    later = endpoint.requests[-1]["messages"]
    assert written[-1][1] in json.dumps(later)
    assert len(endpoint.requests) == len(episode.turns) + len(written)
    assert len(episode.all_calls) == len(endpoint.requests)
    assert vagen("verify", tmp_path / "run").returncode == 0
    chunk = re.search(
        r'id="c0">(.*?)<', (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    )[1]
    (shown,) = json.loads(gzip.decompress(base64.b64decode(chunk)))
    assert [turn["summary"] for turn in shown["turns"]][2] == written[0][1]
    asked = len(endpoint.requests)
    assert vagen("resume", tmp_path / "run").returncode == 0
    assert len(endpoint.requests) == asked  # nothing is left to play


def test_a_context_that_fails_everywhere_leaves_the_runs_own_report(tmp_path, endpoint):
    endpoint.script = lambda number, body: (
        404 if len(body["messages"]) > 2 else GOOD
    )  # earlier turns are refused
    asked = f"bench -e frozenlake -n 1 -a openai:m --base-url {endpoint.url} --context last:0 --context all --attempts 1"
    done = vagen(*asked.split(), "--out", tmp_path / "run")
    assert done.returncode == 1
    assert "have no level in common" in done.stderr
    assert "report:" in done.stdout


def test_several_contexts_are_compared_on_the_same_levels(tmp_path, endpoint):
    endpoint.script = lambda number, body: (
        GOOD if len(body["messages"]) > 2 else GOOD.replace("Up", "Down")
    )
    asked = f"bench -e frozenlake -n 3 -a openai:m --base-url {endpoint.url} --context all --context last:0"
    done = vagen(*asked.split(), "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    played = runs.episodes(tmp_path / "run")
    assert {episode.agent for episode in played} == {"openai:m+all", "openai:m+last:0"}
    assert "openai:m+last:0" in done.stdout
    assert "success 2 − 1" in done.stdout
    assert (
        vagen(
            "compare", f"{tmp_path / 'run'}@openai:m+all", f"{tmp_path / 'run'}@openai:m+last:0"
        ).returncode
        == 0
    )
    assert vagen("resume", tmp_path / "run").returncode == 0


def test_the_example_compares_two_policies(tmp_path, endpoint):
    example = Path(__file__).parents[2] / "examples" / "compare_context.py"
    command = [sys.executable, example, "openai:m", endpoint.url]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "openai:m+last:1" in done.stdout
