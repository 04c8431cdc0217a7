"""Statistics, comparisons, protocol files and what is computed from turns."""

from __future__ import annotations

import pytest
import runs
from chat_endpoint import GOOD
from typer.testing import CliRunner

import vagen_envs
from perf import coverage
from vagen_benchmarks.agents.custom import custom_agent
from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.cli import app
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.results.compare import compare, read_side
from vagen_benchmarks.results.plan_table import plan_table
from vagen_benchmarks.results.play_errors import errors_of
from vagen_benchmarks.runs.plans import Plan, load_plan
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import run
from vagen_benchmarks.runs.scoring import make_scoring


@pytest.mark.parametrize(
    ("draws", "low", "high"),
    [(150, 0.93, 0.98), pytest.param(4000, 0.94, 0.965, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(("levels", "repeats"), [(32, 5), (128, 5), (32, 16)])
def test_intervals_hold_the_truth_as_often_as_they_say(levels, repeats, draws, low, high):
    """A quick look, and a long one; `python -m perf.coverage` has the figures. Fixed draws: 600 of them lie within 0.02."""
    held = [
        coverage.rate_coverage(levels, repeats, success, agreement, draws)[0]
        for success in (0.1, 0.5)
        for agreement in (0.2, 0.6)
    ]
    assert low <= sum(held) / 4 <= high


GRIDS = {"vagen/Sokoban-v0", "vagen/FrozenLake-v0"}


def play(path, agents, episodes=20, **options):
    runs.play(path, agents, ["sokoban", "frozenlake"], episodes=episodes, **options)
    return path


def test_comparison_pairs_levels(tmp_path):
    one, other = play(tmp_path / "1", [Oracle()]), play(tmp_path / "2", [Random()])
    lines = compare(read_side(str(one)), read_side(str(other)))
    assert [line.task for line in lines] == ["vagen/Sokoban-v0", "vagen/FrozenLake-v0", "all"]
    for line in lines:
        assert line.both + line.one == line.count  # the oracle solves all
        assert line.p_value < 0.01
        assert line.gain.low <= line.gain.value <= line.gain.high < 0
        assert line.solved.low <= line.solved.value <= line.solved.high < 0
        assert (line.lost, line.levels) == (
            0,
            len({e.content for e in runs.episodes(one) if line.task in ("all", e.task)}),
        )
    assert lines[-1].count == 40
    scores = {path: sum(e.score for e in runs.episodes(path)) for path in (one, other)}
    assert lines[-1].gain.value == pytest.approx((scores[other] - scores[one]) / 40)


def test_comparison_with_itself_is_even(tmp_path):
    path = play(tmp_path / "1", [Oracle(), Random()], episodes=2)
    line = compare(read_side(f"{path}@random"), read_side(f"{path}@random"))[-1]
    assert (line.one, line.other, line.p_value, line.gain.value) == (0, 0, 1.0, 0.0)
    for side, said in ((str(path), "@oracle"), (f"{path}@orcle", "Did you mean 'oracle'")):
        with pytest.raises(ProtocolError, match=said):
            read_side(side)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"options": {"max_turns": 4}}, "tasks.0.config.max_turns: 3 / 4"),
        ({"split": "val"}, "tasks.0.split: 'test' / 'val'"),
        ({"strategies": ["no_think"]}, "no_think"),
        ({"episodes": 3}, "tasks.0.episodes"),
    ],
)
def test_different_protocols_are_not_compared(tmp_path, other, said):
    one = play(tmp_path / "1", [Oracle()], episodes=2)
    two = play(tmp_path / "2", [Oracle()], **{"episodes": 2, **other})
    with pytest.raises(ProtocolError, match="protocols differ") as error:
        compare(read_side(str(one)), read_side(str(two)))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("reply", "errors"),
    [
        ("hm", {"format", "invalid action", "budget"}),
        (GOOD.replace("Up", "Fly"), {"invalid action", "budget"}),
        (GOOD.replace("Up", ""), {"invalid action", "budget"}),
        (GOOD.replace("Up", "Up,Up,Up,Up"), {"too many actions", "no progress", "budget"}),
    ],
)
def test_what_went_wrong_is_read_off_the_turns(tmp_path, reply, errors):
    runs.play(tmp_path / "run", [custom_agent(lambda game: reply)], episodes=1)
    (episode,) = runs.episodes(tmp_path / "run")
    assert errors_of(episode) == errors


@pytest.mark.parametrize(
    ("agent", "wrong"), [(Oracle(), set()), (runs.Liar(), {"grounding wrong", "prediction wrong"})]
)
def test_what_only_a_judge_can_tell(tmp_path, agent, wrong):
    scoring = make_scoring({"judge": "rule", "betas": {"grounding": 0.25}})
    runs.play(tmp_path / "run", [agent], ["frozenlake"], scoring=scoring, episodes=3)
    episodes = runs.episodes(tmp_path / "run")
    for episode in episodes:
        assert errors_of(episode) & {"grounding wrong", "prediction wrong"} == wrong
        for turn in episode.turns:
            terms = {term["name"]: term["value"] for term in turn["rewards"]}
            assert terms["grounding"] == 0.25 * turn["metrics"]["grounding"]
            assert terms["world_modeling"] == 0.5 * turn["metrics"]["world_modeling"]
    (row,) = runs.rows(tmp_path / "run")
    assert row["judged"] == dict.fromkeys(("grounding", "world_modeling"), 0.0 if wrong else 1.0)
    assert row["errors"]["grounding wrong"] == bool(wrong)
    assert row["metrics"] == {}
    assert sum(each["turns"] for each in row["by_turn"]) == sum(
        len(episode.turns) for episode in episodes
    )
    assert row["by_turn"][0]["turns"] == 3


