"""How episodes end: what the model ran into counts, and what failed bounds the score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import runs
from chat_endpoint import GOOD, completion
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.cli import app
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.results.compare import compare, read_side
from vagen_benchmarks.results.play_errors import COUNTED_AS, STOPS, errors_of
from vagen_benchmarks.results.stats import by_level, rate
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.verify import verify
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
    assert row["errors"]["overflow"] == sum(each.kind is Stop.CONTEXT for each in ended) / 6
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


def blocked(kind, form):
    """The same block of content in the forms in which providers say it, and the name of the model that is asked."""
    word = {"filtered": "content_filter", "refused": "refusal"}[kind]
    flagged = {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": ["x"]}}
    statuses = {
        "filtered": (400, {}, {"error": {"code": "content_filter", "message": "filtered"}}),
        "refused": (403, {}, {"error": flagged}),
    }
    results = {"hate": {"filtered": True, "severity": "high"}}
    gemini = {"candidates": [{"content": {}, "finishReason": "SAFETY"}]}
    quoted = {"raw": json.dumps({"error": {"code": "content_filter"}})}
    return {
        "status": ("openai:m", statuses[kind]),
        "finish reason": ("openai:m", {"content": "", "finish": word}),
        "field": ("openai:m", {"content": None, "refusal": "I can't."}),
        "router": ("openrouter:m", native(word)),
        "metadata": ("openai:m", filtered_by(results)),
        "quoted": (
            "openrouter:m",
            (403, {}, {"error": {"code": 403, "message": "no", "metadata": quoted}}),
        ),
        "choice": ("openrouter:m", broken_choice(flagged)),
        "body": ("openai:m", {"error": flagged}),
        "gemini": ("gemini:m", gemini),
        "blocked prompt": ("gemini:m", {"promptFeedback": {"blockReason": "SAFETY"}}),
        "anthropic": ("anthropic:m", {"content": "", "finish": "refusal"}),
    }[form]


def native(word):
    made = completion({"content": ""}, "stop")
    made["choices"][0]["native_finish_reason"] = word
    return made


def filtered_by(results):
    made = completion({"content": ""}, "stop")
    made["choices"][0]["content_filter_results"] = results
    return made


def broken_choice(error):
    made = completion({"content": ""}, "error")
    made["choices"][0]["error"] = error
    return made


FORMS = [
    *(
        ("filtered", form)
        for form in (
            "status",
            "finish reason",
            "router",
            "metadata",
            "quoted",
            "gemini",
            "blocked prompt",
        )
    ),
    *(
        ("refused", form)
        for form in ("status", "finish reason", "field", "router", "choice", "body", "anthropic")
    ),
]


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_a_block_of_content_is_one_ending_in_every_form(
    tmp_path, monkeypatch, endpoint, kind, form
):
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-0123456789")
    name, answer = blocked(kind, form)
    if name.startswith(("gemini", "anthropic")):
        pytest.importorskip("google.genai" if name.startswith("gemini") else "anthropic")
    url = endpoint.url if name.startswith("open") else endpoint.root
    endpoint.script = lambda number, body: answer
    model = ChatAgent(Registry().find(name, url), base_url=url, attempts=2, patience=0.0)
    runs.play(tmp_path, [model], ["frozenlake"], episodes=2)
    for episode in runs.episodes(tmp_path):
        (call,) = episode.calls
        assert (episode.ended.kind, call["ending"], episode.success) == (Stop(kind), kind, False)
        assert episode.failure is None
    (row,) = runs.rows(tmp_path)
    assert (row["success"], row["failed"], row["errors"][kind]) == (0.0, 0, 1.0)
    assert len(endpoint.requests) == 2  # it isn't asked again
    (tmp_path / "report.html").unlink(missing_ok=True)
    assert verify(RunFolder(tmp_path)).wrong == []


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("empty", {"content": ""}),
        ("cut", {"content": "<think>and", "finish": "length"}),
        ("format", {"content": "Up"}),
        ("refused", {"content": None, "refusal": "I can't."}),
        ("overflow", {"content": "<think>", "finish": "model_context_window_exceeded"}),
    ],
)
def test_each_stop_reason_is_a_column_with_how_it_counts(tmp_path, endpoint, kind, answer):
    endpoint.script = lambda number, body: answer
    words = f"bench -e frozenlake -n 2 -a vllm:m --base-url {endpoint.url}".split()
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    (row,) = runs.rows(tmp_path / "run")
    assert row["errors"][kind] == 1.0
    assert all(name in done.output for name in STOPS)
    assert f"{kind}" in "".join(COUNTED_AS)
    assert all(words in done.output for words in COUNTED_AS.values())
    if kind == "refused":
        assert "refuses these prompts" in done.output
        assert "profile" not in done.output.partition("refuses these")[0].rpartition("\n")[2]


def test_failed_episodes_count_as_misses_if_asked(tmp_path, endpoint):
    failing(endpoint, 4)
    options = {"strategy": "free_think"}
    runs.play(tmp_path, [chat(endpoint.url)], ["frozenlake"], episodes=16, options=options)
    (default,) = runs.rows(tmp_path)
    (row,) = summarise(RunFolder(tmp_path), failed_as_misses=True).rows()
    assert (default["played"], row["played"], row["failed"]) == (12, 16, 4)
    assert row["success"] == default["successes"] / 16
    assert not row["flagged"]


def test_unclear_answers_are_counted(tmp_path):
    """By the parser's problem, whichever replies it finds unclear."""
    runs.play(tmp_path, [Random()], ["frozenlake"], episodes=2)
    episodes = runs.episodes(tmp_path)
    problem = {"code": "unclear_answer", "message": "", "start": 0, "end": 1}
    episodes[0].turns[0]["parsed"]["problems"].append(problem)
    assert ["unclear answer" in errors_of(episode) for episode in episodes] == [True, False]
