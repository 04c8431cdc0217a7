"""Real processes: two of them train as one does, and one that is killed goes on where it was."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import ppo_training
import pytest
import torch
from ports import free_port
from ppo_training import train, train_all
from process_groups import CONFIGS, launcher_variables, started, together

import vagen_adapters
import vagen_envs

NO_DEEPSPEED = "DeepSpeed isn't installed; `pip install deepspeed` in an environment of its own"


def launched(kind, script, *words):
    """Run a helper with accelerate's launcher and the configuration file of `kind`, in two processes."""
    words = [
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        CONFIGS / f"8-{kind}.yaml",
        "--num_processes",
        2,
        "--main_process_port",
        free_port(),
        "--mixed_precision",
        "no",
        script.__file__,
        *words,
    ]
    packages = [
        Path(vagen_envs.__file__).parent.parent,
        Path(vagen_adapters.__file__).parent.parent,
    ]
    paths = os.pathsep.join([*map(str, packages), os.environ.get("PYTHONPATH", "")])
    variables = {
        **os.environ,
        "PYTHONPATH": paths,
        "ACCELERATE_TORCH_DEVICE": "cpu",
        "DS_ACCELERATOR": "cpu",
    }
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env=variables,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def trained(folder):
    import safetensors.torch

    end = folder / "end"
    files = sorted(end.glob("*.safetensors"))  # the critic's too, where there is one
    return {
        name: each for file in files for name, each in safetensors.torch.load_file(file).items()
    }


def history(folder, name):
    return [
        entry[name] for entry in torch.load(folder / "history", weights_only=False) if name in entry
    ]


RECIPES = {
    "bilevel": {},
    "grpo": {"advantage": "grpo", "episodes_per_rollout": 6, "group_size": 3},
    "warm-up and windows": {"critic_warmup_rollouts": 1, "context": "last:0", "kl_loss_coef": 0.01},
    "forks": {"advantage": "vine", "continuations": 2},
}
PLAIN = {"optim": "sgd", "learning_rate": 0.1, "critic_learning_rate": 0.1}


@pytest.fixture(scope="module")
def of_two(tiny_folder, tmp_path_factory):
    """What two processes trained: each recipe's folder. They do all, for their start costs more than a training."""
    folders = {name: tmp_path_factory.mktemp("two") for name in RECIPES}
    recipes = [(str(folders[name]), {**PLAIN, **RECIPES[name]}) for name in RECIPES]
    together(train_all, tiny_folder, recipes)
    return folders


@pytest.mark.parametrize("recipe", RECIPES)
def test_two_processes_train_as_one_does(recipe, of_two, tiny_folder, tmp_path):
    one, two = tmp_path / "one", of_two[recipe]
    train(tiny_folder, one, {**PLAIN, **RECIPES[recipe]})
    assert (one / "processes").read_text() == "1 DistributedType.NO"
    assert (two / "processes").read_text() == "2 DistributedType.MULTI_CPU"
    for name in (
        "rollout/return",
        "loss",
        "policy/loss",
        "critic/loss",
        "grad_norm",
        "advantage/std",
    ):
        assert history(two, name) == pytest.approx(history(one, name), rel=1e-4, abs=1e-6), name
    expected = trained(one)
    for name, tensor in trained(two).items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=1e-5, msg=name)


def test_paused_episodes_go_on_in_two_processes_as_in_one_and_after_a_resume(tiny_folder, tmp_path):
    """Three rollouts of one turn, of episodes of two: each is paused once, and others begin."""
    changes = {
        **PLAIN,
        "advantage": "dual_discount_gae",
        "advantage_settings": {"gamma_turn": 0.9, "lam_turn": 0.9},
        "context": "last:1",
        "rollout_turns": 1,
        "rollouts": 3,
    }
    train(tiny_folder, tmp_path / "one", changes)
    saves = {"save_strategy": "steps", "save_steps": 2, "save_total_limit": None}
    resumed = changes | {"resume": str(tmp_path / "two" / "checkpoint-2")}
    jobs = [(str(tmp_path / "two"), changes | saves), (str(tmp_path / "again"), resumed)]
    together(train_all, tiny_folder, jobs)
    running = json.loads((tmp_path / "two" / "checkpoint-2" / "running_episodes.json").read_text())
    assert [len(place["episode"]["turns"]) for place in running] == [1] * 7
    for name in ("rollout/paused", "rollout/return", "policy/loss", "critic/loss", "grad_norm"):
        of_one, of_two = history(tmp_path / "one", name), history(tmp_path / "two", name)
        assert of_two == pytest.approx(of_one, rel=1e-4, abs=1e-6), name
    two = trained(tmp_path / "two")
    for name, tensor in trained(tmp_path / "one").items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
    again = trained(tmp_path / "again")
    assert all(torch.equal(again[name], tensor) for name, tensor in two.items())


