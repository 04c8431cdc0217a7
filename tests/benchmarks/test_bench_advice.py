"""What the terminal says fixes a failure: by the words of the endpoint, whatever its status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chat_endpoint import raw
from typer.testing import CliRunner

from vagen_benchmarks.cli import app

CASES = json.loads(Path(__file__).with_name("advice.json").read_text(encoding="utf-8"))
"""What is answered (status, headers, JSON; or text, its type, the status line), and words of the fix."""


def bench(url, out, *more):
    options = [
        "-e",
        "frozenlake",
        "-a",
        "openai:m",
        "--base-url",
        url,
        "-n",
        "1",
        "--patience",
        "1",
    ]
    return CliRunner().invoke(app, ["bench", *options, "--attempts", "2", "--out", str(out), *more])


def named(shown):
    """The failure, which is one line, and the next one, which fixes it."""
    assert shown.exit_code in (1, 3)
    return shown.output.partition("1 × ")[2].splitlines()[:2]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["fix"])
def test_failure_is_named_with_what_fixes_it(tmp_path, endpoint, case):
    answer = tuple(case["answer"]) if "answer" in case else raw(*case["raw"])
    endpoint.script = lambda number, asked: answer
    assert case["fix"] in named(bench(endpoint.url, tmp_path / "run"))[1]
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
    assert (
        "only 0% of its turns had an answer that could be read; vagen models try openai:m"
        in shown.output
    )
    endpoint.script = lambda number, asked: {"content": "<think>and so on", "finish": "length"}
    assert (
        "replies end at their limit of tokens: --max-tokens"
        in bench(endpoint.url, tmp_path / "other").output
    )
    endpoint.script = lambda number, asked: "<think>t</think><answer>Up</answer>"
    assert (
        "could be read; "
        not in bench(endpoint.url, tmp_path / "good", "--strategy", "free_think").output
    )


def test_replies_that_a_proxy_has_escaped_are_played(tmp_path, endpoint):
    endpoint.script = lambda number, asked: "&lt;answer&gt;Up&lt;/answer&gt;"
    shown = bench(endpoint.url, tmp_path / "run", "--strategy", "free_think")
    assert shown.exit_code == 0
    assert "could be read; " not in shown.output


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            {"content": None, "reasoning_content": "<answer>Up</answer>"},
            "own reasoning parser, or with none",
        ),
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
def test_whatever_pause_an_endpoint_asks_for_is_at_most_the_runs_patience(
    tmp_path, endpoint, after
):
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
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "move", "arguments": '{"action": "Up"}'},
    }
    endpoint.script = lambda number, asked: {"content": None, "tool_calls": [call]}
    assert bench(endpoint.url, tmp_path / "run").exit_code == 0
    assert "<tool_call>" in (tmp_path / "run" / "episodes.jsonl").read_text()


def test_a_level_that_is_missing_for_an_agent_is_the_environments_fault(tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        "from vagen_envs.errors import LevelError\n\ndef own(game):\n    raise LevelError('no board')\n"
    )
    words = [
        "bench",
        "-e",
        "frozenlake",
        "-a",
        f"{own}:own",
        "-n",
        "1",
        "--out",
        str(tmp_path / "run"),
    ]
    assert "fix its _load" in named(CliRunner().invoke(app, words))[1]
