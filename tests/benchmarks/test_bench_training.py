"""`vagen warmstart` and `vagen train`, from nothing to a trained folder."""

import os
import re

import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from vagen_adapters.errors import TrainingConfigError
from vagen_benchmarks.cli import app

LAKE = ["-e", "frozenlake", "-o", "strategy=no_think", "-o", "max_turns=2", "-o", "prompt_pack=terse"]
QUICK = [
    "rollouts=2", "episodes_per_rollout=4", "num_envs=4", "minibatches=1", "max_tokens=8", "critic_warmup_rollouts=0",
    "use_cpu=true", "report_to=none", "save_steps=1", "disable_tqdm=true", "entropy_coef=0.01",  # moves the weights even where no episode earns a reward
]  # fmt: skip


CPU = ["-s", "use_cpu=true", "-s", "report_to=none", "-s", "bf16=false"]


def vagen(*words):
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_tiny_model_is_made_trained_and_trained_on(tmp_path, monkeypatch):
    pytest.importorskip("trl")
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    start, out = tmp_path / "start", tmp_path / "out"
    said = vagen("warmstart", *LAKE, "--out", str(start), "--episodes", "8", "--vocabulary", "300",
                 "--sight", "2", "--levels", "4")  # fmt: skip
    assert str(start) in said
    assert "sight: player: hole up" in said
    assert re.search(
        r"^chance: success \S+, moves that change nothing \S+, moves that lose \S+ \(4 levels\)", said, re.M
    )
    settings = [word for setting in QUICK for word in ("-s", setting)]
    train = ["train", "--recipe", "tiny-vagen-base", *LAKE, "--model", str(start), "--out", str(out), *settings]
    vagen(*train)
    trained = (out / "model.safetensors").read_bytes()
    assert trained != (start / "model.safetensors").read_bytes()
    (out / "model.safetensors").unlink()
    vagen(*train, "--resume", str(out / "checkpoint-1"))
    assert (out / "model.safetensors").read_bytes() == trained


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--recipe", "vagen-full", "-o", "strategy=no_think", *CPU], "--without-reasoning-reward"),
        (["--recipe", "tiny-vagen-base"], "vagen warmstart"),
        (["--recipe", "vagen-bas"], "Did you mean 'vagen-base'"),
        (["--recipe", "vagen-base", "-s", "max_tokns=3"], "Did you mean 'max_tokens'"),
        (["--recipe", "vagen-base", "-s", "env_options={}"], "no such setting"),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_is_loaded(words, message, tmp_path):
    pytest.importorskip("trl")
    with pytest.raises(TrainingConfigError, match=message):
        vagen("train", *words, "-e", "frozenlake", "--out", str(tmp_path))
