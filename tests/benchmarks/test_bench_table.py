"""One table of several runs: rows that may be compared, in the forms that papers and notebooks read."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess

import pytest
import runs
from chat_endpoint import GOOD
from commands import vagen
from hypothesis import given
from hypothesis import strategies as st

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.results.table import results_table
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.scoring import make_scoring
from vagen_benchmarks.sharing.leaderboard import write_leaderboard
from vagen_benchmarks.sharing.table_files import latex_text


class Half(Oracle):
    """Plays as the oracle does on even seeds, and stands still on odd ones."""

    name = "half_&_half|1"

    def reply(self, game):
        return "<answer></answer>" if game.seed % 2 else super().reply(game)


class Weak(Random):
    name = "openai/gpt-x_1"


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """Four runs: three with the same protocol, one of them with two environments, and one of other options."""
    root = tmp_path_factory.mktemp("table")
    runs.play(root / "a", [Oracle(), Half()], ["frozenlake"], episodes=24)
    runs.play(root / "b", [Weak()], ["frozenlake", "sokoban"], episodes=24)
    runs.play(root / "c", [Random()], ["frozenlake"], episodes=24, options={"difficulty": 1})
    runs.play(root / "d", [Random()], ["sokoban"], episodes=24, options={"max_turns": 7})
    return [root / name for name in "abcd"]


def table(paths, **options):
    return results_table([RunFolder(path) for path in paths], **options)


def test_rows_are_those_of_the_runs_and_ranked_by_paired_tests(four):
    made = table(four[:3])
    assert made.refused == []
    assert [str(column) for column in made.columns] == [
        "frozenlake, grounding_world_modeling",
        "sokoban, grounding_world_modeling",
        "frozenlake, difficulty 1, grounding_world_modeling",
    ]
    ranks = {(row.model, row.column.environment): row.rank for row in made.rows}
    assert ranks["oracle", "frozenlake"] is None
    assert ranks[Half.name, "frozenlake"] == 1
    assert ranks[Weak.name, "frozenlake"] == 2
    for path in four[:3]:
        own = [(row["agent"], row["success"], row["low"]) for row in runs.rows(path)]
        found = [row for row in made.rows if row.run == path.name]
        assert [(row.model, row.figures["success"], row.figures["low"]) for row in found] == own


def test_models_that_cannot_be_told_apart_share_a_rank(tmp_path):
    class Other(Random):
        name = "other"

    runs.play(tmp_path, [Random(), Other()], ["frozenlake"], episodes=8)
    assert [row.rank for row in table([tmp_path]).rows] == [1, 1]


def test_only_columns_whose_protocols_differ_are_refused_with_the_option(four, tmp_path):
    done = vagen("table", *four)
    assert done.returncode == 0
    assert "left out: sokoban, grounding_world_modeling: " in done.stderr
    assert "max_turns: 3 / 7" in " ".join(done.stderr.split())
    assert "| model | frozenlake" in done.stdout
    assert "sokoban" not in done.stdout
    done = vagen("table", four[1], four[3], "--out", tmp_path / "t.csv")
    assert done.returncode == 0
    runs.play(tmp_path / "e", [Random()], ["sokoban"], episodes=4)
    done = vagen("table", four[3], tmp_path / "e")
    assert (done.returncode, "no column is left" in done.stderr) == (2, True)
    assert "episodes: 24 / 4" in " ".join(done.stderr.split())


def test_other_judges_cost_only_the_reasoning_scores(tmp_path):
    for name, judge in (
        ("a", {"judge": "rule"}),
        ("b", {"judge": "rule", "gate": False}),
        ("c", None),
    ):
        scoring = make_scoring(judge)
        runs.play(tmp_path / name, [Oracle()], ["frozenlake"], episodes=3, scoring=scoring)
    alone = table([tmp_path / "a", tmp_path / "c"])
    assert alone.refused == []
    assert alone.rows[0].figures["grounding"] is not None
    made = table([tmp_path / name for name in "abc"])
    assert len(made.rows) == 3
    assert {row.figures["grounding"] for row in made.rows} == {None}
    assert "gate: None / False" in made.refused[0]


def test_files_say_the_same_in_every_form(four, tmp_path):
    for ending in ("md", "tex", "csv", "json"):
        assert vagen("table", *four[:3], "--out", tmp_path / f"t.{ending}").returncode == 0
    rows = json.loads((tmp_path / "t.json").read_text())["rows"]
    read = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert [row["model"] for row in read] == [row["model"] for row in rows]
    assert [float(row["success"]) for row in read] == [row["success"] for row in rows]
    assert {row["difficulty"] for row in read} == {"", "1"}
    text = (tmp_path / "t.md").read_text()
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    for lines in tables:  # Markdown's own cells are those that aren't escaped
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    for row in rows:
        assert f"{100 * row['success']:.1f}" in text
        assert row["model"].replace("|", "\\|") in text
    assert vagen("table", four[0], "--format", "html").returncode == 2
    assert vagen("table", four[0], "--out", tmp_path / "t.xls").returncode == 2


def test_what_all_rows_share_or_lack_takes_no_column(four):
    text = vagen("table", *four[:2]).stdout
    assert "| model | frozenlake | sokoban |" in text
    assert "dollars" not in text
    assert "grounding" not in text
    assert "| unclear answer |" in text
    for part in text.split("\n\n"):
        assert len(part.partition("\n")[0].split("|")) <= 12


def test_latex_fits_a_page_with_long_names_in_one_run(four, tmp_path):
    """All tables of four runs keep to the line of a plain article on A4."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex isn't installed")

    class Long(Random):
        name = "openrouter:meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8_marlin"

    runs.play(tmp_path / "long", [Long()], ["frozenlake"], episodes=24)
    vagen("table", *four[:3], tmp_path / "long", "--out", tmp_path / "t.tex")
    text = (tmp_path / "t.tex").read_text()
    packages = text.partition("\n")[0].removeprefix("% ")
    document = f"\\documentclass[a4paper]{{article}}{packages}\n\\begin{{document}}\n\\noindent\n{text}\\end{{document}}"
    (tmp_path / "all.tex").write_text(document)
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "all.pdf").stat().st_size > 1000
    wide = re.findall(r"Overfull \\hbox \((\d+)", (tmp_path / "all.log").read_text())
    assert all(int(points) <= 15 for points in wide)  # 15: a paragraph's indent


