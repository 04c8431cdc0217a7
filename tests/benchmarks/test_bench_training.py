"""`vagen warmstart` and `vagen train`, from nothing to a trained folder."""

import os
from pathlib import Path

import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from vagen_adapters.errors import TrainingConfigError
from vagen_benchmarks.cli import app

TINY = Path(__file__).parents[2] / "benchmarks" / "experiments" / "tiny.toml"
LAKE = ["-e", "frozenlake", "-o", "strategy=no_think", "-o", "max_turns=2", "-o", "prompt_pack=terse"]
QUICK = [
    "rollouts=2", "episodes_per_rollout=4", "num_envs=4", "minibatches=1", "max_tokens=8", "bf16=false", "learning_rate=1e-3",
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
    from vagen_adapters.parity import tiny_model as tiny

    start, out = tmp_path / "start", tmp_path / "out"
    model = tmp_path / "model"
    tiny.save_tiny(model, tiny.texts_of(["vagen/FrozenLake-v0"], levels=5, prompt_pack="terse"), layers=1)
    assert str(start) in vagen("warmstart", *LAKE, "--model", str(model), "--out", str(start), "--episodes", "16")
    settings = [word for setting in QUICK for word in ("-s", setting)]
    train = ["train", "--recipe", "vagen-base", *LAKE, "--model", str(start), "--out", str(out), *settings]
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
        (["--recipe", str(TINY)], "names no model; give --model"),
        (["--recipe", "vagen-bas"], "Did you mean 'vagen-base'"),
        (["--recipe", "vagen-base", "-s", "max_tokns=3"], "Did you mean 'max_tokens'"),
        (["--recipe", "vagen-base", "-s", "environments=[]"], "no such setting"),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_is_loaded(words, message, tmp_path):
    pytest.importorskip("trl")
    with pytest.raises(TrainingConfigError, match=message):
        vagen("train", *words, "-e", "frozenlake", "--out", str(tmp_path))


def test_a_model_of_ones_own_is_warm_started_and_only_the_oracles_replies_teach_it(tmp_path, monkeypatch):
    pytest.importorskip("trl")
    import gymnasium as gym

    from vagen_adapters.parity import tiny_model as tiny
    from vagen_adapters.ppo.chat_encoder import load_policy
    from vagen_adapters.ppo.episodes import Level
    from vagen_adapters.ppo.warmstart import IGNORED, batch_of, demonstrate

    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    model, out = tmp_path / "model", tmp_path / "out"
    tiny.save_tiny(model, tiny.texts_of(["vagen/FrozenLake-v0"], levels=5, prompt_pack="terse"), layers=1)
    lora = '{"r": 2, "target_modules": "all-linear"}'
    vagen("warmstart", *LAKE, "--model", str(model), "--out", str(out), "--episodes", "16", "--lora", lora)
    before, after = (load_policy(folder)[0].state_dict() for folder in (model, out))
    assert before.keys() == after.keys()  # the adapters are merged
    assert any(not before[name].equal(after[name]) for name in before)
    with pytest.raises(TrainingConfigError, match=r"--lora '\{\"rank\": 2\}' is not valid"):
        vagen("warmstart", *LAKE, "--model", str(model), "--out", str(out), "--lora", '{"rank": 2}')

    encoder = load_policy(model)[1]
    env = gym.make("vagen/FrozenLake-v0", prompt_pack="terse", max_turns=6, max_actions_per_turn=1)
    shown = next(
        found
        for found in (demonstrate(env, encoder, Level(seed), noise=0.5) for seed in range(50))
        if 0 < len(found.imitated) < len(found.episode.turns)
    )
    labels = batch_of([shown], encoder)["labels"][0]
    learned = encoder.tokenizer.decode(labels[labels != IGNORED], skip_special_tokens=True)
    replies = [turn.turn.reply for turn in shown.episode.turns]
    assert learned == "".join(reply for number, reply in enumerate(replies) if number in shown.imitated)
    env.close()
