"""Agents of one's own: from a file, from Python, trained ones."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runs
from commands import vagen

from vagen_benchmarks.agents.base import Call, Reply
from vagen_benchmarks.agents.custom import load_custom
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.agents.scripted import Oracle
from vagen_benchmarks.errors import ProtocolError, RunFolderError
from vagen_benchmarks.notebook import bench
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.runner import Policy
from vagen_benchmarks.sharing.verify import verify
from vagen_envs.spaces import MAX_TEXT_LENGTH

MEMORY = Path(__file__).parents[2] / "examples" / "agent_with_memory.py"
AGENT = """
class ReAct:
    def reply(self, game):
        seen = game.memory.setdefault("seen", [])
        seen.append(game.seed)
        assert set(seen) == {game.seed} and len(seen) == len(game.turns) + 1
        return "<think>so</think><answer>Up</answer>"

class Needs:
    def __init__(self, what):
        pass

def upwards(game):
    return "<think>so</think><answer>Up</answer>"

NUMBER = 3
"""
FREE = {"strategy": "free_think"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_agent.py"
    path.write_text(AGENT)
    return path


def test_an_agent_of_a_file_plays_resumes_and_is_compared_until_its_file_changes(tmp_path, file):
    begun = ["bench", "-e", "frozenlake", "-n", 6, "-o", "strategy=free_think"]
    done = vagen(*begun, "-a", f"{file}:ReAct", "--out", tmp_path / "a")
    assert done.returncode == 0, done
    assert vagen(*begun, "-a", f"{file}:upwards", "--out", tmp_path / "b").returncode == 0
    described = RunFolder(tmp_path / "a").protocol.agents[0]
    assert described["name"] == f"{file}:ReAct"
    assert len(described["source_sha256"]) == 64
    lines = (tmp_path / "a" / "episodes.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "a" / "episodes.jsonl").write_text("".join(lines[:2]))
    assert vagen("resume", tmp_path / "a").returncode == 0
    assert len(runs.episodes(tmp_path / "a")) == 6
    assert vagen("compare", tmp_path / "a", tmp_path / "b").returncode == 0
    assert (tmp_path / "a" / "report.html").stat().st_size > 10_000
    (tmp_path / "moved").mkdir()
    moved = file.rename(tmp_path / "moved" / file.name)
    assert load_custom(f"{moved}:ReAct").describe()["source_sha256"] == described["source_sha256"]
    file.write_text(AGENT + "# changed")
    assert "source_sha256" in vagen("resume", tmp_path / "a").stderr


def test_a_changed_module_beside_the_file_is_another_agent(tmp_path):
    (tmp_path / "words_of_mine.py").write_text("WORD = 'Up'\n")
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import words_of_mine\ndef play(game):\n    return f'<think>t</think><answer>{words_of_mine.WORD}</answer>'\n"
    )
    asked = [
        "bench",
        "-e",
        "frozenlake",
        "-n",
        "1",
        "-a",
        f"{agent}:play",
        "--out",
        tmp_path / "run",
    ]
    command = [sys.executable, "-m", "vagen_benchmarks.cli"]
    subprocess.run([*command, *asked], check=True, capture_output=True)
    (tmp_path / "words_of_mine.py").write_text("WORD = 'Down'\n")
    shown = subprocess.run(
        [*command, "resume", tmp_path / "run"], check=False, capture_output=True, text=True
    )
    assert shown.returncode != 0
    assert "source_sha256" in shown.stdout + shown.stderr


def test_a_function_that_closes_over_something_else_is_another_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def agent(answer):
        return lambda game: f"<think>t</think><answer>{answer}</answer>"

    asked = {"envs": "frozenlake", "episodes": 1, "options": FREE}
    folders = [bench(agent(answer), **asked).path for answer in ("Up", "Down")]
    assert (
        folders[0] != folders[1]
    )  # the default folder is new each time, however quickly one run follows the other
    asked["out"] = folders[0]
    bench(agent("Up"), **asked, resume=True)
    with pytest.raises(RunFolderError, match="source_sha256"):
        bench(agent("Down"), **asked, resume=True)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("{}:ReAkt", "Did you mean 'ReAct'"),
        ("{}:Needs", "it must need no arguments"),
        ("{}:NUMBER", "without reply"),
        ("nowhere.py:X", "there is no file nowhere.py"),
        ("{}broken.py:X", "can't be imported"),
        ("my_agent:ReAct", "FILE.py:NAME"),
        (str(MEMORY.parent), "is a folder without"),
    ],
)
def test_what_is_no_agent_is_said(file, name, says):
    Path(f"{file}broken.py").write_text("import nothing_of_that_name")
    with pytest.raises(ProtocolError, match=says):
        make_agents([name.format(file)], Asked())


def test_a_run_from_python_gives_the_run_back(tmp_path):
    def up(game):
        return "<think>so</think><answer>Up</answer>"

    one = bench(
        up,
        "frozenlake",
        episodes=6,
        options=FREE,
        out=tmp_path / "one",
        policy=Policy(concurrency=3),
    )
    assert [(row["agent"], row["played"]) for row in one.rows()] == [("up", 6)]
    assert one.report().is_file()
    assert len(one.episodes()) == 6
    two = bench(
        [Oracle(), "random"], ["frozenlake"], episodes=6, options=FREE, out=tmp_path / "two"
    )
    assert {row["agent"] for row in two.rows()} == {"oracle", "random"}
    (pairs,) = one.compare(two, theirs="oracle")
    assert pairs.count == 6
    again = bench(up, "frozenlake", episodes=6, options=FREE, out=tmp_path / "one", resume=True)
    assert again.outcome.played == 0
    with pytest.raises(RunFolderError, match="holds a run already"):
        bench(up, "frozenlake", episodes=6, options=FREE, out=tmp_path / "one")
    with pytest.raises(ProtocolError, match="the same name"):
        bench([up, up], "frozenlake", episodes=1, out=tmp_path / "three")


def test_it_works_where_a_loop_is_running_already(tmp_path):
    async def notebook():
        return bench("oracle", "frozenlake", episodes=2, out=tmp_path / "run")

    assert asyncio.run(notebook()).outcome.played == 2


def test_the_example_with_a_memory_asks_a_model_with_its_notes(tmp_path, endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789abcdef")
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("VAGEN_MODEL", "openai:m")
    (agent,) = make_agents([f"{MEMORY}:ReAct"], Asked())
    outcome = runs.play(
        tmp_path / "run", [agent], ["sokoban"], episodes=2, policy=Policy(concurrency=1)
    )
    assert outcome.played == 2
    notes = [body["messages"][-1]["content"][-1]["text"] for body in endpoint.requests]
    assert notes[0].splitlines() == ["What I remember:"]
    assert "Turn 2" in notes[2]
    assert notes[3].splitlines() == ["What I remember:"]  # another episode
    assert outcome.usage[agent.name].requests == 6
    assert all(len(body["messages"]) == 2 for body in endpoint.requests)


def test_each_episode_is_stored_when_it_is_over_though_its_agent_never_waits(tmp_path):
    stored = []

    class Slow:
        calls_a_model = False

        def reply(self, game):
            stored.append(
                len((tmp_path / "run" / "episodes.jsonl").read_text().splitlines()) if stored else 0
            )
            return "<think>so</think><answer>Up</answer>"

    bench(Slow(), "frozenlake", options=FREE | {"max_turns": 1}, episodes=9, out=tmp_path / "run")
    assert stored == [*range(9)]


@pytest.mark.parametrize("models", [True, False])
@pytest.mark.parametrize("error", [StopIteration, asyncio.CancelledError])
def test_what_a_loop_takes_for_its_own_is_the_agents_fault(error, models, tmp_path):
    class Ends:
        calls_a_model = models

        def reply(self, game):
            if game.seed == 1:
                raise error("no more")
            return "<think>so</think><answer>Up</answer>"

    played = bench(Ends(), "frozenlake", options=FREE, episodes=3, out=tmp_path / "run")
    assert (played.outcome.played, played.outcome.failed, played.outcome.left) == (2, 1, 0)
    assert error.__name__ in failed_of(tmp_path / "run").message


def failed_of(path):
    (failed,) = [each.failure for each in RunFolder(path).all_episodes() if each.failure]
    assert failed.kind == "agent"
    return failed


@pytest.mark.parametrize(
    "changes",
    [
        {"dollars": math.nan},
        {"dollars": "3"},
        {"seconds": None},
        {"prompt_tokens": 10**400},
        {"prompt_tokens": np.int64(3)},
        {"reasoning": b"x"},
        {"estimated": 1},
    ],
    ids=str,
)
def test_a_call_that_could_not_be_stored_is_the_agents_fault(changes, tmp_path):
    def costs(game):
        call = Call(
            **{
                "ending": "stop",
                "seconds": np.float64(0.5),
                "attempts": 1,
                **(changes if game.seed else {}),
            }
        )
        return Reply("<think>so</think><answer>Up</answer>", call)

    played = bench(costs, "frozenlake", options=FREE, episodes=2, out=tmp_path / "run")
    assert (played.outcome.played, played.outcome.failed) == (1, 1)
    assert next(iter(changes)) in failed_of(tmp_path / "run").message
    assert verify(RunFolder(tmp_path / "run")).ok


@pytest.mark.parametrize(
    "reply",
    [
        "<think>" + (MAX_TEXT_LENGTH + 16) * "x" + "</think><answer>Up</answer>",
        "<think>\ud83d\ude00 \udc00</think><answer>Up</answer>",
        "outside <think>x</think>",
    ],
    ids=["long", "surrogates", "problems"],
)
def test_whatever_is_said_the_run_is_what_it_claims_to_be(reply, tmp_path):
    bench(lambda game: reply, "frozenlake", options=FREE, episodes=2, out=tmp_path / "run").report()
    verdict = verify(RunFolder(tmp_path / "run"))
    assert verdict.ok, verdict.wrong