@pytest.mark.parametrize(
    "said", [{}, {"judge": 3}, {"judge": "rule", "beta": 1}, {"judge": "rule", "betas": {"g": 1}}]
)
def test_scoring_that_is_said_wrongly(said):
    with pytest.raises(ProtocolError, match="scoring"):
        make_scoring(said)


def test_runs_judged_differently_are_not_compared(tmp_path):
    one, two = play(tmp_path / "1", [Oracle()], episodes=2), tmp_path / "2"
    done = CliRunner().invoke(app, ["judge", "rescore", str(one), "--into", str(two)])
    assert done.exit_code == 0, done.output
    with pytest.raises(ProtocolError, match="judged by"):
        compare(read_side(str(one)), read_side(str(two)))
    unjudged, judged = (runs.rows(path)[0] for path in (one, two))
    assert (unjudged["errors"]["grounding wrong"], unjudged["judged"]) == (None, {})
    assert judged["errors"]["grounding wrong"] is not None


def test_solved_by_turn_and_pass_at_k(tmp_path):
    path = play(tmp_path / "1", [Oracle(), Random()], repeats=3, episodes=6)
    for row in runs.rows(path):
        assert row["played"] == 18
        assert row["effective"] <= 1 < row["independent_plays"]
        assert list(row["pass_at"]) == [1, 2]
        assert row["pass_at"][1] == pytest.approx(row["success"])
        curve = row["solved_by_turn"]
        assert curve == sorted(curve)
        assert (curve[-1] if curve else 0) == pytest.approx(row["success"])
        assert row["return_low"] <= row["return"] <= row["return_high"]


def test_every_protocol_of_the_package_fills_its_table(tmp_path):
    for name in ("paper", "paper-released", "paper-representations", "paper-trained", "strategies"):
        plan = load_plan(name)
        columns = [{**each, "episodes": 2} for each in plan.data["columns"]]
        for each in columns:
            if (
                "axis" in plan.data and each["env"] not in GRIDS
            ):  # a simulator a value takes minutes
                each["values"] = each.get("values", plan.values)[:1]
        small = Plan(name, {**plan.data, "columns": columns})
        tasks, skipped = small.tasks()
        made = {task.env_id for task in tasks}
        assert made >= GRIDS
        assert made | {each.env_id for each in skipped} <= set(vagen_envs.ENV_IDS)
        assert not made & {each.env_id for each in skipped}
        grids = [task for task in tasks if task.env_id in GRIDS]
        with RunWriter(tmp_path / name, Protocol(tuple(grids), ({"name": "oracle"},))) as folder:
            run(folder, [Oracle()])
        table = plan_table(small, runs.rows(tmp_path / name))
        ours = [row for row in table.rows if row.source == "run"]
        assert len(ours) == len(plan.values)
        for row in ours:
            values = dict(zip(table.columns, row.values, strict=True))
            assert (values["", "FrozenLake"].value, values["", "Sokoban"].value) == (1.0, 1.0)


def test_svg_columns_are_its_scores_not_its_success():
    plan = load_plan("paper")
    row = {
        "task": "vagen/SVGReconstruction-v0 scorer=dreamsim",
        "agent": "a",
        "played": 32,
        "success": 0.0,
        "drawn": "test 0 a",
        "metrics": {"dino": 0.9, "dreamsim": 0.6},
        "metric_bounds": {"dino": [0.8, 1.0], "dreamsim": [0.5, None]},
        "levels": 32,
        "flagged": True,
    }
    table = plan_table(plan, [row])
    ours = next(each for each in table.rows if each.source == "run")
    values = dict(zip(table.columns, ours.values, strict=True))
    shown = values["SVG", "Dino"], values["SVG", "DreamSim"], values["SVG", "average"]
    assert [each.value for each in shown] == [0.9, 0.6, 0.75]
    assert (shown[0].low, shown[0].high, shown[1].low) == (0.8, 1.0, 0.5)
    assert [each.is_bounded for each in shown] == [True, False, False]
    assert all(each.flagged for each in shown)
    assert values["", "overall"] is None


COLUMN = "[[columns]]\nname = 'a'\nenv = 'vagen/Sokoban-v0'\nepisodes = 1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colums = []", "Did you mean 'columns'"),
        ("columns = []", "no columns"),
        ("columns = 'papr'", "Did you mean 'paper'"),
        ("[[columns]]\nname = 'a'\nenv = 'vagen/Sokoban-v0'", "lacks 'episodes'"),
        (f"{COLUMN}metrik = 'y'", "Did you mean 'metric'"),
        (f"{COLUMN}[published]\nz = [1, 2]", "more figures"),
        (f"{COLUMN}[sampling]\nmax_token = 3", "Did you mean 'max_tokens'"),
        (f"context = 'lst:2'\n{COLUMN}", "Did you mean 'last:N'"),
        (f"{COLUMN}[axis]\noption = 'strategy'", "both option and values"),
        ("=", "not a protocol"),
    ],
)
def test_broken_protocol_file_is_one_clear_error(tmp_path, text, said):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ProtocolError, match=said):
        load_plan(str(tmp_path / "mine.toml")).tasks()
