"""One page over a folder of runs: `vagen view FOLDER`."""

from __future__ import annotations

import re

import pytest
from commands import vagen
from runs import play
from typer.testing import CliRunner

from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.cli import app
from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.report import write_overview


def test_a_folder_shows_each_run_and_leads_to_its_report(tmp_path):
    play(tmp_path / "one", [Oracle(), Random()], ["frozenlake"], episodes=4)
    play(tmp_path / "deeper" / "a run", [Oracle()], ["sokoban"], episodes=2)
    found = CliRunner().invoke(app, ["view", str(tmp_path), "--no-browser"])
    assert found.exit_code == 0, found.output
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<h2><a href="([^"]+)">([^<]+)</a>', page)
    assert sorted(links) == [
        ("deeper/a%20run/report.html", "deeper/a run"),
        ("one/report.html", "one"),
    ]
    assert all((tmp_path / link.replace("%20", " ")).is_file() for link, _ in links)
    assert "8 episodes" in page
    assert "being played" not in page


def test_what_cannot_be_read_is_said_in_its_place(tmp_path):
    play(tmp_path / "one", [Oracle()], ["frozenlake"], episodes=1)
    (tmp_path / "<script>x").mkdir()
    (tmp_path / "<script>x" / "protocol.json").write_text("{}", encoding="utf-8")
    page = write_overview(tmp_path, tmp_path / "index.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;x" in page
    assert "<script>x" not in page
    assert "can&#39;t be read" in page
    assert page.count("<section>") == 2


def test_a_folder_without_runs_says_how_to_get_one(tmp_path):
    with pytest.raises(RunFolderError, match="vagen bench --out"):
        write_overview(tmp_path, tmp_path / "index.html")
    found = vagen("view", tmp_path)
    assert found.returncode == 2
    assert "holds no run" in found.stderr


def test_only_runs_that_went_on_are_read_again(tmp_path):
    play(tmp_path / "one", [Oracle()], ["frozenlake"], episodes=2)
    play(tmp_path / "two", [Oracle()], ["frozenlake"], episodes=2)
    write_overview(tmp_path, tmp_path / "index.html")
    for name in ("one", "two"):
        (tmp_path / name / "report.html").write_text("old", encoding="utf-8")
    with (tmp_path / "two" / "journal.jsonl").open("a", encoding="utf-8") as journal:
        journal.write('{"event": "start", "at": "2026-11-22T10:00:00"}\n')
    page = write_overview(tmp_path, tmp_path / "index.html")
    assert "1 being played" in page.read_text(encoding="utf-8")
    assert (tmp_path / "two" / "report.html").read_text(encoding="utf-8") != "old"
    assert (tmp_path / "one" / "report.html").read_text(encoding="utf-8") == "old"
