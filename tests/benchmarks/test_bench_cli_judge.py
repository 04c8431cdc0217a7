"""`vagen judge` as a person calls it."""

from __future__ import annotations

from typer.testing import CliRunner

from vagen_benchmarks.cli import app

RUNNER = CliRunner()


def test_calibrate_prints_how_far_to_trust_the_rule_judge():
    done = RUNNER.invoke(app, ["judge", "calibrate", "--help"])
    assert done.exit_code == 0
    done = RUNNER.invoke(app, ["judge", "calibrate"])
    assert done.exit_code == 0, done.output
    assert "precision" in done.output
    assert "frozen_lake" in done.output


def test_rescore_scores_a_stored_run_again(tmp_path):
    run = tmp_path / "run"
    played = RUNNER.invoke(app, ["bench", "-e", "sokoban", "-a", "oracle", "-n", "3", "--out", str(run)])
    assert played.exit_code == 0, played.output
    done = RUNNER.invoke(app, ["judge", "rescore", str(run), "--into", str(tmp_path / "scored")])
    assert done.exit_code == 0, done.output
    assert '"grounding"' in (tmp_path / "scored" / "episodes.jsonl").read_text()
