"""The protocols of VAGEN's tables: who plays what, what differs from the paper, and whose the other rows are."""

from __future__ import annotations

import contextlib
import re

import gymnasium as gym
import pytest
import runs

from vagen_benchmarks.agents.scripted import Oracle
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.report import write_report
from vagen_benchmarks.results.plan_table import plan_table
from vagen_benchmarks.runs.job import make_job
from vagen_benchmarks.runs.plans import Plan, load_plan
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import run

GRIDS = ("vagen/FrozenLake-v0", "vagen/Sokoban-v0")


class OfOneEnvironment(Oracle):
    """Stands for the folder of a training on FrozenLake."""

    name = "runs/lake"

    def describe(self):
        return {"name": self.name, "trained_on": ["vagen/FrozenLake-v0"]}

    def check(self, env_id, config):
        if env_id != "vagen/FrozenLake-v0":
            raise ProtocolError(f"not trained on {env_id}")

    def remarks(self, env_id, options, config):
        return ["max_turns=8 as in its training"]


def small(name, episodes=2):
    """A protocol of the package with its grids alone, short."""
    plan = load_plan(name)
    columns = [
        {**each, "episodes": episodes} for each in plan.data["columns"] if each["env"] in GRIDS
    ]
    rows = {
        table: {name: row[:2] for name, row in plan.data.get(table, {}).items()}
        for table in ("published", "not_looking")
    }
    return Plan(name, {**plan.data, **rows, "columns": columns})


def played(plan, path, agents):
    described = tuple(agent.describe() for agent in agents)
    protocol = Protocol(tuple(plan.tasks()[0]), described, plan={"name": plan.name, **plan.data})
    with RunWriter(path, protocol) as folder:
        run(folder, agents)
    return RunFolder(path)


def test_a_trained_model_plays_the_environments_of_its_training(tmp_path):
    plan, agents = small("paper-trained"), [OfOneEnvironment(), Oracle()]
    folder = played(plan, tmp_path / "run", agents)
    tasks = {(episode.agent, episode.task.split()[0]) for episode in folder.episodes()}
    assert tasks == {("runs/lake", GRIDS[0]), ("oracle", GRIDS[0]), ("oracle", GRIDS[1])}
    page = write_report(folder).read_text()
    assert "runs/lake on FrozenLake-v0:</b> max_turns=8 as in its training" in page
    assert "oracle on FrozenLake-v0:</b>" not in page
    table = plan_table(plan, runs.rows(tmp_path / "run"))
    lake = next(row for row in table.rows if row.name == "runs/lake")
    assert lake.values[0].value == 1
    assert lake.values[1] is None
    names = [row.name for row in table.rows if row.source == "published"]
    assert names == [
        "Vanilla-PPO",
        "GRPO with mask",
        "Turn-PPO with mask",
        "VAGEN-Base",
        "VAGEN-Full",
    ]


def test_other_protocols_refuse_what_it_was_not_trained_on(tmp_path):
    for name, refuses in (("paper-trained", False), ("paper", True)):
        plan = small(name)
        given = {"name": plan.name, **plan.data}
        expected = (
            pytest.raises(ProtocolError, match="not trained on vagen/Sokoban-v0")
            if refuses
            else contextlib.nullcontext()
        )
        with expected:
            make_job(tmp_path / name, plan.tasks()[0], [OfOneEnvironment()], plan=given)


def test_the_report_says_what_differs_and_whose_each_row_is(tmp_path):
    plan = small("paper")
    page = write_report(played(plan, tmp_path / "run", [Oracle()])).read_text()
    table = page.partition("Differs from the paper:")[2]
    for name, words in plan.differences:
        assert f"<b>{name}</b>" in table
        assert words.split(";")[0].replace("'", "&#39;") in table
    assert "GPT-4o †" in table
    assert "random actions §" in table
    assert re.search(r"† published result.*§ measured on this test", table, re.DOTALL)


def test_corrected_words_make_no_other_protocol():
    """A run of last week isn't altered because a description or a baseline's figure was."""
    for name in ("paper", "paper-released", "paper-trained"):
        data = load_plan(name).data
        first, *others = data["columns"]
        told = {"about": "?", "not_looking": {}, "columns": [{**first, "differs": "?"}, *others]}
        assert Plan(name, {**data, **told}).altered() == ""
        played = {"columns": [{**first, "episodes": 1}, *others]}
        assert "episodes" in Plan(name, {**data, **played}).altered()
        assert "published" in Plan(name, {**data, "published": {}}).altered()


def test_figures_that_are_missing_have_no_average():
    plan = load_plan("paper")
    rows = {row.name: row for row in plan_table(plan, []).rows}
    assert rows["GPT-4o"].values[-1].value == pytest.approx(0.60, abs=0.006)  # as printed
    blind = next(row for row in rows.values() if row.source == "not_looking")
    assert blind.values[-1] is None  # without SVG's columns
    data = {**plan.data, "not_looking": {"x": [None, 0.5]}}
    (first, *_) = plan_table(Plan("paper", data), []).rows
    assert first.values[0] is None
    assert first.values[1].value == 0.5


TOLD = {
    "vagen/Sokoban-v0": ("corner", "At most one box"),
    "vagen/Navigation-v0": ("0.25", "within", "1 m"),
    "vagen/PrimitiveSkill-v0": ("mm wide", "things are called"),
    "vagen/SVGReconstruction-v0": ("similarity to the target is", "on its left"),
}


@pytest.mark.parametrize("env_id", TOLD)
def test_prompts_of_appendix_b_tell_no_more_than_the_paper(env_id):
    """What the default prompts add, they don't say."""
    try:
        texts = []
        for options in ({}, {"prompt_pack": "appendix_b"}):
            svg = {"scorer": "classical", "show_drawing": not options} if "SVG" in env_id else {}
            env = gym.make(env_id, strategy="free_think", **options, **svg)
            text = env.reset(seed=1)[0]["text"]
            reply = env.unwrapped.oracle_reply()
            texts.append(env.unwrapped.system_prompt + text + env.step(reply)[0]["text"])
            env.close()
    except Exception as error:  # a simulator that isn't here
        pytest.skip(str(error))
    default, appendix = texts
    assert all(words in default for words in TOLD[env_id])
    assert not [words for words in TOLD[env_id] if words in appendix]
