"""`vagen train`: wrong words are one line, and a run with evaluations leaves the best model to play."""

import errno
import json
import os
import pydoc
import re
import shutil
import signal
import warnings
from pathlib import Path

import gymnasium as gym
import pytest

pytest.importorskip("trl")
import safetensors.torch
import torch
from typer.testing import CliRunner

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import load_policy
from vagen_adapters.ppo.checkpoints import last_checkpoint
from vagen_adapters.ppo.episodes import LevelSeed
from vagen_adapters.ppo.rollout import Progress
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_adapters.ppo.warmstart import IGNORED, batch_of, demonstrate
from vagen_benchmarks.agents.trained import Trained
from vagen_benchmarks.cli import app
from vagen_benchmarks.commands.options import EXIT_INTERRUPTED, EXIT_STOPPED
from vagen_benchmarks.commands.training_lines import RolloutLines, line_of
from vagen_benchmarks.errors import ProtocolError, RunFolderError, StorageError
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter, lock, storing
from vagen_benchmarks.runs.tasks import make_task
from vagen_rewards.errors import JudgeConfigError

FSDP = ["--plan", "--gpu-memory", "80", "--gpus", "8", "--sharding", "fsdp"]
PLAYED = ["-o", "strategy=no_think", "-o", "max_turns=2", "-o", f"prompt_pack={tiny.PROMPTS}"]
WORDS = ["--recipe", "vagen-base", "-s", "bf16=false", "--env", "frozenlake", *PLAYED]


def settings(*more):
    """What keeps a training short, and more."""
    short = (
        "rollouts=2 episodes_per_rollout=4 num_envs=4 minibatches=1 max_tokens=4 save_strategy=no"
    )
    quiet = "use_cpu=true bf16=false report_to=none disable_tqdm=true"
    return [word for each in (*short.split(), *quiet.split(), *more) for word in ("-s", each)]


@pytest.fixture
def folder(tiny_folder):
    return Path(tiny_folder)


