"""The examples run, and the sixth environment passes what ours pass, is benchmarked and is trained."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
LIGHTS = EXAMPLES / "lights_out"
ENV_ID = "lights_out:example/LightsOut-v0"


def run(*command: str | Path, cwd: Path, seconds: float = 240) -> str:
    rooms = [ROOT, ROOT / "adapters", ROOT / "benchmarks", LIGHTS]  # as an installed package would be found
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, rooms), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("example", "needs", "says"),
    [
        ("your_agent", "typer", "of 100 levels"),
        ("agent_with_memory", "typer", "of 32 levels"),
        ("judge_what_it_says", "vagen_rewards", "world_modeling"),
        ("compare_advantages", "torch", "bilevel_gae"),
        ("two_players", "pettingzoo", "solved: True"),
        ("lights_out/lights_out", "numpy", "success"),
    ],
)
def test_an_example_runs(example, needs, says, tmp_path):
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    assert says in run(EXAMPLES / f"{example}.py", cwd=tmp_path)


def test_the_sixth_environment_is_short():
    assert len((LIGHTS / "lights_out.py").read_text().splitlines()) < 150


def test_the_sixth_environment_passes_the_conformance_suite(monkeypatch):
    monkeypatch.syspath_prepend(str(LIGHTS))
    from vagen_envs.conformance import check

    check(ENV_ID)


def test_the_sixth_environment_is_benchmarked(tmp_path):
    out = tmp_path / "run"
    run("-m", "vagen_benchmarks", "bench", "-e", ENV_ID, "-n", "6", "--out", out, cwd=tmp_path)
    episodes = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    assert {each["agent"] for each in episodes} >= {"oracle", "random", "blind"}
    assert len(episodes) % 6 == 0
    assert "LightsOut" in (out / "report.html").read_text()


def test_the_tiny_recipe_trains_on_the_sixth_environment(tmp_path):
    for needs in ("trl", "transformers"):
        if importlib.util.find_spec(needs) is None:
            pytest.skip(f"{needs} is not installed")
    play = ("-e", ENV_ID, "-o", "strategy=no_think", "-o", "prompt_pack=" + str(LIGHTS / "prompts"))
    few = ("rollouts=1", "episodes_per_rollout=4", "num_envs=4", "minibatches=1", "max_tokens=8", "use_cpu=true",
           "critic_warmup_rollouts=0", "report_to=none")  # fmt: skip
    settings = [word for setting in few for word in ("-s", setting)]
    made = ("--out", "start", "--episodes", "8", "--vocabulary", "300")
    run("-m", "vagen_benchmarks", "warmstart", *play, *made, cwd=tmp_path)
    run("-m", "vagen_benchmarks", "train", "--recipe", "tiny-vagen-base", *play, "--model", "start", "--out", "lights",
        *settings, cwd=tmp_path)  # fmt: skip
    assert (tmp_path / "lights" / "model.safetensors").is_file()


@pytest.mark.timeout(1000)
def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    """Its cells in order, in a process and a folder of their own."""
    for needs in ("trl", "transformers"):
        if importlib.util.find_spec(needs) is None:
            pytest.skip(f"{needs} is not installed")
    cells = json.loads((EXAMPLES / "quickstart.ipynb").read_text(encoding="utf-8"))["cells"]
    assert all(not each["outputs"] for each in cells if each["cell_type"] == "code")
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join("".join(each["source"]) for each in cells if each["cell_type"] == "code"))
    shown = run(script, cwd=tmp_path, seconds=900)
    assert "solved: True" in shown
    assert re.search(r"^oracle +100%", shown, re.MULTILINE)
    assert (tmp_path / "runs" / "trained" / "model.safetensors").is_file()
