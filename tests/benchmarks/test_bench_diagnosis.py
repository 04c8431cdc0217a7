"""A diagnosis names the fault that an oracle was given, and nothing where there is none."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
import runs
from commands import vagen

from perf.diagnosis_power import diagnosed, power
from perf.impaired import FAULTS, Impaired
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.custom import custom_agent
from vagen_benchmarks.agents.scripted import Oracle
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.diagnosis import CAUSES, CONDITIONS, attribute, diagnosis_tasks
from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.turn_losses import TurnLoss, turn_losses


@pytest.mark.parametrize("env_id", ["vagen/FrozenLake-v0", "vagen/Sokoban-v0"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_named(env_id, fault):
    found = diagnosed(Impaired(fault, 0.5), env_id, levels=48)
    assert found.main_cause == fault
    assert found.causes[fault].low > max(
        found.causes[other].high for other in CAUSES if other != fault
    )
    assert sum(share.value for share in found.causes.values()) == pytest.approx(1)
    truly = {"perception": found.saw, "prediction": found.foresaw}
    assert {name: share.value < 0.8 for name, share in truly.items()} == {
        name: name == fault for name in truly
    }


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["vagen/FrozenLake-v0", "vagen/Sokoban-v0"])
def test_the_fault_is_named_in_95_of_100_runs(env_id):
    assert min(power(env_id, 100).values()) >= 95


@pytest.mark.sim
def test_a_simulator_can_be_diagnosed_on():
    pytest.importorskip("mujoco")
    found = diagnosed(Impaired("planning", 1.0), "vagen/Navigation-v0", levels=2)
    assert found.main_cause == "planning"


def test_who_loses_nothing_has_no_cause():
    found = diagnosed(Oracle(), "vagen/FrozenLake-v0", levels=4)
    assert found.main_cause is None
    assert all(found.success[condition].value == 1 for condition in CONDITIONS)
    assert (found.saw.value, found.foresaw.value) == (1, 1)


def test_what_cannot_be_read_is_formats():
    found = diagnosed(custom_agent(lambda game: "Well, well."), "vagen/FrozenLake-v0", levels=4)
    assert found.main_cause == "format"
    assert found.causes["format"].value == 1


@pytest.mark.parametrize(
    "answer",
    [{"content": None, "refusal": "I can't."}, (400, {}, {"error": {"code": "content_filter"}})],
)
def test_a_reply_that_ends_its_episode_is_one_loss(tmp_path, endpoint, answer):
    endpoint.script = lambda number, body: answer
    agent = ChatAgent(Registry().find("vllm:m"), base_url=endpoint.url, patience=0.0)
    runs.play(tmp_path, [agent], ["frozenlake"], episodes=1)
    (episode,) = runs.episodes(tmp_path)
    (task,) = RunFolder(tmp_path).protocol.tasks
    with closing(task.make()) as env:
        (loss,) = turn_losses(env.unwrapped, episode)
    assert (loss.lost, loss.unread > 0) == (0, True)


def test_what_is_shown_is_what_the_condition_says():
    shown = []

    class Peeker(Oracle):
        name = "peeker"

        def reply(self, game):
            shown.append((game.now.picture is not None, game.now.text))
            return super().reply(game)

    diagnosed(Peeker(), "vagen/FrozenLake-v0", levels=2)
    assert {picture for picture, _ in shown} == {True, False}
    assert all(("<image>" in text) == picture for picture, text in shown)


def test_shares_are_those_of_a_calculation_by_hand():
    """Pictures lose 3 a turn, symbols 1, of which a quarter with a wrong prediction; format loses 1 with pictures."""
    fine, bad = TurnLoss(0, 0, True, True), TurnLoss(2, 0, True, True)
    level = {
        "image": ([TurnLoss(6, 0, False, None), TurnLoss(0, 2, None, None)], False),
        "text": ([bad, bad, bad, TurnLoss(2, 0, True, False), fine, fine, fine, fine], True),
    }
    found = attribute("someone", "vagen/Sokoban-v0", [level, level])
    assert {name: share.value for name, share in found.causes.items()} == pytest.approx(
        {"perception": 2 / 4, "prediction": 0.25 / 4, "planning": 0.75 / 4, "format": 1 / 4}
    )
    assert found.saw.value == 0
    assert found.foresaw.value == pytest.approx(7 / 8)
    assert found.unjudged == pytest.approx(1 / 10)


@pytest.mark.parametrize(
    ("env_id", "options", "words"),
    [
        ("vagen/FrozenLake-v0", {"observation": "text"}, "can't be an option here"),
        ("vagen/FrozenLake-v0", {"strategy": "free_think"}, "needs strategy="),
        ("vagen/SVGReconstruction-v0", {}, "can't be diagnosed on"),
    ],
)
def test_what_cannot_be_diagnosed_is_said(env_id, options, words):
    if "SVG" in env_id:
        pytest.importorskip("cairosvg")
    with pytest.raises(BenchError, match=words):
        diagnosis_tasks([env_id], options, levels=2)


def command(endpoint, tmp_path, *more):
    words = [
        "diagnose",
        "-a",
        "openai:m",
        "--base-url",
        endpoint.url,
        "-e",
        "frozenlake",
        "-n",
        4,
        "--concurrency",
        1,
    ]
    return vagen(*words, "--out", tmp_path / "found", *more)


def test_an_endpoint_that_breaks_for_good_leaves_the_complete_levels(tmp_path, endpoint):
    endpoint.script = lambda number, body: (
        endpoint.good if number < 20 else (401, {}, {"error": {"message": "no key"}})
    )
    done = command(endpoint, tmp_path)
    assert done.returncode in (1, 3), done
    assert "failed and have no score" in done.stderr
    assert "no key" in done.stderr
    (found,) = json.loads((tmp_path / "found" / "diagnosis.json").read_text())
    assert 1 <= found["levels"] < 4
    page = (tmp_path / "found" / "diagnosis.html").read_text()
    assert f"{found['levels']} levels" in page
    assert all(f"--{cause}: #" in page for cause in found["causes"]), "a bar has no colour"
    endpoint.script = lambda number, body: endpoint.good
    assert command(endpoint, tmp_path).returncode == 0  # goes on
    (found,) = json.loads((tmp_path / "found" / "diagnosis.json").read_text())
    assert found["levels"] == 4


def test_a_full_context_is_the_models_loss(tmp_path, endpoint):
    full = (400, {}, {"error": {"message": "prompt is too long: 9 > 8"}})
    endpoint.script = lambda number, body: full if len(body["messages"]) > 2 else endpoint.good
    done = command(endpoint, tmp_path)
    assert done.returncode == 0, done
    (found,) = json.loads((tmp_path / "found" / "diagnosis.json").read_text())
    assert found["levels"] == 4
    assert found["causes"]["format"]["value"] > 0.5