def run(*words):
    return CliRunner().invoke(app, ["train", *WORDS, *map(str, words)])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--model", "nosuch"], "there is no model 'nosuch': neither a folder with a config.json"),
        (["--model", "{bare}"], "holds a config.json but no weights"),
        (["--model", "{cut}"], "model.safetensors can't be read"),
        (["--resume", "{bare}"], "bare is no complete checkpoint: complete is missing"),
        (["--resume", "nowhere"], "nowhere is no complete checkpoint: there is no such folder"),
        (["--model", ""], "there is no model ''"),
        (["--out", "{file}"], "is a file; name a folder"),
        (["-s", "learning_rate=fast"], "learning_rate='fast' is not valid"),
        (["-s", "eval_rollout=2"], "eval_rollouts"),
        (["-s", "report_to=tensorbord"], "tensorbord"),
        (["-s", "learning_rate=-1"], "learning_rate=-1 is not valid"),
        (["-s", "generation=nonsense"], "generation='nonsense' is not valid"),
        (["-s", "lora=true"], "lora=True is not valid"),
        (["-s", "seed=16777216"], "seed=16777216 is not valid: it must be less than"),
        (["-s", "per_device_train_batch_size=0"], "per_device_train_batch_size=0 is not valid"),
        (["-s", "environments=[]"], "has an option of its own"),
        (["-s", "push_to_hub=true"], "push_to_hub=True is not valid"),
        (["-s", "torch_compile=true"], "torch_compile=True is not valid"),
        (["-s", "use_liger_kernel=true"], "use_liger_kernel=True is not valid"),
        (["-s", "neftune_noise_alpha=5.0"], "neftune_noise_alpha=5.0 is not valid"),
        (["-s", "optim=galore_adamw"], "optim="),
        (["-s", 'quantization_config={{"load_in_4bit": true}}'], "(QLoRA) aren't trained here"),
        (["-s", "deepspeed={zero_json}"], "The 'deepspeed>="),
        (["-s", "fsdp=full_shard"], "fsdp='full_shard' is not valid: it must be left out"),
        (["-s", "save_steps=0"], "save_steps=0 is not valid"),
        (["-s", "save_strategy=best"], "kept by eval_rollouts in the folder `best`"),
        (["-s", "save_strategy=often"], "save_strategy='often' is not valid"),
        (["-s", "save_only_model=true"], "checkpoints are to go on from"),
        (["-s", "hub_model_id=me/mine"], "hf upload"),
        (["-s", "optim_args=x=1"], "transformers gives optim=adamw_torch_fused none"),
        (["-s", "lr_scheduler_type=warmup_stable_decay"], "lr_scheduler_kwargs"),
        ([*FSDP], "generation='transformers' samples from weights that are whole"),
        ([*FSDP, "-s", "generation=vllm", "-s", "log_gradient_norms=true"], "False under FSDP"),
        (["--plan", "-s", "reasoning_credit=span"], "reasoning_credit='span' credits sentences"),
        (["--plan", "-s", "lr_scheduler_type=cosine_with_min_lr"], "min_lr"),
        (["-s", "use_cpu=true", "--plan", "--gpus", "8"], "add --gpu-memory"),
        (["--plan", "--gpu-memory", "inf"], "--gpu-memory inf is no size"),
        (["--plan", "--model", "{text}"], "can't be built: ValueError"),
        (["--recipe", "vagen-full", "-s", "use_cpu=true"], "--without-reasoning-reward"),
        (["--recipe", "vagen-bas"], "Did you mean 'vagen-base'"),
        (["--recipe", "{own_toml}"], "own.toml extends itself"),
        (["--recipe", "{bad_toml}"], "bad.toml: settings=[] is not valid"),
        (["--recipe", "{unknown_toml}"], "Did you mean 'rollouts'"),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_line(words, reason, folder, tmp_path):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_bytes((folder / "config.json").read_bytes())
    (tmp_path / "file").touch()
    shutil.copytree(folder, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "own.toml").write_text(f'extends = "{tmp_path}/own.toml"\n')
    (tmp_path / "bad.toml").write_text("settings = []\n")
    (tmp_path / "zero.json").write_text('{"zero_optimization": {"stage": 2}}')
    (tmp_path / "unknown.toml").write_text('extends = "vagen-base"\n[settings]\nrollout = 1\n')
    places = {entry.name.replace(".", "_"): entry for entry in tmp_path.iterdir()}
    error = run(
        "--model", folder, "--out", tmp_path / "out", *[word.format(**places) for word in words]
    ).exception
    assert isinstance(error, TrainingConfigError)
    assert reason in str(error)
    assert "\n" not in str(error)
    assert not (tmp_path / "out").exists()


def test_a_recipe_without_environments_asks_for_one(folder, tmp_path):
    words = [
        "train",
        "--recipe",
        "vagen-base",
        "--model",
        str(folder),
        "--out",
        str(tmp_path / "out"),
        *settings(),
    ]
    assert "give --env" in str(CliRunner().invoke(app, words).exception)


def test_a_judge_of_ones_own_is_asked_how_it_scores(folder, tmp_path):
    """One that gives verdicts can't be weighed by contrast, which is the default here."""
    own = tmp_path / "own.py"
    own.write_text(
        "from vagen_rewards import Judge\n\nclass Own(Judge):\n    name = 'my own'\n    score = None\n"
    )
    words = ["--recipe", "vagen-full", "--judge", f"{own}:Own", "-s", "use_cpu=true"]
    error = run("--model", folder, "--out", tmp_path / "out", *words).exception
    assert isinstance(error, JudgeConfigError)
    assert "the judge my own gives verdicts" in str(error)


