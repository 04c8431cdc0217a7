"""What the terminal says fixes a failure: by the words of the endpoint, whatever its status."""

from __future__ import annotations

import json
import time

import pytest
from typer.testing import CliRunner

from vagen_benchmarks.cli import app

SAID = [  # status, body, words of the fix
    (400, {"error": {"message": "Your credit balance is too low to access the Anthropic API."}}, "out of money"),
    (403, {"error": "Your newly created team doesn't have any credits or licenses yet."}, "out of money"),
    (429, {"error": "Your team x has either used all available credits or reached its monthly spending limit."}, "out of money"),
    (429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}, "out of money"),
    (412, {"error": {"message": "Account x is suspended, possibly due to reaching the monthly spending limit"}}, "out of money"),
    (400, {"error": {"message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}, "refuses the key"),
    (400, {"error": "Incorrect API key provided: xa***."}, "refuses the key"),
    (403, {"error": {"message": "Country, region, or territory not supported"}}, "country"),
    (403, "<!DOCTYPE html><html><head><title>Just a moment...</title></head>", "web page"),
    (400, {"error": {"message": "x/y is not a valid model ID"}}, "no such model"),
    (400, {"error": {"message": "Model Not Exist"}}, "no such model"),
    (400, {"error": {"message": "The model `llama-3.2-90b` has been decommissioned"}}, "no such model"),
    (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"], "msg": "Extra inputs are not permitted"}]}, "token_field"),
    (400, {"error": {"message": "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for m"}}, "--max-tokens"),
    (400, {"error": {"message": "`temperature` and `top_p` cannot both be specified for this model."}}, "one of the two"),
    (400, {"error": {"message": "`temperature` is deprecated for this model."}}, "--temperature none"),
    (400, {"error": {"message": "Unsupported parameter: 'seed' is not supported"}}, "no --seed"),
    (400, {"error": {"message": "m is not a multimodal model"}}, "takes no pictures"),
    (500, {"error": {"message": "image input is not supported - hint: you may need to provide the mmproj"}}, "takes no pictures"),
    (404, {"error": {"message": "No endpoints found that support image input"}}, "takes no pictures"),
    (400, {"error": {"message": "image exceeds 5 MB maximum"}}, "refuses the picture"),
    (413, {"error": {"message": "Request too large on tokens per minute (TPM): Limit 6000"}}, "account's limits"),
]  # fmt: skip


def bench(endpoint, out, *more):
    options = ["-e", "frozenlake", "-a", "openai:m", "--base-url", endpoint.url, "-n", "1", "--patience", "1"]
    return CliRunner().invoke(app, ["bench", *options, "--attempts", "2", "--out", str(out), *more])


@pytest.mark.parametrize(("status", "body", "fix"), SAID)
def test_failure_is_named_with_what_fixes_it(tmp_path, endpoint, status, body, fix):
    text = (body if isinstance(body, str) else json.dumps(body, indent=2)).encode()
    endpoint.script = lambda number, asked: (
        b"HTTP/1.1 %d No\r\ncontent-length: %d\r\n\r\n%b" % (status, len(text), text)
    )
    shown = bench(endpoint, tmp_path / "run")
    assert shown.exit_code in (1, 3)
    assert f"1 × HTTP {status}: " in shown.output
    said = shown.output.partition("1 × HTTP")[2].splitlines()
    assert fix in said[1]  # the failure is one line, and the next one fixes it
    assert len(endpoint.requests) <= 2  # asking a third time is no use


def test_replies_that_cannot_be_read_are_said(tmp_path, endpoint):
    """A score of 0 then measures how the model is served, and not how it plays."""
    endpoint.script = lambda number, asked: "I see a frozen lake."
    shown = bench(endpoint, tmp_path / "run")
    assert shown.exit_code == 0
    assert "only 0% of its turns had an answer that could be read; vagen models try openai:m" in shown.output
    endpoint.script = lambda number, asked: {"content": "<think>and so on", "finish": "length"}
    assert "replies end at their limit of tokens: --max-tokens" in bench(endpoint, tmp_path / "other").output
    endpoint.script = lambda number, asked: "<think>t</think><answer>Up</answer>"
    assert "could be read; " not in bench(endpoint, tmp_path / "good", "--strategy", "free_think").output


def test_replies_that_a_proxy_has_escaped_are_played(tmp_path, endpoint):
    endpoint.script = lambda number, asked: "&lt;answer&gt;Up&lt;/answer&gt;"
    shown = bench(endpoint, tmp_path / "run", "--strategy", "free_think")
    assert shown.exit_code == 0
    assert "could be read; " not in shown.output


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": None, "reasoning_content": "<answer>Up</answer>"}, "without its reasoning parser"),
        ({"content": "<think>and", "finish": "length"}, "--max-tokens"),
    ],
)
def test_what_fits_no_profile_is_told_why(endpoint, message, said):
    endpoint.script = lambda number, asked: dict(message)
    shown = CliRunner().invoke(app, ["models", "try", "openai:m", "--base-url", endpoint.url])
    assert shown.exit_code in (1, 3)
    assert said in shown.output.partition("No profile fits")[2]


@pytest.mark.parametrize("after", ["0", "-5", "nan", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_endpoint_that_says_at_once_is_not_asked_without_a_pause(tmp_path, endpoint, after):
    endpoint.script = lambda number, asked: (429, {"retry-after": after})
    assert bench(endpoint, tmp_path / "run").exit_code == 3
    assert len(endpoint.requests) <= 4  # within the second of patience


def test_endpoint_that_asks_for_a_day_outwaits_no_patience(tmp_path, endpoint):
    endpoint.script = lambda number, asked: (429, {"retry-after": "86400"})
    began = time.monotonic()
    assert bench(endpoint, tmp_path / "run").exit_code == 3
    assert time.monotonic() - began < 20


def test_models_try_takes_options_and_prints_a_command_that_asks_the_same_endpoint(endpoint):
    asked = ["models", "try", "openai:m", "--base-url", endpoint.url, "-o", "observation=text"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert f"--base-url {endpoint.url} -o observation=text" in shown.output
    assert "image_url" not in str(endpoint.requests)


def test_a_tool_call_in_the_field_of_the_api_is_a_reply(tmp_path, endpoint):
    call = {"id": "1", "type": "function", "function": {"name": "move", "arguments": '{"action": "Up"}'}}
    endpoint.script = lambda number, asked: {"content": None, "tool_calls": [call]}
    assert bench(endpoint, tmp_path / "run").exit_code == 0
    assert "<tool_call>" in (tmp_path / "run" / "episodes.jsonl").read_text()
