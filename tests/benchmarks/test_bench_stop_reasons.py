"""How episodes end: what the model ran into counts, and what failed bounds the score."""

from __future__ import annotations

import json

import pytest
import runs
from chat_endpoint import GOOD
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.cli import app
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.results.compare import compare, read_side
from vagen_benchmarks.results.stats import by_level, rate
from vagen_benchmarks.runs.plans import Plan, load_plan
from vagen_benchmarks.stop_reasons import Stop, recognise

SAID = [  # status, body as providers send it (where each is quoted stands in provider_errors.toml), what it means
    (400, {"error": {"message": "This model's maximum context length is 4097 tokens. However, your messages resulted in 4363 tokens. Please reduce the length of the messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}, "context full"),
    (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 208656 tokens > 200000 maximum"}}, "context full"),
    (400, {"error": {"code": 400, "message": "The input token count (3475108) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}, "context full"),
    (400, {"object": "error", "message": "The decoder prompt (length 15983) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.", "type": "BadRequestError", "param": None, "code": 400}, "context full"),
    (400, {"object": "error", "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).", "type": "BadRequestError", "param": None, "code": 400}, "context full"),
    (500, {"error": {"code": 500, "message": "the request exceeds the available context size. try increasing the context size or enable context shift", "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}}, "context full"),
    (500, {"error": "input exceeds context length"}, "context full"),
    (400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": json.dumps({"error": {"message": "Exceeded maximum number of images (50) allowed in the request.", "type": "invalid_request_error", "param": "input", "code": None}}), "provider_name": "Azure"}}}, "context full"),
    (400, {"error": {"message": "litellm.BadRequestError: litellm.ContextWindowExceededError: AnthropicError - {\"type\":\"error\"}", "type": None, "param": None, "code": "400"}}, "context full"),
    (400, {"error": {"message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", "type": None, "param": "prompt", "code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"sexual": {"filtered": True, "severity": "high"}}}}}, "content filter"),
    (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}}, "content filter"),
    (400, {"error": {"message": "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt", "type": "invalid_request_error", "param": None, "code": "invalid_prompt"}}, "policy refusal"),
    (400, {"error": "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}, "context full"),
    (422, {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", "error_type": "validation"}, "context full"),
    (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, "context full"),
    (400, {"detail": "Prompt length 9000 is greater than max_seq_len 8192"}, "context full"),
    (400, {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}}, "content filter"),
    (400, {"error": {"code": "SensitiveContentDetected", "message": "The request failed because the input text may contain sensitive information."}}, "content filter"),
    (400, {"error": {"message": json.dumps({"error": "Violated guardrail policy"}), "code": "400"}}, "content filter"),
    (500, {"error": {"message": "input is too large to process. increase the physical batch size"}}, "context full"),
    (400, {"error": {"message": "The number of images (9) exceeds the limit (8)"}}, "context full"),
    (400, {"error": {"message": "The engine prompt length 5000 exceeds the max_model_len 4096."}}, "context full"),
    (400, {"error": {"message": "max_tokens must be at least 1, got -120."}}, "context full"),
    (400, {"error": {"message": "Total tokens of image and text exceed max message tokens"}}, "context full"),
    (500, {"error": {"message": "failed to decode: KV cache is full"}}, "context full"),
    (400, {"error": {"message": "Prompt has 256468 tokens, but the configured context size is 256000 tokens"}}, "context full"),
    (400, {"error": {"message": "This request requires 12000 tokens of context but the model has 8192"}}, "context full"),
    (400, {"error": {"message": "The request's token count (150000) is above the limit (131072)"}}, "context full"),
    (400, {"error": {"message": "You uploaded 30 images, the maximum is 20"}}, "context full"),
]  # fmt: skip
NOT_ENDINGS = [
    (400, {"error": {"message": "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096."}}),
    (400, {"error": {"message": "Image dimensions 9000x9000 exceed the maximum of 8000x8000 pixels"}}),
    (400, {"error": {"message": "Invalid 'messages': array too long. Expected an array with maximum length 2048"}}),
    (413, {"error": {"message": "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.", "code": "rate_limit_exceeded"}}),
    (400, {"error": {"message": "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"}}),
    (400, {"object": "error", "message": "At most 0 image(s) may be provided in one prompt."}),
    (429, {"error": {"message": "Rate limit reached for gpt-4o: maximum context length is 8192", "code": "rate_limit_exceeded"}}),
    (400, {"error": {"message": "Unsupported value: 'temperature' does not support 0.7 with this model.", "code": "unsupported_value"}}),
    (503, {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}),
    (400, {"error": {"message": "Context window too small: minimum is 1000 tokens"}}),
    (400, {"error": {"message": "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40."}}),
    (400, {"error": {"message": "ThrottlingException: Too many tokens, please wait before trying again"}}),
    (400, {"error": {"message": "output token count of 9000 exceeds the limit of 8192"}}),
    (422, {"detail": [{"loc": ["body", "max_tokens"], "msg": "Input should be less than or equal to 4096"}]}),
]  # fmt: skip

UP = "<think>t</think><answer>Up</answer>"


@pytest.mark.parametrize(("status", "body", "stop"), SAID)
def test_providers_words_for_an_ending_are_known(status, body, stop):
    assert recognise(status, json.dumps(body)) is Stop(stop)


@pytest.mark.parametrize(("status", "body"), NOT_ENDINGS)
def test_errors_of_the_machine_are_no_endings(status, body):
    assert recognise(status, json.dumps(body)) is None


@given(st.integers(100, 599), st.text())
def test_any_body_is_read(status, body):
    assert recognise(status, body) in (None, *Stop)


def chat(url, **options):
    model = Registry().find("openai:m", url)
    return ChatAgent(model, base_url=url, **{"attempts": 2, "first_wait": 0.01, "patience": 0.0, **options})


def full_after(pictures):
    """A server whose context holds so many pictures."""

    def script(number, asked):
        shown = json.dumps(asked["messages"]).count("data:image")
        return (400, {}, SAID[0][1]) if shown > pictures else UP

    return script


def test_full_context_is_an_ending_that_counts(tmp_path, endpoint):
    endpoint.script = full_after(1)
    outcome = runs.play(tmp_path, [chat(endpoint.url)], ["frozenlake"], episodes=6, options={"strategy": "free_think"})
    assert (outcome.played, outcome.failed) == (6, 0)
    episodes = runs.episodes(tmp_path)
    ended = [episode.ended for episode in episodes]
    assert Stop.CONTEXT in {each.kind for each in ended}
    assert all("maximum context length" in each.message for each in ended if each.kind is Stop.CONTEXT)
    assert all(len(episode.turns) == 1 for episode in episodes if episode.ended.kind is Stop.CONTEXT)
    (row,) = runs.rows(tmp_path)
    assert (row["played"], row["failed"]) == (6, 0)
    assert row["errors"]["context full"] == sum(each.kind is Stop.CONTEXT for each in ended) / 6
    asked = len(endpoint.requests)
    runs.play(tmp_path, [chat(endpoint.url)], ["frozenlake"], episodes=6, options={"strategy": "free_think"})
    assert len(endpoint.requests) == asked  # played is played


@pytest.mark.parametrize(
    ("body", "held", "fix"),
    [
        (SAID[0][1], 0, "--max-model-len"),
        ({"error": {"message": "At most 1 image(s) may be provided in one request."}}, 1, "--context last:0"),
    ],
)
def test_server_that_is_not_set_up_for_the_run_is_an_error_with_its_fix(tmp_path, endpoint, body, held, fix):
    good = full_after(held)
    endpoint.script = lambda number, asked: (400, {}, body) if isinstance(good(number, asked), tuple) else GOOD
    outcome = runs.play(tmp_path, [chat(endpoint.url)], ["frozenlake"], episodes=30)
    assert outcome.left > 0
    assert fix in outcome.reason
    assert Stop.CONTEXT not in {episode.ended.kind for episode in runs.episodes(tmp_path)}


def test_one_prompt_that_is_longer_than_all_others_is_the_models_loss(tmp_path, endpoint):
    endpoint.script = lambda number, asked: (400, {}, SAID[0][1]) if number == 1 else GOOD
    outcome = runs.play(tmp_path, [chat(endpoint.url)], ["frozenlake"], episodes=6)
    assert (outcome.played, outcome.failed) == (6, 0)
    assert Stop.CONTEXT in {episode.ended.kind for episode in runs.episodes(tmp_path)}


def failing(endpoint, every):
    """Each `every`-th episode's server dies; the others are played with one reply for ever."""
    seen = {}

    def script(number, asked):
        first = json.dumps(asked["messages"][1])
        at = seen.setdefault(first, len(seen))
        return 500 if at % every == 0 else UP

    endpoint.script = script


def test_failures_bound_the_score_and_mark_it(tmp_path, endpoint):
    failing(endpoint, 4)
    options = {"strategy": "free_think"}
    outcome = runs.play(tmp_path, [chat(endpoint.url)], ["frozenlake"], episodes=16, options=options)
    assert outcome.failed == 4
    (row,) = runs.rows(tmp_path)
    assert (row["played"], row["failed"], row["flagged"]) == (12, 4, True)
    episodes = runs.episodes(tmp_path)
    as_lost = rate(by_level((e.content, float(e.success and not e.failure)) for e in episodes))
    as_won = rate(by_level((e.content, float(e.success or e.failure is not None)) for e in episodes))
    assert (row["low"], row["high"]) == pytest.approx((as_lost.low, as_won.high))
    assert row["success"] == sum(e.success for e in episodes) / 12
    shown = CliRunner().invoke(app, ["resume", str(tmp_path), "--base-url", endpoint.url, "--patience", "0"])
    assert "‡" in shown.output


def test_what_was_never_played_bounds_the_score_too(tmp_path):
    runs.play(tmp_path, [Oracle(), Random()], ["frozenlake"], episodes=30)
    lines = (tmp_path / "episodes.jsonl").read_text().splitlines(keepends=True)
    oracle = [line for line in lines if '"agent":"oracle"' in line]
    (tmp_path / "episodes.jsonl").write_text("".join(oracle[:20]))
    row, other = runs.rows(tmp_path)
    assert (row["played"], row["missing"], row["flagged"], row["success"]) == (20, 10, True, 1.0)
    assert row["low"] < 20 / 30 < row["high"] == 1.0
    assert (other["success"], other["missing"]) == (None, 30)  # nothing played: no rate


def test_comparison_reports_the_pairs_it_lost(tmp_path, endpoint):
    options = {"strategy": "free_think"}
    failing(endpoint, 4)
    runs.play(tmp_path / "1", [chat(endpoint.url)], ["frozenlake"], episodes=16, options=options)
    endpoint.script = lambda number, asked: UP
    runs.play(tmp_path / "2", [chat(endpoint.url)], ["frozenlake"], episodes=16, options=options)
    (line,) = compare(read_side(str(tmp_path / "1")), read_side(str(tmp_path / "2")))
    assert (line.count, line.lost, line.solved.value, line.p_value) == (12, 4, 0.0, 1.0)
    assert line.solved.low < -0.2
    assert line.solved.high > 0.2


def test_protocol_that_was_cut_down_is_marked():
    plan = load_plan("paper")
    assert plan.altered() == ""
    cut = [{**each, "episodes": 8} for each in plan.data["columns"]]
    assert "episodes: 128 / 8" in Plan("paper", {"name": "paper", **plan.data, "columns": cut}).altered()
