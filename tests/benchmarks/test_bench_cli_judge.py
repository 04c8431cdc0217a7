"""`vagen judge` as a person calls it."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from vagen_benchmarks.cli import app
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_envs.core import Turn
from vagen_rewards import ReasoningReward

RUNNER = CliRunner()


def run(line, *more):
    done = RUNNER.invoke(app, [*line.split(), *map(str, more)])
    assert done.exit_code == 0, done.output
    return done.output


def refusal(line, *more):
    return str(RUNNER.invoke(app, [*line.split(), *map(str, more)]).exception)


def test_calibrate_counts_verdicts_on_labelled_statements(tmp_path):
    state = {
        "kind": "frozen_lake",
        "size": 4,
        "player": [2, 0],
        "target": [0, 3],
        "holes": [[3, 2]],
    }
    said = [
        ("The goal is above me.", "true"),
        ("The goal is below me.", "false"),
        ("Ice everywhere.", "vacuous"),
    ]
    rows = [
        {"part": "grounding", "state": "S", "text": text, "label": label} for text, label in said
    ]
    file = tmp_path / "labelled.json"
    file.write_text(json.dumps({"states": {"S": state}, "statements": rows}))
    output = run("judge calibrate", file)
    assert [line.split() for line in output.splitlines() if line.strip()][1:5] == [
        ["false", "1", "0", "1", "0"],
        ["true", "1", "1", "0", "0"],
        ["vacuous", "1", "0", "0", "1"],
        ["precision", "1.000"],
    ]
    file.write_text("{}")
    assert RUNNER.invoke(app, ["judge", "calibrate", str(file)]).exit_code != 0


def test_a_stored_run_is_scored_again(tmp_path):
    file, wrong = tmp_path / "run" / "episodes.jsonl", tmp_path / "wrong"
    run("bench -e frozenlake -a oracle -n 2 --out", file.parent)
    before = file.read_bytes()
    assert "most rewarded sentences" in run(
        "judge rescore", file.parent, "--into", tmp_path / "again"
    )
    assert file.read_bytes() == before
    episodes = list(RunFolder(tmp_path / "again").episodes())
    assert len(episodes) == 2
    for episode in episodes:
        for data in episode.turns:
            terms = {term.name: term.value for term in Turn.from_json(data).rewards}
            assert terms["grounding"] == terms["world_modeling"] == 0.5
    assert (tmp_path / "again" / "report.html").stat().st_size > 1000
    asked = ("judge rescore", file.parent, "--into", wrong)
    assert "grounding is nan" in refusal(*asked, "--beta-grounding", "nan")
    assert "--into" in refusal(*asked, "--into", "/proc/x")
    assert "'nonsense'" in refusal(*asked, "--judge", "llm:m", "--base-url", "nonsense")
    for damage in (b'{"a": 1}\n', before + b'{"key": "x", "schema": 2}\n'):
        file.write_bytes(damage)
        assert "damaged" in refusal(*asked)
        assert not wrong.exists()


OWN_JUDGE = """
from vagen_rewards import Judge, Score

class Goal(Judge):
    name = "names the goal"

    def score(self, statement):
        return Score(float("goal" in statement.text), "the word")

def no_judge(statement):
    return 1.0
"""


def test_a_judge_of_ones_own_pays_a_benchmark_and_a_stored_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN_JUDGE)
    run("bench -e frozenlake -a oracle -n 2 --judge own.py:Goal --out run")
    run("judge rescore run --judge own.py:Goal --into again")
    for folder in ("run", "again"):
        for episode in RunFolder(tmp_path / folder).episodes():
            for data in episode.turns:
                terms = {term.name: term.value for term in Turn.from_json(data).rewards}
                assert terms["grounding"] == 0.0 or terms["grounding"] == 0.5
        assert RunFolder(tmp_path / folder).judged_by()["judge"] == "names the goal"


def test_statements_that_the_judge_failed_on_are_counted_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failing = OWN_JUDGE.replace(
        'Score(float("goal" in statement.text), "the word")', 'Score.unscored("it is asleep")'
    )
    (tmp_path / "own.py").write_text(failing)
    output = run("bench -e frozenlake -a oracle -n 2 --judge own.py:Goal --out run")
    assert re.search(r"[0-9] statements are unscored, the last: it is asleep", output)
    output = run("judge rescore run --judge own.py:Goal --into again")
    assert re.search(r"unscored: it is asleep.*--base-url", " ".join(output.split()))


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        ("own.py:Gaol", "Did you mean 'Goal'"),
        ("none.py:Goal", "no file"),
        ("own.py:no_judge", "Judge"),
        ("own.py", "MyJudge"),
    ],
)
def test_what_is_no_judge_is_refused_with_the_reason(tmp_path, monkeypatch, judge, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN_JUDGE)
    assert reason in refusal(f"bench -e frozenlake -a oracle -n 2 --judge {judge} --out run")
    assert not (tmp_path / "run").exists()


REPLY = (
    "<think><observation>The goal is above and to the left of the player.</observation><reasoning>So I go.</reasoning>"
    "<prediction>The goal is above and to the left of the player.</prediction></think><answer>{}</answer>"
)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], {}),
        (["--no-gate"], {"gate": False}),
        (["--weighting", "contrast"], {"weighting": "contrast"}),
        (["--no-gate", "--penalty", "paper"], {"gate": False, "penalty": "paper"}),
    ],
)
def test_bench_pays_as_its_options_say(tmp_path, endpoint, options, said):
    """A statement that is mostly wrong, in every turn, and an action in every other."""
    endpoint.script = lambda number, body: REPLY.format("Right" if number % 2 else "Jump")
    asked = f"bench -e frozenlake -a openai:m -n 6 -o max_turns=4 --concurrency 1 --base-url {endpoint.url} --judge rule"
    run(asked, *options, "--out", tmp_path / "run")
    turns = [
        Turn.from_json(data)
        for each in RunFolder(tmp_path / "run").episodes()
        for data in each.turns
    ]
    terms = [{each.name: each.value for each in turn.rewards} for turn in turns]
    idle = [own for turn, own in zip(turns, terms, strict=True) if not turn.executed]
    assert any(turn.executed for turn in turns)
    assert any("grounding" in own for own in terms)
    assert all(("grounding" in own) == (said.get("gate") is False) for own in idle)
    assert any(own.get("grounding", 0.0) < 0 for own in terms) == (
        said.get("weighting") == "contrast"
    )
    assert any("repetition" in own for own in terms) == ("penalty" in said)
    alone = ReasoningReward("rule", env_options={"max_turns": 4}, **{"weighting": "plain", **said})
    for i, (turn, own) in enumerate(zip(turns, terms, strict=True)):
        earlier = turns[i - turn.index : i]
        expected = {each.name: each.value for each in alone(turn, earlier)}
        assert {name: own.get(name) for name in ("grounding", "world_modeling")} == {
            name: expected.get(name) for name in ("grounding", "world_modeling")
        }
