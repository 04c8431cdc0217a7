"""The examples run, and the sixth environment passes what ours pass, is benchmarked and is trained."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from unittest import mock

import commands
import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
LIGHTS = EXAMPLES / "lights_out"
ENV_ID = "lights_out:example/LightsOut-v0"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, from which the sixth environment is found as an installed package would be."""
    monkeypatch.syspath_prepend(str(LIGHTS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(script: Path) -> str:
    """What a script prints. In this process: nearly all that it takes in one of its own is importing torch.

    The sixth environment is a script that registers itself, which would stay.
    """
    if script.parent == LIGHTS:
        return subprocess.run(
            [sys.executable, script], check=True, capture_output=True, text=True
        ).stdout
    said = io.StringIO()
    with mock.patch.object(sys, "argv", [str(script)]), contextlib.redirect_stdout(said):
        runpy.run_path(str(script), run_name="__main__")
    return said.getvalue()


def vagen(*words: str) -> None:
    done = commands.vagen(*words)
    assert done.returncode == 0, done


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
def test_an_example_runs(example, needs, says, here):
    pytest.importorskip(needs)
    assert says in run(EXAMPLES / f"{example}.py")


def test_the_sixth_environment_passes_the_conformance_suite(monkeypatch):
    monkeypatch.syspath_prepend(str(LIGHTS))
    from vagen_envs.conformance import check

    check(ENV_ID)


def test_the_sixth_environment_is_benchmarked(here):
    out = here / "run"
    vagen("bench", "-e", ENV_ID, "-n", "6", "--out", out)
    episodes = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    assert {each["agent"] for each in episodes} >= {"oracle", "random", "blind"}
    assert len(episodes) % 6 == 0
    assert "LightsOut" in (out / "report.html").read_text()


def test_a_recipe_trains_on_the_sixth_environment(here):
    pytest.importorskip("trl")
    play = ("-e", ENV_ID, "-o", "strategy=no_think", "-o", "prompt_pack=" + str(LIGHTS / "prompts"))
    few = [
        "rollouts=1",
        "episodes_per_rollout=4",
        "num_envs=4",
        "minibatches=1",
        "max_tokens=8",
        "use_cpu=true",
        "report_to=none",
        "bf16=false",
    ]
    settings = [word for setting in few for word in ("-s", setting)]
    from vagen_adapters.parity.tiny_model import save_tiny, texts_of

    texts = texts_of([ENV_ID], levels=3, strategy="no_think", prompt_pack=str(LIGHTS / "prompts"))
    save_tiny(here / "tiny", texts, vocabulary=320, hidden=64, layers=2, vision_layers=1)
    vagen("warmstart", *play, "--model", "tiny", "--out", "start", "--episodes", "16")
    vagen(
        "train", "--recipe", "vagen-base", *play, "--model", "start", "--out", "lights", *settings
    )
    assert (here / "lights" / "model.safetensors").is_file()


def in_this_process(words, run=subprocess.run, **options):
    """In place of `subprocess.run`, for our command: a process of its own imports the trainer for ten seconds."""
    if words[1:3] != ["-m", "vagen_benchmarks"]:
        return run(words, **options)
    return vagen(*words[3:])


@pytest.mark.timeout(1000)
def test_the_notebook_runs_from_top_to_bottom(here, monkeypatch):
    """Its cells in order, in a folder of their own."""
    pytest.importorskip("trl")
    cells = json.loads((EXAMPLES / "quickstart.ipynb").read_text(encoding="utf-8"))["cells"]
    assert all(not each["outputs"] for each in cells if each["cell_type"] == "code")
    monkeypatch.setattr(subprocess, "run", in_this_process)
    script = here / "notebook.py"
    code = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    assert code[0].startswith("%pip install ")
    script.write_text("\n\n".join(code[1:]))
    shown = run(script)
    assert "solved: True" in shown
    assert re.search(r"^oracle +100%", shown, re.MULTILINE)
    assert (here / "runs" / "trained" / "model.safetensors").is_file()


def test_a_run_of_an_own_environment_is_verified_exported_and_rescored_with_trust(tmp_path):
    """In processes of their own, which know nothing of the environment."""

    def command(*words, folder=LIGHTS):
        process = [
            sys.executable,
            "-P",
            "-m",
            "vagen_benchmarks",
            *words,
        ]  # the path is that of a console script
        return subprocess.run(
            process, cwd=folder, capture_output=True, text=True, timeout=100, check=False
        )

    assert (
        command(
            "bench", "-e", ENV_ID, "-a", "oracle", "-n", "1", "--out", tmp_path / "run"
        ).returncode
        == 0
    )
    assert "1 episodes and" in command("verify", tmp_path / "run", "--trust").stdout
    elsewhere = command("verify", tmp_path / "run", "--trust", folder=tmp_path).stderr
    assert elsewhere.count("call vagen in its folder") == 1
    assert (
        "call vagen in that folder"
        in command("bench", "-e", ENV_ID, "-a", "oracle", folder=EXAMPLES).stderr
    )
    refused = command("export", tmp_path / "run", tmp_path / "d.jsonl")
    assert refused.returncode == 2
    assert "--trust" in refused.stderr
    assert command("export", tmp_path / "run", tmp_path / "d.jsonl", "--trust").returncode == 0
    assert (tmp_path / "d.jsonl").stat().st_size > 0
    rescored = command("judge", "rescore", tmp_path / "run", "--trust")
    assert (
        "register_reader" in rescored.stderr
    )  # the environment's module has no reader; it was imported