def test_a_run_with_evaluations_leaves_a_curve_and_its_best_model_plays(folder, tmp_path):
    words = settings("eval_rollouts=1", "eval_episodes=2", "learning_rate=0.5")
    done = run("--model", folder, "--out", tmp_path / "run", *words)
    assert done.exit_code == 0, done.exception
    curve = json.loads((tmp_path / "run" / "evaluations.json").read_text())
    assert [entry["step"] for entry in curve] == [1, 2]
    last = tmp_path / "run" / "model.safetensors"
    state = safetensors.torch.load_file(last)
    safetensors.torch.save_file(
        {name: each + 1 for name, each in state.items()}, last, metadata={"format": "pt"}
    )
    agent, best = Trained(str(tmp_path / "run")), Trained(str(tmp_path / "run" / "best"))
    assert agent.trained_on == ["vagen/FrozenLake-v0"]
    assert agent.options_for("vagen/FrozenLake-v0")["max_turns"] == 2
    with pytest.raises(ProtocolError, match="was trained on vagen/FrozenLake-v0"):
        agent.check("vagen/Sokoban-v0", {})
    played = agent.describe()["weights_sha256"]
    assert played == best.describe()["weights_sha256"]
    error = run("--model", folder, "--out", tmp_path / "run", *words).exception
    assert isinstance(
        error, TrainingConfigError
    )  # `vagen bench` would play the first run's best for the second
    assert "holds the model of an earlier run" in str(error)
    shutil.rmtree(tmp_path / "run" / "best")
    assert Trained(str(tmp_path / "run")).describe()["weights_sha256"] != played
    for name in ("training.json", "model.safetensors"):
        whole = (tmp_path / "run" / name).read_bytes()
        (tmp_path / "run" / name).write_bytes(whole[:30])
        with pytest.raises(ProtocolError, match="holds no model that can be played"):
            Trained(str(tmp_path / "run"))
        (tmp_path / "run" / name).write_bytes(whole)


def test_environments_are_mixed_and_the_model_plays_both(folder, tmp_path):
    sokoban = json.dumps({"id": "sokoban", "weight": 2, "options": {"max_turns": 3}})
    done = run("--model", folder, "--out", tmp_path / "run", "-e", sokoban, *settings())
    assert done.exit_code == 0, done.exception
    agent = Trained(str(tmp_path / "run"))
    assert agent.trained_on == ["vagen/FrozenLake-v0", "vagen/Sokoban-v0"]
    shared = {"strategy": "no_think", "prompt_pack": tiny.PROMPTS}
    assert agent.options_for("vagen/Sokoban-v0") == {**shared, "max_turns": 3}
    assert agent.options_for("vagen/FrozenLake-v0")["max_turns"] == 2
    task = make_task("vagen/Sokoban-v0", {"strategy": "free_think"}, "test", 0, 1)
    told = agent.remarks(task.env_id, task.options, {**task.config, "max_turns": 8})
    remarks = " ".join(told)
    assert "strategy='free_think', but it was trained with 'no_think'" in remarks
    assert "max_turns=3 as in its training, not 8" in remarks
    for table, reason in (
        ('{"id": "sokoban", "wieght": 2}', "no entry 'wieght'.* Did you mean 'weight'"),
        ('{"id": }', "no JSON table"),
        ("frozenlake", "two are called vagen/FrozenLake-v0"),
    ):
        error = run(
            "--model", folder, "--out", tmp_path / "other", "-e", table, *settings()
        ).exception
        assert isinstance(error, TrainingConfigError)
        assert re.search(reason, str(error)), error


