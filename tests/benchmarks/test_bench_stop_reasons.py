"""How episodes end: what the model ran into counts, and what failed bounds the score."""

from __future__ import annotations

import json
from pathlib import Path

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
from vagen_benchmarks.stop_reasons import Stop, recognise

# Bodies as providers send them; provider_errors.toml names where each is quoted.
BODIES = json.loads(Path(__file__).with_name("error_bodies.json").read_text(encoding="utf-8"))
FULL = BODIES["stops"][0]["body"]

UP = "<think>t</think><answer>Up</answer>"


@pytest.mark.parametrize("error", BODIES["stops"])
def test_providers_words_for_an_ending_are_known(error):
    assert recognise(error["status"], json.dumps(error["body"])) is Stop(error["stop"])


@pytest.mark.parametrize("error", BODIES["other_errors"])
def test_errors_of_the_machine_are_no_endings(error):
    assert recognise(error["status"], json.dumps(error["body"])) is None


@given(st.integers(100, 599), st.text())
def test_any_body_is_read(status, body):
    assert recognise(status, body) in (None, *Stop)


def chat(url, **options):
    model = Registry().find("openai:m", url)
    return ChatAgent(
        model, base_url=url, **{"attempts": 2, "first_wait": 0.01, "patience": 0.0, **options}
    )


def full_after(pictures):
    """A server whose context holds so many pictures."""

    def script(number, asked):
        shown = json.dumps(asked["messages"]).count("data:image")
        return (400, {}, FULL) if shown > pictures else UP

    return script


def test_full_context_is_an_ending_that_counts(tmp_path, endpoint):
    endpoint.script = full_after(1)
    outcome = runs.play(
        tmp_path,
        [chat(endpoint.url)],
        ["frozenlake"],
        episodes=6,
        options={"strategy": "free_think"},
    )
    assert (outcome.played, outcome.failed) == (6, 0)
    episodes = runs.episodes(tmp_path)
    ended = [episode.ended for episode in episodes]
    assert Stop.CONTEXT in {each.kind for each in ended}
    assert all(
        "maximum context length" in each.message for each in ended if each.kind is Stop.CONTEXT
    )
    assert all(
        len(episode.turns) == 1 for episode in episodes if episode.ended.kind is Stop.CONTEXT
    )
    (row,) = runs.rows(tmp_path)
    assert (row["played"], row["failed"]) == (6, 0)
    assert row["errors"]["context full"] == sum(each.kind is Stop.CONTEXT for each in ended) / 6
    asked = len(endpoint.requests)
    runs.play(
        tmp_path,
        [chat(endpoint.url)],
        ["frozenlake"],
        episodes=6,
        options={"strategy": "free_think"},
    )
    assert len(endpoint.requests) == asked  # played is played


@pytest.mark.parametrize(
    ("body", "held", "fix"),
    [
        (FULL, 0, "--max-model-len"),
        (
            {"error": {"message": "At most 1 image(s) may be provided in one request."}},
            1,
            "--context last:0",
        ),
    ],
)
def test_server_that_is_not_set_up_for_the_run_is_an_error_with_its_fix(
    tmp_path, endpoint, body, held, fix
):
    good = full_after(held)
    endpoint.script = lambda number, asked: (
        (400, {}, body) if isinstance(good(number, asked), tuple) else GOOD
    )
    outcome = runs.play(tmp_path, [chat(endpoint.url)], ["frozenlake"], episodes=30)
    assert outcome.left > 0
    assert fix in outcome.reason
    assert Stop.CONTEXT not in {episode.ended.kind for episode in runs.episodes(tmp_path)}


def test_one_prompt_that_is_longer_than_all_others_is_the_models_loss(tmp_path, endpoint):
    endpoint.script = lambda number, asked: (400, {}, FULL) if number == 1 else GOOD
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
    outcome = runs.play(
        tmp_path, [chat(endpoint.url)], ["frozenlake"], episodes=16, options=options
    )
    assert outcome.failed == 4
    (row,) = runs.rows(tmp_path)
    assert (row["played"], row["failed"], row["flagged"]) == (12, 4, True)
    episodes = runs.episodes(tmp_path)
    as_lost = rate(by_level((e.content, float(e.success and not e.failure)) for e in episodes))
    as_won = rate(
        by_level((e.content, float(e.success or e.failure is not None)) for e in episodes)
    )
    assert (row["low"], row["high"]) == pytest.approx((as_lost.low, as_won.high))
    assert row["success"] == sum(e.success for e in episodes) / 12
    shown = CliRunner().invoke(
        app, ["resume", str(tmp_path), "--base-url", endpoint.url, "--patience", "0"]
    )
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
