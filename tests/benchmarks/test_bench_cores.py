"""Real `vagen bench --workers`: several processes, one run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import runs
from commands import vagen

from perf.processes import children
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.notebook import bench as python_bench
from vagen_benchmarks.runs import cores
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.verify import verify

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc"),
]
SCRIPTED = ["-e", "sokoban", "-e", "frozenlake", "-a", "oracle", "-a", "random"]


def begun(folder, *words):
    """A run that has stored some episodes and goes on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "vagen_benchmarks.cli", "bench", *map(str, words), "--out", str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    file = folder / "episodes.jsonl"
    while not (file.is_file() and file.stat().st_size):
        assert process.poll() is None
        time.sleep(0.02)
    return process


def players_of(process):
    return [
        each
        for each in children(process.pid)
        if b"vagen_benchmarks.runs.cores" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]


def gone(pids):
    """Waits until these processes have ended."""
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}/exe").exists() and _lives(pid) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.05)


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def content(folder):
    return [(folder / name).read_bytes() for name in ("protocol.json", "episodes.jsonl", "pictures.pack")]


def played(folder):
    """What was played, without what it took."""
    return sorted((each.key, [turn["reply"] for turn in each.turns], each.score) for each in runs.episodes(folder))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The run of one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    assert vagen("bench", *SCRIPTED, "-n", 60, "--out", folder).returncode == 0
    return folder


def test_three_processes_make_the_same_run_byte_for_byte(alone, tmp_path):
    made = vagen("bench", *SCRIPTED, "-n", 60, "--workers", 3, "--out", tmp_path / "run")
    assert made.returncode == 0, made.stderr
    assert content(tmp_path / "run") == content(alone)
    assert verify(RunFolder(tmp_path / "run")).ok


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_ended_goes_on_and_is_the_same(alone, tmp_path, number):
    for attempt in range(5):  # who looks at a run too late, on a busy machine, finds it whole
        folder = tmp_path / f"run {attempt}"
        process = begun(folder, *SCRIPTED, "-n", 60, "--workers", 2)
        players = players_of(process)
        # A terminal's Ctrl-C reaches all of them.
        (os.killpg if number is signal.SIGINT else os.kill)(process.pid, number)
        process.communicate()
        assert process.returncode == (130 if number is signal.SIGINT else -number)
        gone(players)
        if len(runs.episodes(folder)) < 240:
            break
    assert 0 < len(runs.episodes(folder)) < 240
    resumed = vagen("resume", folder)
    assert resumed.returncode == 0, resumed.stderr
    assert played(folder) == played(alone)
    assert verify(RunFolder(folder)).ok


def test_a_process_that_is_killed_costs_its_share_until_the_run_is_resumed(alone, tmp_path):
    folder = tmp_path / "run"
    process = begun(folder, *SCRIPTED, "-n", 60, "--workers", 2)
    os.kill(players_of(process)[0], signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 3
    assert "was killed by SIGKILL" in said
    assert vagen("resume", folder).returncode == 0
    assert played(folder) == played(alone)
    assert verify(RunFolder(folder)).ok


def test_a_models_episodes_are_each_played_once(endpoint, tmp_path):
    words = ["bench", "-e", "frozenlake", "-a", "openai:m", "--base-url", endpoint.url, "-n", 24, "--workers", 2]
    made = vagen(*words, "--out", tmp_path / "run")
    assert made.returncode == 0, made.stderr
    asked = len(endpoint.requests)
    episodes = runs.episodes(tmp_path / "run")
    assert {each.seed for each in episodes} == {*range(24)}
    assert asked == sum(len(each.turns) for each in episodes)
    assert f"{asked:,} replies" in made.stdout
    assert verify(RunFolder(tmp_path / "run")).ok


def test_budgets_hold_over_processes(endpoint, tmp_path):
    """And what one call has spent counts in the next."""
    folder, cap = tmp_path / "run", 60_000
    words = ["--max-total-tokens", cap, "--workers", 2, "--concurrency", 64]
    asked = ["-e", "frozenlake", "-a", "openai:m", "--base-url", endpoint.url, "-n", 120]
    endpoint.script = lambda number, body: {
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": endpoint.good}}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 100},
    }
    first = vagen("bench", *asked, *words, "--out", folder)
    assert first.returncode == 3
    assert "is spent" in first.stderr
    assert 0.7 * cap < 1000 * len(endpoint.requests) <= cap
    assert vagen("resume", folder).returncode == 3
    assert 1000 * len(endpoint.requests) <= cap


def test_an_outage_is_waited_for_by_all_and_said_once(endpoint, tmp_path):
    begun = []

    def down(number, body):
        begun.append(time.monotonic())
        return 503 if begun[-1] < begun[0] + 3 else endpoint.good

    endpoint.script = down
    made = vagen(
        "bench", "-e", "frozenlake", "-a", "openai:m", "--base-url", endpoint.url, "-n", 8, "--workers", 2,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert made.stderr.count("waiting for the endpoint") == 1
    assert len(runs.episodes(tmp_path / "run")) == 8


def test_what_a_process_refuses_is_said(tmp_path):
    """A file that was there at first, and isn't when the processes look for it."""
    (tmp_path / "mine.py").write_text("import os, sys\nif 'cores' in sys.argv[0]:\n    raise RuntimeError('not here')\n"
                                      "def play(game):\n    return 'x'\n")  # fmt: skip
    made = vagen("bench", "-e", "frozenlake", "-a", f"{tmp_path}/mine.py:play", "-n", 4, "--workers", 2, "--out", tmp_path / "run")  # fmt: skip
    assert made.returncode == 2
    assert "not here" in made.stderr
    assert json.loads((tmp_path / "run" / "journal.jsonl").read_text().splitlines()[-1])["event"] == "end"


def test_a_run_from_python_has_processes_too(tmp_path):
    two = python_bench(["oracle", "random"], "frozenlake", episodes=6, workers=2, out=tmp_path / "two")
    one = python_bench(["oracle", "random"], "frozenlake", episodes=6, out=tmp_path / "one")
    assert two.outcome.played == one.outcome.played == 12
    assert content(two.path) == content(one.path)


def test_a_function_cannot_be_made_again_in_another_process(tmp_path):
    with pytest.raises(ProtocolError, match=r"name the agent, as `my_agent\.py:ReAct`"):
        python_bench(lambda game: "x", "frozenlake", episodes=2, workers=2, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_no_more_processes_are_started_than_there_are_episodes(tmp_path, monkeypatch):
    started = []
    begin = cores._begun
    monkeypatch.setattr(cores, "_begun", lambda *args: started.append(args) or begin(*args))
    played = python_bench(["oracle"], "frozenlake", episodes=2, workers=50, out=tmp_path / "run")
    assert len(list(played.episodes())) == len(started) == 2