def test_faults_that_only_building_a_model_finds_are_one_line(folder, tmp_path):
    trained, other, broken, lacking = (
        tmp_path / name for name in ("trained", "other", "broken", "lacking")
    )
    state = safetensors.torch.load_file(folder / "model.safetensors")
    lost = next(
        name for name in state if name.endswith("language_model.layers.0.self_attn.q_proj.weight")
    )
    for copy, weights in (
        (broken, {name: each * float("nan") for name, each in state.items()}),
        (lacking, {name: each for name, each in state.items() if name != lost}),
    ):
        shutil.copytree(folder, copy)
        safetensors.torch.save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert run("--model", folder, "--out", trained, *settings()).exception is None
    for model, setting, reason in (
        (folder, 'lora={"r": 8, "nonsense": 1}', "lora has no entry 'nonsense'"),
        (folder, 'lora={"r": 8, "target_modules": ["x"]}', "Target modules {'x'} not found"),
        (broken, "seed=1", "weights with NaN or infinity, such as policy."),
        (lacking, "seed=1", "lacks 1 weights, such as "),
        (trained, "shared_backbone=true", "holds another critic"),
        (folder, "attn_implementation=sdpaa", "attn_implementation='sdpaa' can't be used"),
        (
            folder,
            "attn_implementation=flash_attention_2",
            "leave it out, or install what it needs, such as `pip install flash-attn`",
        ),
        (folder, "optim_args=x", "optim=adamw_torch_fused can't be used"),
        (folder, "optim=adamw_bnb_8bit", "optim=adamw_bnb_8bit can't be used"),
    ):
        error = run("--model", model, "--out", other, *settings(setting)).exception
        assert isinstance(error, TrainingConfigError), setting
        assert reason in str(error)
        assert "\n" not in str(error)


def test_the_line_of_a_rollout_leaves_out_what_is_not_defined():
    """As the critic's explained variance where all returns are equal."""
    logs = {"rollout/success": 0.0, "critic/explained_variance": float("nan"), "reward/format": 1.0}
    assert line_of(1, 8, logs) == "update 1/8: success 0, (format 1)"


def test_a_plan_is_without_warnings_and_without_what_it_would_be_trained_with(folder, tmp_path):
    """Neither the optimiser's library nor weights need be here."""
    words = ["--plan", "--gpu-memory", "80", "-s", "optim=adamw_bnb_8bit"]
    words += ["-s", 'gradient_checkpointing_kwargs={"use_reentrant": false}']
    words += ["-s", "gradient_checkpointing=true"]
    words += ["-s", 'lora={"r": 4, "target_modules": "all-linear"}']
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = run("--model", folder, "--out", tmp_path / "out", *words)
    assert done.exception is None
    assert "GiB of each GPU" in done.output


def test_a_figure_for_the_best_model_that_no_evaluation_gives_is_refused(folder, tmp_path):
    words = settings("eval_rollouts=1", "eval_episodes=1", "metric_for_best_model=succes")
    error = run("--model", folder, "--out", tmp_path / "out", *words).exception
    assert isinstance(error, TrainingConfigError)
    assert "evaluations give success, return, failed. Did you mean 'success'" in str(error)


def test_a_damaged_checkpoint_is_refused_with_the_one_before_it(folder, tmp_path):
    out = tmp_path / "run"
    words = ["--model", folder, "--out", out, *settings("save_strategy=steps", "save_steps=1")]
    assert run(*words).exception is None
    first, last = sorted(out.glob("checkpoint-*"))
    kept = {file: file.read_bytes() for file in last.iterdir()}
    assert {"model.safetensors", "critic.safetensors", "optimizer.pt", "rng_state.pth"} < {
        file.name for file in kept
    }
    damages = [(file, bytes(len(content))) for file, content in kept.items()]
    damages += [(last / "complete", content) for content in (b"", b"{}", b"[]", b"x")]
    damages += [(last / name, kept[last / name][:-9]) for name in ("complete", "model.safetensors")]
    for file, content in damages:
        file.write_bytes(content)
        error = run(*words, "--resume", last).exception
        assert isinstance(error, TrainingConfigError), file
        assert re.fullmatch(f".*{file.name}.* the last complete one is {first}", str(error))
        file.write_bytes(kept[file])
    assert last_checkpoint(out) == last
    for name in (
        "optimizer.pt",
        "rng_state.pth",
        "critic.safetensors",
    ):  # what only their libraries find out
        content = (first / name).read_bytes()
        (first / name).write_bytes(content[:64].ljust(len(content), b"\0"))
        error = run(*words, "--resume", first).exception
        assert isinstance(error, TrainingConfigError), name
        assert re.fullmatch(".*checkpoint-1 can't be read: .*", str(error))
        (first / name).write_bytes(content)
    for setting in (
        "group_size=2",
        "learning_rate=0.5",
        'lora={"r": 4}',
        "adam_beta2=0.9",
        "seed=1",
    ):
        error = run(*words, *settings(setting), "--resume", first).exception
        assert re.search(f"{setting[:5]}.* was trained with ", str(error)), error
    assert "environments=" in str(run(*words, "-o", "max_turns=3", "--resume", first).exception)
    assert run(*words, "--resume", first).exception is None


