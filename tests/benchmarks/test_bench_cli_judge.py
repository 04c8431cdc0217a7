"""`vagen judge` as a person calls it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from vagen_benchmarks.cli import app
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_envs.core import Turn

RUNNER = CliRunner()


def test_calibrate_prints_how_far_to_trust_the_rule_judge():
    done = RUNNER.invoke(app, ["judge", "calibrate", "--statements", "45", "--misses", "2"])
    assert done.exit_code == 0, done.output
    assert "precision" in done.output
    assert "frozen_lake" in done.output


def test_a_stored_run_is_scored_again(tmp_path, monkeypatch):
    monkeypatch.delenv("VAGEN_CLIP_WEIGHTS", raising=False)
    run = tmp_path / "run"
    played = RUNNER.invoke(app, ["bench", "-e", "frozenlake", "-a", "oracle", "-n", "2", "--out", str(run)])
    assert played.exit_code == 0, played.output
    before = (run / "episodes.jsonl").read_bytes()
    done = RUNNER.invoke(app, ["judge", "rescore", str(run), "--into", str(tmp_path / "again")])
    assert done.exit_code == 0, done.output
    assert (run / "episodes.jsonl").read_bytes() == before
    assert "most rewarded sentences" in done.output
    episodes = list(RunFolder(tmp_path / "again").episodes())
    assert len(episodes) == 2
    for episode in episodes:
        for data in episode.turns:
            terms = {term.name: term.value for term in Turn.from_json(data).rewards}
            assert terms["grounding"] == terms["world_modeling"] == 0.5
    assert (tmp_path / "again" / "report.html").stat().st_size > 1000


def test_a_judge_without_weights_leaves_the_run_unscored_and_says_what_to_do(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    monkeypatch.delenv("VAGEN_CLIP_WEIGHTS", raising=False)
    run = tmp_path / "run"
    played = RUNNER.invoke(app, ["bench", "-e", "frozenlake", "-a", "oracle", "-n", "1", "--out", str(run)])
    assert played.exit_code == 0, played.output
    done = RUNNER.invoke(app, ["judge", "rescore", str(run), "--judge", "clip", "--into", str(tmp_path / "clip")])
    assert done.exit_code == 0, done.output
    assert "hf download" in " ".join(done.output.split())
