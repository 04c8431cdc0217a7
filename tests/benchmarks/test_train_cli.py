"""`vagen train`: wrong words are one line, and a run with evaluations leaves the best model to play."""

import json
import re
import shutil

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")
import safetensors.torch
from typer.testing import CliRunner

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.parity import tiny_model as tiny
from vagen_benchmarks.agents.trained import Trained
from vagen_benchmarks.cli import app

WORDS = ["--recipe", "vagen-base", "-s", "bf16=false", "--env", "frozenlake", "-o", "strategy=no_think", "-o", "max_turns=2",
         "-o", f"prompt_pack={tiny.PROMPTS}"]  # fmt: skip
SHORT = ["use_cpu=true", "rollouts=2", "episodes_per_rollout=4", "num_envs=4", "minibatches=1", "max_tokens=4",
         "report_to=none", "disable_tqdm=true", "save_strategy=no", "bf16=false"]  # fmt: skip


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
        (
            ["--model", "{model}", "-s", "learning_rate=fast"],
            "learning_rate='fast' is not valid: it must be a valid number",
        ),
        (["--model", "{model}", "-s", "freeze_vision=1"], "freeze_vision=1 is not valid: it must be a valid boolean"),
        (["--model", "{model}", "-s", "save_strategy=often"], "save_strategy=often"),
        (["--model", "{model}", "-s", "eval_rollout=2"], "eval_rollouts"),
        (["--model", "{model}", "-s", "report_to=tensorbord"], "tensorbord"),
        (["--model", "{model}", "-s", "rollouts=1.5"], "rollouts=1.5 is not valid: it must be a valid integer"),
        (
            ["--model", "{model}", "-s", "learning_rate=null"],
            "learning_rate=None is not valid: it must be a valid number",
        ),
        (
            ["--model", "{model}", "-s", "learning_rate=-1"],
            "learning_rate=-1 is not valid: it must be greater than or equal to 0",
        ),
        (["--model", "{model}", "-s", "context=answers"], "context='answers' is not valid: it must be all or last:N"),
        (["--model", "{model}", "-s", "seed=-1"], "seed=-1 is not valid"),
        (["--model", "{model}", "-s", "loss_level=nonsense"], "loss_level='nonsense' is not valid"),
        (["--model", "{model}", "-s", "generation=nonsense"], "generation='nonsense' is not valid"),
        (["--model", "{model}", "-s", "lora=true"], "lora=True is not valid: it must be a valid dictionary"),
        (
            ["--model", "{model}", "-s", 'advantage_settings={{"gamma": "x"}}'],
            "gamma='x' is not valid: it must be a valid number",
        ),
        (
            [
                "--model",
                "{model}",
                "-s",
                "advantage=grpo",
                "-s",
                "group_size=2",
                "-s",
                'advantage_settings={{"scale": 0}}',
            ],
            "scale=0 is not valid: it must be a valid boolean",
        ),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_line(words, reason, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_bytes((folder / "config.json").read_bytes())
    (tmp_path / "file").touch()
    for name, config in (("null", "null"), ("llama", json.dumps({"model_type": "llama"}))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(config)
    shutil.copytree(folder, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    places = {"model": folder, **{name: tmp_path / name for name in ("empty", "bare", "cut", "file", "null", "llama")}}
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
    assert agent.trained_on == ["vagen/FrozenLake-v0"]
    assert agent.env_options["max_turns"] == 2
    played = agent.describe()["weights_sha256"]
    assert played == best.describe()["weights_sha256"]
    shutil.rmtree(tmp_path / "run" / "best")
    assert Trained(str(tmp_path / "run")).describe()["weights_sha256"] != played


def test_environments_are_mixed_and_the_model_plays_both(folder, tmp_path):
    settings = [word for each in SHORT for word in ("-s", each)]
    sokoban = json.dumps({"id": "sokoban", "weight": 2, "options": {"max_turns": 3}})
    done = run("--model", folder, "--out", tmp_path / "run", "-e", sokoban, *settings)
    assert done.exit_code == 0, done.exception
    agent = Trained(str(tmp_path / "run"))
    assert agent.trained_on == ["vagen/FrozenLake-v0", "vagen/Sokoban-v0"]
    assert agent.env_options == {"strategy": "no_think", "prompt_pack": tiny.PROMPTS}
    for table, reason in (
        ('{"id": "sokoban", "wieght": 2}', "no entry 'wieght'.* Did you mean 'weight'"),
        ('{"id": "sokoban", "weight": 0}', "weight=0 of vagen/Sokoban-v0 is not valid: it must be a number above 0"),
        ('{"weight": 2}', "must be a table with an id"),
        ('{"id": }', "no JSON table"),
        ("frozenlake", "two are called vagen/FrozenLake-v0"),
    ):
        error = run("--model", folder, "--out", tmp_path / "other", "-e", table, *settings).exception
        assert isinstance(error, TrainingConfigError)
        assert re.search(reason, str(error)), error


def test_faults_that_only_building_a_model_finds_are_one_line(folder, tmp_path):
    given = [each for setting in SHORT for each in ("-s", setting)]
    trained, other = tmp_path / "trained", tmp_path / "other"
    assert run("--model", folder, "--out", trained, *given).exception is None
    for words, reason in (
        (["--model", folder, "-s", 'lora={"r": 8, "nonsense": 1}'], "nonsense"),
        (["--model", trained, "-s", "shared_backbone=true"], "holds another critic"),
        (["--model", folder, "-s", "torch_compile_backend=nonsense", "-s", "attn_implementation=a/b"], "can't be"),
    ):
        error = run(*words, "--out", other, *given).exception
        assert isinstance(error, TrainingConfigError), words
        assert reason in str(error)
        assert "\n" not in str(error)


def test_a_second_run_into_a_folder_with_a_best_model_is_refused(folder, tmp_path):
    """`vagen bench` would play the first run's best for the second."""
    given = [each for setting in (*SHORT, "eval_rollouts=1", "eval_episodes=2") for each in ("-s", setting)]
    assert run("--model", folder, "--out", tmp_path / "run", *given).exception is None
    error = run("--model", folder, "--out", tmp_path / "run", *given).exception
    assert isinstance(error, TrainingConfigError)
    assert "holds the best model of an earlier run" in str(error)


def test_a_checkpoint_that_is_not_whole_is_refused_before_anything_begins(folder, tmp_path):
    out = tmp_path / "run"
    given = [each for setting in (*SHORT, "save_strategy=steps", "save_steps=1") for each in ("-s", setting)]
    words = ["--model", folder, "--out", out, *given]
    assert run(*words).exception is None
    first, last = sorted(out.glob("checkpoint-*"))
    for name, reason in (
        ("complete", f"The last one that was is {last}"),
        ("model.safetensors", "model.safetensors can't be read"),
    ):
        file = first / name
        before = file.read_bytes()
        file.unlink() if name == "complete" else file.write_bytes(before[: len(before) // 2])
        error = run(*words, "--resume", first).exception
        assert isinstance(error, TrainingConfigError), name
        assert reason in str(error)
        file.write_bytes(before)
    assert run(*words, "--resume", first).exception is None


def test_a_folder_that_cannot_be_written_to_is_one_line(folder, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vagen_adapters.ppo.actor_critic.ActorCritic.save_pretrained", full)
    error = run("--model", folder, "--out", tmp_path, *[w for each in SHORT for w in ("-s", each)]).exception
    assert isinstance(error, TrainingDataError)
    assert "can't be written" in str(error)
    assert "No space left" in str(error)