@pytest.mark.parametrize(
    "library", ["vagen_adapters.ppo.actor_critic.ActorCritic.save_pretrained", "torch.save"]
)
def test_a_full_disk_is_one_line_and_leaves_the_checkpoint_before(
    library, folder, tmp_path, monkeypatch
):
    save = pydoc.locate(library)

    def full(*given, **options):
        if last_checkpoint(tmp_path) is not None:
            raise RuntimeError("No space left on device")
        save(*given, **options)

    words = ["--model", folder, "--out", tmp_path]
    words += settings("save_strategy=steps", "save_steps=1", "save_total_limit=1")
    with monkeypatch.context() as patch:
        patch.setattr(library, full)
        error = run(*words).exception
    assert isinstance(error, TrainingDataError)
    assert "can't be written: RuntimeError: No space left" in str(error)
    assert run(*words, "--resume", tmp_path / "checkpoint-1").exception is None
    assert [each.name for each in tmp_path.glob("checkpoint-*")] == ["checkpoint-2"]


def test_a_full_disk_of_watched_episodes_says_how_to_go_on(folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RunWriter, "add", storing(tmp_path)(full))
    error = run("--model", folder, "--out", tmp_path, *settings()).exception
    assert isinstance(error, StorageError)
    assert "No space left on device" in str(error)
    assert str(error).endswith("repeat the command with --resume auto")


def test_an_interrupted_run_says_how_to_go_on_and_a_second_one_at_once_is_refused(
    folder, tmp_path, monkeypatch
):
    def stop(trainer, number):
        if number == stops[-1]:
            with pytest.raises(RunFolderError, match="another process writes to"):
                lock(tmp_path)
            raise KeyboardInterrupt
        return collect(trainer, number)

    collect = MultiTurnPPOTrainer.collect_experience
    monkeypatch.setattr(MultiTurnPPOTrainer, "collect_experience", stop)
    words = ["--model", folder, "--out", tmp_path, *settings("save_strategy=steps", "save_steps=1")]
    stops = []
    for moment, how in (
        (0, "the same command begins again"),
        (1, "from checkpoint-1 with the same command and --resume auto"),
    ):
        stops.append(moment)
        stopped = run(*words)
        assert stopped.exit_code == EXIT_INTERRUPTED
        assert how in stopped.output
    assert how in str(run(*words).exception)
    (
        tmp_path / "checkpoint-1" / "complete"
    ).unlink()  # as after a kill in the first save: no advice goes in a circle
    assert str(run(*words).exception).endswith(
        f"name another folder, or remove {tmp_path} and begin again"
    )


def warm(folder, out, *words):
    return CliRunner().invoke(
        app, ["warmstart", *WORDS[4:], "--model", str(folder), "--out", str(out), *words]
    )


def test_a_model_is_warm_started_trained_and_resumed(folder, tmp_path):
    start, out = tmp_path / "start", tmp_path / "out"
    assert warm(folder, start, "--episodes", "16").exit_code == 0
    assert "holds the model of an earlier run" in str(
        warm(folder, start, "--episodes", "16").exception
    )
    # The entropy moves the weights even where no episode earns a reward.
    more = settings("save_strategy=steps", "save_steps=1", "entropy_coef=0.01", "value_clip=None")
    words = ["--model", start, "--out", out, *more]
    assert run(*words).exception is None
    trained = (out / "model.safetensors").read_bytes()
    assert trained != (start / "model.safetensors").read_bytes()
    (out / "model.safetensors").unlink()
    assert run(*words, "--resume", out / "checkpoint-1").exception is None
    assert (out / "model.safetensors").read_bytes() == trained


