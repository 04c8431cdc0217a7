"""A real `vagen bench` whose simulator is killed, for real."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perf.processes import children, processor_seconds
from vagen_benchmarks.runs.run_folder import RunFolder

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(
        importlib.util.find_spec("mani_skill") is None, reason="needs the extra primitive-skill"
    ),
]

PLACE = "vagen/PrimitiveSkillPlace-v0"


def workers_of(pid):
    """The worker processes that a process has started, by their ids."""
    with contextlib.suppress(OSError):  # one of them, or the process itself, has ended meanwhile
        return [
            each
            for each in children(pid)
            if b"vagen_envs.primitive_skill" in Path(f"/proc/{each}/cmdline").read_bytes()
        ]
    return []


def used(pid):
    """Seconds of processor time that a process has used; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return processor_seconds(pid)
    return 0.0


def episodes_in(log):
    """What a run has stored so far."""
    lines = log.read_text().split("\n")[:-1] if log.is_file() else []
    return [json.loads(line) for line in lines]


@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_killing_the_worker_during_a_run_loses_one_episode_only(tmp_path):
    folder = tmp_path / "run"
    asked = f"-m vagen_benchmarks.cli bench -e {PLACE} -a oracle -n 4 -o observation=text --out {folder}"
    command = [sys.executable, *asked.split()]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log = folder / "episodes.jsonl"
    killed = []
    # After the first episode kill whichever worker begins to work, until an episode has failed for it.
    while bench.poll() is None:
        played = episodes_in(log)
        if any(episode["ended"]["kind"] == "environment" for episode in played):
            break
        for worker in workers_of(bench.pid) if played else []:
            before = used(worker)
            while bench.poll() is None and worker not in killed and used(worker) < before + 0.05:
                time.sleep(0.002)
            if worker not in killed and bench.poll() is None:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
        time.sleep(0.01)
    said, _ = bench.communicate(timeout=600)
    assert bench.returncode == 1, said
    run = RunFolder(folder)
    episodes = sorted(run.all_episodes(), key=lambda episode: episode.seed)
    assert [episode.seed for episode in episodes] == list(range(4)), said
    failed = [episode for episode in episodes if episode.failure]
    assert len(failed) == 1
    assert failed[0].failure.kind == "environment"
    assert "killed by SIGKILL" in failed[0].failure.message
    assert all(episode.success for episode in episodes if not episode.failure)
    assert "1 episode(s) failed" in said
    assert (folder / "report.html").stat().st_size > 10_000
    assert not any(Path(f"/proc/{pid}").is_dir() for pid in killed)
    assert json.loads((folder / "protocol.json").read_text())["tasks"][0]["config"]["workers"] == 1
