"""Each row of docs/papers.md: its command runs, and what it says of the settings is so."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import runs

pytest.importorskip("trl")
typer_testing = pytest.importorskip("typer.testing")

from vagen_adapters.ppo.recipes import load_recipe, recipe_names  # noqa: E402
from vagen_benchmarks.agents.scripted import Oracle, Random  # noqa: E402
from vagen_benchmarks.cli import app  # noqa: E402
from vagen_benchmarks.commands.options import parse_options  # noqa: E402
from vagen_benchmarks.results.training_words import course_of  # noqa: E402
from vagen_benchmarks.runs.plans import Plan, load_plan  # noqa: E402
from vagen_benchmarks.runs.tasks import resolve_id  # noqa: E402
from vagen_envs.registration import declared  # noqa: E402

PAGE = Path(__file__).parent.parent / "docs" / "papers.md"
CLAIM = re.compile(r"`([a-z_]+)=([^`]+)`")
GRIDS = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")
SOKOBAN = "vagen/Sokoban-v0"


def rows():
    """Section, what is in the paper, the settings here, whether they are equal, and the command of each row."""
    found = []
    section = ""
    reads = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        section = line[3:] if line.startswith("## ") else section
        cells = [cell.strip() for cell in line.split("|")]
        reads = (reads or cells[0] == "in the paper") and len(cells) == 4
        if reads and cells[0] not in ("in the paper", "---"):
            found.append((section, *cells[:3], cells[3].strip("`")))
    return found


ROWS = rows()
RUN = [row for row in ROWS if row[-1]]


def claims(here):
    return {name: ast.literal_eval(value) for name, value in CLAIM.findall(here)}


def given(words, *options):
    """What stands behind `-s` or `-o` in a command."""
    pairs = [word for at, word in enumerate(words) if at and words[at - 1] in options]
    return parse_options(pairs)


def invoke(*words):
    done = typer_testing.CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_has_a_section_for_each_paper_and_names_every_recipe_of_theirs():
    assert list(dict.fromkeys(row[0] for row in ROWS)) == [
        "VAGEN",
        "Turn-PPO",
        "Verlog",
        "V-Triune",
    ]
    assert len(RUN) > 30
    for _, paper, here, equal, command in ROWS:
        assert paper
        assert here
        assert equal
        assert command or equal == "no"
    named = {word for row in ROWS for word in row[-1].split()}
    theirs = {
        name for name in recipe_names() if name.startswith(("vagen", "vanilla", "turn", "ve", "v-"))
    }
    assert theirs <= named


@pytest.mark.parametrize(
    "row", [row for row in RUN if row[-1].startswith("-e ")], ids=lambda row: row[1]
)
def test_environments_have_the_settings_of_their_row(row):
    words = shlex.split(row[-1])
    env_class = declared(resolve_id(words[1]))[1]
    config = env_class.config_class.create(**given(words, "-o"))
    found = {name: getattr(config, name) for name in claims(row[2])}
    assert found == claims(row[2])
    assert found


@pytest.mark.parametrize(
    "row", [row for row in RUN if row[-1].startswith("-p ")], ids=lambda row: row[-1]
)
def test_protocols_have_the_settings_of_their_row_and_make_their_tasks(row):
    plan = load_plan(row[-1].split()[1])
    said = {**plan.data, **plan.data.get("sampling", {}), **plan.data.get("options", {})}
    assert {name: said[name] for name in claims(row[2])} == claims(row[2])
    columns = [
        {**column, "episodes": 1} for column in plan.data["columns"] if column["env"] in GRIDS
    ]
    tasks, skipped = Plan(plan.name, {**plan.data, "columns": columns}).tasks()
    assert not skipped
    assert {task.env_id for task in tasks} == set(GRIDS)
    if plan.data["columns"] and plan.name.startswith("paper"):
        assert plan.differences


@pytest.mark.parametrize(
    "row", [row for row in RUN if "--recipe" in row[-1]], ids=lambda row: f"{row[0]}: {row[1]}"
)
def test_recipes_have_the_settings_of_their_row(row, tmp_path):
    words = shlex.split(row[-1])
    recipe = load_recipe(words[1])
    ids = [table["id"] for table in recipe.environments] or [SOKOBAN]
    environments = [{"id": each, "options": given(words, "-o")} for each in ids]
    quiet = {"use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no"}
    config = recipe.config(environments, str(tmp_path), **quiet, **given(words, "-s"))
    said = {
        **vars(config),
        **config.tasks[0].options,
        **config.advantage_settings,
        **recipe.reward_options(SOKOBAN),
    }
    assert {name: said[name] for name in claims(row[2])} == claims(row[2])
    assert claims(row[2])


@pytest.mark.parametrize("command", sorted({row[-1] for row in RUN if "--recipe" in row[-1]}))
def test_trainings_can_be_planned(command, tiny_folder, tmp_path):
    """The command itself, with the plan of a tiny model in place of a training."""
    words = shlex.split(command)
    env = [] if load_recipe(words[1]).environments else ["-e", "sokoban"]
    shown = invoke("train", *words, *env, "--model", tiny_folder, "--out", tmp_path, "--plan")
    assert "GiB" in shown


def test_a_report_of_a_training_is_drawn(tmp_path):
    folder = tmp_path / "full"
    for number in range(9):
        agents = [Random()] if number < 6 else [Oracle()]
        runs.play(folder / "play" / f"rollout-{number:06d}", agents, ["frozenlake"], episodes=4)
    log = [
        {"rollout/failed": 0.0, "rollout/success": 0.1 * number, "step": number}
        for number in range(9)
    ]
    (folder / "checkpoint-9").mkdir()
    (folder / "checkpoint-9" / "trainer_state.json").write_text(
        json.dumps({"log_history": [*log, {"eval_success": 0.5, "step": 9}]})
    )
    course = course_of(folder)
    success = course.curves["success in training"]
    assert [at for at, _ in success] == [*range(1, 10)]
    assert success[-1][1] == pytest.approx(0.6)  # of the last five
    assert course.curves["success in evaluations"] == [(9, 0.5)]
    distinct = course.curves["distinct replies"]
    entropies = course.curves["entropy of words (bit)"]
    assert distinct[0][1] < distinct[-1][1]  # Random says the same in each turn
    assert entropies[0][1] < entropies[-1][1]
    assert course.curves["replies with the most frequent sentence"][0][1] == 1
    invoke("train-report", folder, "--out", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    shutil.copytree(folder, tmp_path / "seed1" / "full")
    both = "".join(
        invoke(
            "train-report", folder, tmp_path / "seed1" / "full", "--out", tmp_path / "b.png"
        ).split()
    )
    assert f"{folder}:frequentsentences" in both
    assert f"{tmp_path}/seed1/full:frequentsentences" in both
    for name, told in (("figure.txt", "ends in .png"), ("none/figure.png", "can't be written")):
        words = ["train-report", str(folder), "--out", str(tmp_path / name)]
        refused = str(typer_testing.CliRunner().invoke(app, words).exception)
        assert told in refused
        assert "resume" not in refused
    short = tmp_path / "short"
    runs.play(short / "play" / "rollout-000000", [Random()], ["frozenlake"], episodes=1)
    refused = typer_testing.CliRunner().invoke(app, ["train-report", str(short)])
    assert "nothing to draw" in str(refused.exception)
    refused = typer_testing.CliRunner().invoke(app, ["train-report", str(tmp_path)])
    assert "holds no play of a training" in str(refused.exception)
