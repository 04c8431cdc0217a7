"""`vagen train`: wrong words are one line, and a run with evaluations leaves the best model to play."""

import json
import shutil

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")
import safetensors.torch
from typer.testing import CliRunner

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo import tiny
from vagen_benchmarks.agents.trained import Trained
from vagen_benchmarks.cli import app

WORDS = ["--recipe", "tiny-vagen-base", "--env", "frozenlake", "-o", "strategy=no_think", "-o", "max_turns=2",
         "-o", f"prompt_pack={tiny.PROMPTS}"]  # fmt: skip
SHORT = ["use_cpu=true", "rollouts=2", "episodes_per_rollout=4", "num_envs=4", "minibatches=1", "max_tokens=4",
         "report_to=none", "disable_tqdm=true", "save_strategy=no", "warmup_steps=0"]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    texts = tiny.texts_of(["vagen/FrozenLake-v0"], levels=3, prompt_pack=tiny.PROMPTS, strategy="no_think")
    tiny.save_tiny(folder, texts, vocabulary=320, layers=1)
    return folder


def run(*words):
    return CliRunner().invoke(app, ["train", *WORDS, *map(str, words)])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--model", "nosuch"], "there is no model 'nosuch': neither a folder with a config.json"),
        (["--model", "{empty}"], "there is no model"),
        (["--model", "{bare}"], "holds a config.json but no weights"),
        (["--model", "{cut}"], "model.safetensors can't be read"),
        (["--model", "{model}", "--resume", "nosuch"], "--resume nosuch is no checkpoint"),
        (["--model", "{model}", "--out", "{file}"], "is a file; name a folder"),
        (["--model", "{model}", "-s", "learning_rate=fast"], "learning_rate=fast: it must be a number"),
        (["--model", "{model}", "-s", "freeze_vision=1"], "freeze_vision=1: it must be true or false"),
        (["--model", "{model}", "-s", "save_strategy=often"], "save_strategy=often"),
        (["--model", "{model}", "-s", "eval_rollout=2"], "eval_rollouts"),
        (["--model", "{model}", "-s", "report_to=tensorbord"], "tensorbord"),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_line(words, reason, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_bytes((folder / "config.json").read_bytes())
    (tmp_path / "file").touch()
    shutil.copytree(folder, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    places = {"model": folder, **{name: tmp_path / name for name in ("empty", "bare", "cut", "file")}}
    out = [] if "--out" in words else ["--out", tmp_path / "out"]
    error = run(*[word.format(**places) for word in words], *out).exception
    assert isinstance(error, TrainingConfigError)
    assert reason in str(error)
    assert "\n" not in str(error)
    assert not (tmp_path / "out").exists()


def test_a_run_with_evaluations_leaves_a_curve_and_its_best_model_plays(folder, tmp_path):
    settings = [
        word for each in [*SHORT, "eval_rollouts=1", "eval_episodes=2", "learning_rate=0.5"] for word in ("-s", each)
    ]
    done = run("--model", folder, "--out", tmp_path / "run", *settings)
    assert done.exit_code == 0, done.exception
    curve = json.loads((tmp_path / "run" / "evaluations.json").read_text())
    assert [entry["step"] for entry in curve] == [1, 2]
    last = tmp_path / "run" / "model.safetensors"
    state = safetensors.torch.load_file(last)
    safetensors.torch.save_file({name: each + 1 for name, each in state.items()}, last, metadata={"format": "pt"})
    agent, best = Trained(str(tmp_path / "run")), Trained(str(tmp_path / "run" / "best"))
    assert agent.card["env"] == "vagen/FrozenLake-v0"
    played = agent.describe()["weights_sha256"]
    assert played == best.describe()["weights_sha256"]
    shutil.rmtree(tmp_path / "run" / "best")
    assert Trained(str(tmp_path / "run")).describe()["weights_sha256"] != played