@pytest.mark.parametrize(
    "kind",
    [
        "fsdp",
        pytest.param("zero2", marks=pytest.mark.slow),
        pytest.param("zero3", marks=pytest.mark.slow),
    ],
)
def test_weights_spread_over_two_processes_train_as_whole_ones_and_resume(
    kind, tiny_folder, tmp_path
):
    """With the launch file's own settings, but on a CPU. Gradients aren't clipped, for DeepSpeed clips all together."""
    if kind != "fsdp":
        pytest.importorskip("deepspeed", reason=NO_DEEPSPEED)
    changes = {
        "says": True,
        "max_grad_norm": 1e9,
        "adam_epsilon": 0.1,
        "learning_rate": 0.005,
        "critic_learning_rate": 0.005,
    }
    train(tiny_folder, tmp_path / "one", changes)
    changes |= {"use_cpu": False, "ddp_backend": "gloo", "save_strategy": "steps", "save_steps": 2}
    resumed = changes | {"resume": str(tmp_path / "two" / "checkpoint-2"), "save_strategy": "no"}
    all_of_them = [(str(tmp_path / "two"), changes), (str(tmp_path / "again"), resumed)]
    if kind == "fsdp":
        together(train_all, tiny_folder, all_of_them, **launcher_variables(kind))
    else:
        launched(kind, ppo_training, tiny_folder, json.dumps(all_of_them))
    kinds = {"fsdp": "FSDP"}
    assert (
        tmp_path / "two" / "processes"
    ).read_text() == f"2 DistributedType.{kinds.get(kind, 'DEEPSPEED')}"
    for name in (
        "rollout/return",
        "loss",
        "policy/loss",
        "critic/loss",
        "advantage/std",
        "policy/kl_to_reference",
    ):
        assert history(tmp_path / "two", name) == pytest.approx(
            history(tmp_path / "one", name), rel=1e-4, abs=1e-6
        ), name
    expected, found = trained(tmp_path / "one"), trained(tmp_path / "two")
    for name in expected.keys() & found.keys():
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-6, msg=name)
    again = trained(tmp_path / "again")
    assert all(torch.equal(again[name], each) for name, each in found.items())


def test_a_killed_run_goes_on_to_the_same_end(tiny_folder, tmp_path):
    changes = {"rollouts": 3, "save_strategy": "steps", "save_steps": 2, "save_total_limit": 2}
    train(tiny_folder, tmp_path / "whole", changes)

    folder = tmp_path / "killed"
    process = started(train_all, tiny_folder, [(str(folder), changes)])
    while not (folder / "checkpoint-4").exists():  # it is being written right now
        assert process.exitcode is None, process.said.recv()
        time.sleep(0.01)
    process.kill()
    process.join()
    assert not (folder / "end").exists()

    train(tiny_folder, folder, changes | {"resume": True})
    expected = trained(tmp_path / "whole")
    found = trained(folder)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert (
        history(folder, "rollout/return")[-1] == history(tmp_path / "whole", "rollout/return")[-1]
    )


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.yaml")), ids=lambda file: file.stem)
def test_launch_files_are_what_accelerate_reads(file):
    from accelerate.commands.config.config_args import load_config_from_file

    found = load_config_from_file(str(file))
    machines, _, gpus = file.stem.partition("-")[0].rpartition("x")
    assert (found.num_machines, found.num_processes) == (
        int(machines or 1),
        int(machines or 1) * int(gpus),
    )
    kind = file.stem.partition("-")[2]
    assert str(found.distributed_type).endswith(
        {"": "NO", "ddp": "MULTI_GPU", "fsdp": "FSDP"}.get(kind, "DEEPSPEED")
    )
    if kind == "fsdp":
        assert found.fsdp_config["fsdp_version"] == 2
    if kind.startswith("zero"):
        assert found.deepspeed_config["zero_stage"] == int(kind[-1])