@given(st.text())
def test_no_text_is_a_command_of_latex(text):
    shown = latex_text(text)
    assert shown.isascii()
    bare = re.sub(
        r"\\textbackslash\{\}|\\ascii\w+\{\}|\\textascii\w+\{\}|\\[&%$#_{}]|\$(\\\w+|[<>|])\$",
        "",
        shown,
    )
    assert not set(bare) & set("\\&%$#_{}~^")


def test_models_that_answered_costs_and_waits_are_figures(tmp_path, endpoint):
    endpoint.script = lambda number, body: GOOD
    model = ChatAgent(Registry().find("gpt-4o", endpoint.url), base_url=endpoint.url)
    runs.play(tmp_path / "run", [model], ["frozenlake"], episodes=2, repeats=2)
    (row,) = table([tmp_path / "run"]).rows
    shown = row.to_json()
    assert (shown["served"], shown["context"], shown["cut"]) == ("m", "all", 0.0)
    assert shown["dollars"] > 0
    assert 0 < shown["seconds_median"] <= shown["seconds_p95"]
    assert shown["pass@2"] is not None
    page = write_leaderboard([tmp_path / "run"], tmp_path / "page.html").read_text()
    assert '<td class="name">m</td>' in page
    assert f"{shown['seconds_median']:.2f}" in page
    assert "unclear_answer" in (tmp_path / "page.csv").read_text()


def test_episodes_and_summary_are_read_by_pandas_in_one_line(four, tmp_path):
    pandas = pytest.importorskip("pandas")
    assert vagen("export", four[1], tmp_path / "summary.csv").returncode == 0
    summary = pandas.read_csv(tmp_path / "summary.csv")
    assert [*summary["environment"]] == ["frozenlake", "sokoban"]
    assert [*summary["success"]] == [row["success"] for row in runs.rows(four[1])]
    done = vagen("export", four[1], tmp_path / "episodes.csv", "--form", "episodes")
    assert "48 rows" in done.stdout
    episodes = pandas.read_csv(tmp_path / "episodes.csv")
    means = episodes.groupby("environment")["success"].mean()
    assert [*means] == [row["success"] for row in runs.rows(four[1])]
    assert episodes["turns"].sum() == sum(len(e.turns) for e in runs.episodes(four[1]))
    assert vagen("export", four[1], tmp_path / "x.parquet", "--form", "episodes").returncode == 2


def test_failed_episodes_are_misses_if_asked(tmp_path, endpoint):
    endpoint.script = lambda number, body: 500 if number == 0 else GOOD
    model = ChatAgent(
        Registry().find("openai:m", endpoint.url), base_url=endpoint.url, attempts=1, patience=0.0
    )
    runs.play(tmp_path, [model], ["frozenlake"], episodes=4)
    (row,), (missed,) = table([tmp_path]).rows, table([tmp_path], failed_as_misses=True).rows
    assert (row.figures["played"], missed.figures["played"]) == (3, 4)
    done = vagen("table", tmp_path, "--failed-as-misses", "--format", "json")
    assert json.loads(done.stdout)["rows"][0]["played"] == 4