def test_adapters_are_warm_started_and_merged(folder, tmp_path):
    for out in ("out", "again"):
        done = warm(
            folder,
            tmp_path / out,
            "--episodes",
            "16",
            "--lora",
            '{"r": 2, "target_modules": "all-linear"}',
        )
        assert done.exit_code == 0, done.exception
    before, after = (load_policy(each)[0].state_dict() for each in (folder, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert (
        len({(tmp_path / out / "model.safetensors").read_bytes() for out in ("out", "again")}) == 1
    )
    assert any(not before[name].equal(after[name]) for name in before)
    error = warm(folder, tmp_path / "other", "--lora", '{"rank": 2}').exception
    assert "lora has no entry 'rank'" in str(error)


def test_only_the_oracles_replies_teach(folder):
    encoder = load_policy(folder)[1]
    env = gym.make("vagen/FrozenLake-v0", prompt_pack="terse", max_turns=6, max_actions_per_turn=1)
    shown = next(
        found
        for found in (demonstrate(env, encoder, LevelSeed(seed), noise=0.5) for seed in range(50))
        if 0 < len(found.imitated) < len(found.episode.turns)
    )
    labels = batch_of([shown], encoder)["labels"][0]
    learned = encoder.tokenizer.decode(labels[labels != IGNORED], skip_special_tokens=True)
    replies = [turn.turn.reply for turn in shown.episode.turns]
    assert learned == "".join(
        reply for number, reply in enumerate(replies) if number in shown.imitated
    )


def test_a_folder_that_was_trained_with_summaries_plays_with_them(folder, tmp_path):
    words = settings("context=summary:1:4")
    assert (
        run("--model", folder, "--out", tmp_path / "out", *words, "-o", "max_turns=3").exception
        is None
    )
    words = [
        "bench",
        "-a",
        tmp_path / "out",
        "-e",
        "frozenlake",
        "-n",
        "1",
        "--out",
        tmp_path / "run",
    ]
    assert CliRunner().invoke(app, [*map(str, words)]).exception is None
    (episode,) = RunFolder(tmp_path / "run").all_episodes()
    assert (
        [summary["before"] for summary in episode.summaries]
        == [*range(1, len(episode.turns))]
        != []
    )
    assert {summary["call"]["completion_tokens"] for summary in episode.summaries} <= {1, 2, 3, 4}
    for summary in episode.summaries:
        assert (
            f"turns 1 to {summary['before']}"
            not in episode.turns[summary["before"]]["observed"]["text"]
        )


def test_a_plan_needs_no_weights_and_ends_with_what_helps(folder, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_bytes((folder / "config.json").read_bytes())
    words = ["--model", bare, "--out", tmp_path / "out", "--plan"]
    fits = run(*words, "--gpu-memory", 24)
    assert fits.exit_code == 0, fits.exception
    assert "optimiser's moments" in fits.output
    assert "disk: a checkpoint" in fits.output
    error = run(*words, "--gpu-memory", 4, "-s", "per_device_train_batch_size=64").exception
    assert re.search("takes .* GiB of each GPU, and one has 4.0; add -s ", str(error)), error
    assert not (tmp_path / "out").exists()


def test_one_command_begins_goes_on_and_finds_that_it_is_finished(folder, tmp_path, monkeypatch):
    """As a cluster calls it: with a signal in the first rollout, and one in the second."""
    between = MultiTurnPPOTrainer._between_turns
    calls, at = [], [0]

    def signalled(trainer):
        calls.append(1)
        if len(calls) == at[0]:
            os.kill(os.getpid(), signal.SIGTERM)
        between(trainer)

    monkeypatch.setattr(MultiTurnPPOTrainer, "_between_turns", signalled)
    out = tmp_path / "out"
    words = ["--model", folder, "--out", out, "--resume", "auto", *settings()]
    for moment, how in ((1, "the same command begins again"), (3, "go on from checkpoint-1")):
        calls.clear()
        at[0] = moment
        stopped = run(*words)
        assert stopped.exit_code == EXIT_STOPPED, stopped.exception
        assert "SIGTERM ended the training" in stopped.output
        assert how in stopped.output
        assert not (out / "model.safetensors").exists()
    at[0] = 0
    assert run(*words).exception is None
    assert (out / "model.safetensors").exists()
    assert "holds the trained model already" in run(*words).output
    for other, told in (
        ("entropy_coef=0.1", "entropy_coef=0.0, not 0.1"),
        ("value_clip=null", "value_clip=0.5, not None"),
    ):
        error = run(*words, "-s", other).exception
        assert isinstance(error, TrainingConfigError)
        assert f"was trained with {told}; name another folder" in str(error)


def test_adapters_are_merged_by_one_command_and_start_the_next_training(folder, tmp_path):
    lora, merged = tmp_path / "lora", tmp_path / "merged"
    adapters = 'lora={"r": 4, "target_modules": "all-linear"}'
    words = settings(adapters, "learning_rate=0.05", "entropy_coef=0.1", "save_strategy=no")
    assert run("--model", folder, "--out", lora, *words).exception is None
    done = CliRunner().invoke(app, ["merge", str(lora), "--out", str(merged)])
    assert done.exception is None, done.output
    assert not (merged / "adapter_config.json").exists()
    assert (merged / "training.json").read_bytes() == (lora / "training.json").read_bytes()
    ids = torch.arange(20, 40)[None]
    with torch.no_grad():
        played, whole, before = (
            load_policy(each)[0](input_ids=ids).logits for each in (lora, merged, folder)
        )
    torch.testing.assert_close(played, whole, rtol=1e-4, atol=1e-4)
    assert (played - before).abs().max() > 1e-3
    again = run("--model", lora, "--out", tmp_path / "again", *settings(adapters)).exception
    assert "merge them first: vagen merge" in str(again)
    started = [ActorCritic.from_pretrained(str(each)) for each in (lora, merged)]
    for one, other in zip(*(model.state_dict().values() for model in started), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert run("--model", lora, "--out", tmp_path / "whole", *settings()).exception is None


def test_a_rollout_tells_how_far_it_is(capsys):
    moments = iter([0.0, 20.0, 90.0, 100.0, 400.0])
    lines = RolloutLines(clock=lambda: next(moments))
    for number, done, share in ((3, 0, 0.1), (3, 1, 0.2), (3, 4, 0.6), (3, 5, 0.7), (4, 0, 0.1)):
        lines(number, Progress(done, 8, 1200 * done, share))
    assert capsys.readouterr().out.splitlines() == [
        "rollout 3: 4/8 episodes, 4,800 tokens, 0:01:00 to go at most"
    ]


def test_what_a_training_plays_can_be_looked_at_and_compared(folder, tmp_path):
    out = tmp_path / "out"
    words = settings("eval_rollouts=1", "eval_episodes=2", "save_strategy=no")
    done = run("--model", folder, "--out", out, *words)
    assert done.exception is None, done.output
    assert re.search(r"update 1/2: success \S+, return .*tokens/s \d", done.output)
    assert {each.name for each in (out / "play").iterdir()} == {
        *("rollout-000000", "rollout-000001"),
        *("evaluation-000001", "evaluation-000002"),
    }
    rollout = [*RunFolder(out / "play" / "rollout-000000").episodes()]
    assert [each.task.rpartition(" ")[2] for each in rollout] == ["best", "worst", "random"]
    assert rollout[0].score >= rollout[1].score
    assert all("advantage" in turn["metrics"] for each in rollout for turn in each.turns)
    one, other = (str(out / "play" / f"evaluation-00000{number}") for number in (1, 2))
    assert len([*RunFolder(Path(one)).episodes()]) == 2
    rescore = ["judge", "rescore", one, "--into", str(tmp_path / "again")]
    for command in (["compare", one, other], rescore, ["view", str(out), "--no-browser"]):
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0, (shown.output, shown.exception)
    assert "rollout-000000" in (out / "index.html").read_text()
