"""`vagen leaderboard add`: rows of verified runs, and nothing else."""

from __future__ import annotations

import hashlib
import json
import subprocess

import pytest
import runs
from typer.testing import CliRunner

from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.cli import app
from vagen_benchmarks.errors import BenchError, NotVerifiedError, ProtocolError
from vagen_benchmarks.runs.plans import load_plan
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import run
from vagen_benchmarks.sharing import published_results
from vagen_benchmarks.sharing.published_results import add_run, checksum


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A protocol of the package with two levels of two steps of FrozenLake."""
    folder = tmp_path / "protocols"
    folder.mkdir()
    column = '[[columns]]\nname = "step {0}"\nenv = "vagen/FrozenLake-v0"\nepisodes = 2\noptions = {{ difficulty = {0} }}\n'
    text = 'about = "A tiny one."\n' + column.format(0) + column.format(1)
    stated = "[published]\nPaper = [0.5, 0.25]\n[not_looking]\nBlind = [0.1, 0.1]\n"
    (folder / "tiny.toml").write_text(text + stated)
    for module in (
        "vagen_benchmarks.runs.plans.HERE",
        "vagen_benchmarks.sharing.published_results.HERE",
    ):
        monkeypatch.setattr(module, folder)
    return "tiny"


def play(path, protocol, agents):
    plan = load_plan(protocol)
    tasks, _ = plan.tasks()
    described = tuple({"name": agent.name} for agent in agents)
    with RunWriter(
        path, Protocol(tuple(tasks), described, plan={"name": plan.name, **plan.data})
    ) as folder:
        run(folder, agents)
    return path


def test_a_verified_run_is_a_row_beside_what_was_published(tiny, tmp_path):
    page = tmp_path / "page" / "results.md"
    first = play(tmp_path / "first", tiny, [Oracle(), Random()])
    assert add_run(first, page) == ["oracle", "random"]
    text = page.read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[0] == "| `-p tiny` | step 0 | step 1 | overall | run |"
    # what the protocol file states of agents that don't look is no published row
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| random", "| oracle*", "| *Paper*"]
    assert "| *Paper* | 50 | 25 | 38 | *published* |" in lines
    assert "| oracle* | 100 (" in lines[3]
    assert "\u2060–\u2060100) |" in lines[3]  # no line ends within an interval
    assert checksum(RunFolder(first))[:12] in lines[2]
    second = play(tmp_path / "second", tiny, [Random()])
    add_run(second, page)  # a run of its own replaces the row and leaves the other
    rows = json.loads(page.with_suffix(".json").read_text())["rows"]
    assert [(row["name"], row["run"]) for row in rows] == [
        ("oracle", "first"),
        ("random", "second"),
    ]


def test_what_stands_around_the_tables_stays(tiny, tmp_path):
    page = tmp_path / "results.md"
    begin, end = published_results.BEGIN, published_results.END
    page.write_text(f"# Mine\n\nBefore.\n\n{begin}\nold\n{end}\n\nAfter.\n")
    add_run(play(tmp_path / "run", tiny, [Random()]), page)
    text = page.read_text()
    assert text.startswith("# Mine\n\nBefore.\n")
    assert text.endswith("\n\nAfter.\n")
    assert "old" not in text
    page.write_text("# No place\n")
    with pytest.raises(ProtocolError, match="no place for tables"):
        add_run(tmp_path / "run", page)


def test_the_checksum_is_one_that_a_shell_computes(tiny, tmp_path):
    path = play(tmp_path / "run", tiny, [Random()])
    sums = subprocess.run(
        ["sha256sum", *published_results.FILES], cwd=path, check=True, capture_output=True
    ).stdout
    assert checksum(RunFolder(path)) == hashlib.sha256(sums).hexdigest()


def test_a_changed_run_and_one_without_a_protocol_are_refused(tiny, tmp_path):
    page = tmp_path / "results.md"
    path = play(tmp_path / "run", tiny, [Random()])
    lines = (path / "episodes.jsonl").read_text().splitlines(keepends=True)
    (path / "episodes.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(NotVerifiedError):
        add_run(path, page)
    runs.play(tmp_path / "free", [Random()], ["frozenlake"], episodes=2)
    with pytest.raises(ProtocolError, match="played without a protocol file"):
        add_run(tmp_path / "free", page)
    shown = CliRunner().invoke(app, ["leaderboard", "add", str(path), "--to", str(page)])
    assert shown.exit_code != 0
    assert not page.exists()


def stored(path, change):
    """Change the first stored episode."""
    file = path / "episodes.jsonl"
    first, *rest = file.read_text().splitlines()
    episode = json.loads(first)
    change(episode)
    file.write_text("\n".join([json.dumps(episode), *rest]) + "\n")


def more_reward(path):
    term = {"name": "format", "value": 5.0}
    stored(path, lambda episode: episode["turns"][0]["rewards"].append(term))


def solved(path):
    stored(path, lambda episode: episode.update(ended={"kind": "solved", "message": ""}))


def other_reply(path):
    stored(path, lambda episode: episode["turns"][0].update(reply="<answer>Right</answer>"))


def played_twice(path):
    text = (path / "episodes.jsonl").read_text()
    (path / "episodes.jsonl").write_text(text + text.splitlines(keepends=True)[0])


def easier(path):
    file = path / "protocol.json"
    data = json.loads(file.read_text())
    data["tasks"][1]["options"]["difficulty"] = 0
    file.write_text(json.dumps(data))


def without_pictures(path):
    (path / "pictures.pack").unlink()


@pytest.mark.parametrize(
    "tamper", [more_reward, solved, other_reply, played_twice, easier, without_pictures]
)
def test_a_tampered_run_gets_no_row(tiny, tmp_path, tamper):
    path = play(tmp_path / "run", tiny, [Random()])
    tamper(path)
    page = tmp_path / "results.md"
    shown = CliRunner().invoke(app, ["leaderboard", "add", str(path), "--to", str(page)])
    assert isinstance(shown.exception, BenchError), shown.output
    assert not page.exists()


@pytest.mark.parametrize(
    "name", ["ladder-sokoban", "ladder-frozenlake", "ladder-navigation", "ladder-primitiveskill",
             "ladder-svgreconstruction", "sample"]
)  # fmt: skip
def test_the_packages_protocols_of_the_ladder_are_read(name):
    plan = load_plan(name)
    steps = [column.get("options", {}).get("difficulty") for column in plan.data["columns"]]
    assert steps == ([None] if name == "sample" else [0, 1, 2, 3, 4, 5])
    assert plan.altered() == ""
