"""What the terminal says fixes a failure: by the words of the endpoint, whatever its status."""

from __future__ import annotations

import pytest
from chat_endpoint import raw
from typer.testing import CliRunner

from vagen_benchmarks.cli import app


def page(title):
    """What nginx answers by itself."""
    return raw(
        f"<html>\r\n<head><title>{title}</title></head>\r\n<body><center>nginx</center></body></html>",
        "text/html",
        title,
    )


def said(code, message, **more):
    return code, {}, {"error": {"message": message, **more}}


SAID = [  # what is answered, and words of the fix
    (said(429, "You exceeded your current quota", type="insufficient_quota"), "out of money"),
    (said(400, "API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT"), "refuses the key"),
    ((401, {}), "the endpoint refuses the key: set OPENAI_API_KEY"),
    (said(403, "Country, region, or territory not supported"), "country"),
    (
        raw("<!DOCTYPE html><html><head><title>Just a moment...</title></head>", "text/html", "403 Forbidden"),
        "web page",
    ),
    (said(400, "The model `llama-3.2-90b` has been decommissioned"), "no such model"),
    ((404, {}), "no such model or path"),
    (
        (422, {}, {"detail": [{"loc": ["body", "max_completion_tokens"], "msg": "Extra inputs are not permitted"}]}),
        "token_field",
    ),
    (
        said(400, "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for m"),
        "--max-tokens",
    ),
    (said(400, "`temperature` and `top_p` cannot both be specified for this model."), "one of the two"),
    (said(400, "`temperature` is deprecated for this model."), "--temperature none"),
    (said(400, "Unsupported parameter: 'seed' is not supported"), "no --seed"),
    (said(500, "image input is not supported - hint: you may need to provide the mmproj"), "takes no pictures"),
    (said(400, "image exceeds 5 MB maximum"), "refuses the picture"),
    (said(400, "At most 1 image(s) may be provided in one prompt."), "--limit-mm-per-prompt"),
    (said(413, "Request too large on tokens per minute (TPM): Limit 6000"), "account's limits"),
    ((400, {}), "resume would be refused again"),
    ((307, {"location": "http://elsewhere/v1"}), "keys don't follow redirects"),
    (page("413 Request Entity Too Large"), "client_max_body_size"),
    (page("400 The plain HTTP request was sent to HTTPS port"), "what stands before the model refuses"),
    (raw("data: {}\n\n\n\n", "text/event-stream"), "leave out what asks it to"),
    (raw("<html><title>Hi</title></html>", "text/html"), "that is a web page"),
    ((200, {}, {"choices": []}), "doesn't speak its provider's protocol"),
]


def bench(url, out, *more):
    options = ["-e", "frozenlake", "-a", "openai:m", "--base-url", url, "-n", "1", "--patience", "1"]
    return CliRunner().invoke(app, ["bench", *options, "--attempts", "2", "--out", str(out), *more])


def named(shown):
    """The failure, which is one line, and the next one, which fixes it."""
    assert shown.exit_code in (1, 3)
    return shown.output.partition("1 × ")[2].splitlines()[:2]


@pytest.mark.parametrize(("answer", "fix"), SAID)
def test_failure_is_named_with_what_fixes_it(tmp_path, endpoint, answer, fix):
    endpoint.script = lambda number, asked: answer
    assert fix in named(bench(endpoint.url, tmp_path / "run"))[1]
    assert len(endpoint.requests) <= 2  # asking a third time is no use


def test_a_port_that_nobody_listens_at_is_named_with_what_fixes_it(tmp_path, closed_port):
    shown = bench(closed_port, tmp_path / "run", "--patience", "0")
    assert "nothing listens there: start the server" in named(shown)[1]
    assert f"vagen resume {tmp_path / 'run'} plays them again" in shown.output.replace("\n", "")


def test_replies_that_cannot_be_read_are_said(tmp_path, endpoint):
    """A score of 0 then measures how the model is served, and not how it plays."""
    endpoint.script = lambda number, asked: "I see a frozen lake."
    shown = bench(endpoint.url, tmp_path / "run")
    assert shown.exit_code == 0
    assert "only 0% of its turns had an answer that could be read; vagen models try openai:m" in shown.output
    endpoint.script = lambda number, asked: {"content": "<think>and so on", "finish": "length"}
    assert "replies end at their limit of tokens: --max-tokens" in bench(endpoint.url, tmp_path / "other").output
    endpoint.script = lambda number, asked: "<think>t</think><answer>Up</answer>"
    assert "could be read; " not in bench(endpoint.url, tmp_path / "good", "--strategy", "free_think").output


def test_replies_that_a_proxy_has_escaped_are_played(tmp_path, endpoint):
    endpoint.script = lambda number, asked: "&lt;answer&gt;Up&lt;/answer&gt;"
    shown = bench(endpoint.url, tmp_path / "run", "--strategy", "free_think")
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


@pytest.mark.timeout(60)
@pytest.mark.parametrize("after", ["0", "nan", "Wed, 21 Oct 2015 07:28:00 GMT", "86400"])
def test_whatever_pause_an_endpoint_asks_for_is_at_most_the_runs_patience(tmp_path, endpoint, after):
    endpoint.script = lambda number, asked: (429, {"retry-after": after})
    assert bench(endpoint.url, tmp_path / "run").exit_code == 3
    assert len(endpoint.requests) <= 4  # within the second of patience


def test_models_try_takes_options_and_prints_a_command_that_asks_the_same_endpoint(endpoint):
    asked = ["models", "try", "openai:m", "--base-url", endpoint.url, "-o", "observation=text"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert f"--base-url {endpoint.url} -o observation=text" in shown.output
    assert "image_url" not in str(endpoint.requests)


def test_a_tool_call_in_the_field_of_the_api_is_a_reply(tmp_path, endpoint):
    call = {"id": "1", "type": "function", "function": {"name": "move", "arguments": '{"action": "Up"}'}}
    endpoint.script = lambda number, asked: {"content": None, "tool_calls": [call]}
    assert bench(endpoint.url, tmp_path / "run").exit_code == 0
    assert "<tool_call>" in (tmp_path / "run" / "episodes.jsonl").read_text()
