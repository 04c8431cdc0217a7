"""Real processes: two of them train as one does, and one that is killed goes on where it was."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

import vagen_adapters  # noqa: E402
import vagen_envs  # noqa: E402

CONFIGS = Path(vagen_adapters.__file__).parent / "ppo" / "launch"
SCRIPT = """
import os
import sys
import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from vagen_adapters.ppo import tiny
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.generation import Reply
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_envs import RewardTerm

def likes_short_words(turn):
    return [RewardTerm("brevity", 1.0 - len(turn.reply) / 20)]

class Says:
    # A back-end that needs no weights: a reply follows from its seed.

    def __init__(self, policy, codec):
        pass

    def sync(self):
        pass

    def sample(self, prompts, sampling, seeds):
        return [Reply(tuple(20 + seed // 7**n % 200 for n in range(4)), (-5.0,) * 4) for seed in seeds]

if __name__ == "__main__":
    model, out, changes = sys.argv[1], sys.argv[2], eval(sys.argv[3])
    resume = changes.pop("resume", None)
    settings = {
        "env_id": "vagen/FrozenLake-v0",
        "env_options": {"strategy": "no_think", "max_turns": 2, "format_reward": 0.0, "prompt_pack": tiny.PROMPTS},
        "num_envs": 8, "rollouts": 2, "episodes_per_rollout": 7, "minibatches": 2, "max_tokens": 4, "temperature": 1.0,
        "top_p": 1.0, "learning_rate": 1e-3, "critic_learning_rate": 3e-3, "logging_steps": 1, "save_strategy": "no",
        "report_to": "none", "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "disable_tqdm": True,
        "sequences_per_forward": 2,
    }
    make_sampler = Says if changes.pop("says", False) else None
    if os.environ.get("ACCELERATE_USE_FSDP"):  # accelerate asks for a GPU; torch's FSDP 2 itself runs on a CPU, over gloo
        PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    config = MultiTurnPPOConfig(out, **{**settings, **changes})
    trainer = MultiTurnPPOTrainer(model, config, score=likes_short_words, make_sampler=make_sampler)
    trainer.train(resume_from_checkpoint=resume)
    trainer.save_model(out + "/end")
    if trainer.accelerator.is_main_process:
        torch.save(trainer.state.log_history, out + "/history")
        with open(out + "/processes", "w") as file:
            file.write(f"{trainer.accelerator.num_processes} {trainer.accelerator.distributed_type}")
    trainer.accelerator.end_training()  # a process group that is left standing may abort the process
"""


def launched(kind, *words):
    """Run with accelerate's launcher and the configuration file of `kind`, in two processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file = CONFIGS / f"8-{kind}.yaml"
    accelerate = ["-m", "accelerate.commands.launch", "--config_file", file, "--main_process_port", port]
    run(
        *accelerate,
        "--num_processes",
        2,
        "--mixed_precision",
        "no",
        *words,
        ACCELERATE_TORCH_DEVICE="cpu",
        DS_ACCELERATOR="cpu",
    )


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    file = tmp_path_factory.mktemp("script") / "train.py"
    file.write_text(SCRIPT)
    return str(file)


def environment():
    packages = [Path(vagen_envs.__file__).parent.parent, Path(vagen_adapters.__file__).parent.parent]
    paths = [*map(str, packages), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 2]


def run(*words, **variables):
    done = subprocess.run(
        [sys.executable, *map(str, words)], env=environment() | variables, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


def trained(folder):
    import safetensors.torch

    end = folder / "end"
    files = sorted(end.glob("*.safetensors"))  # the critic's too, where there is one
    return {name: each for file in files for name, each in safetensors.torch.load_file(file).items()}


def history(folder, name):
    return [entry[name] for entry in torch.load(folder / "history", weights_only=False) if name in entry]


@pytest.mark.parametrize(
    "changes", [{}, {"advantage": "grpo", "episodes_per_rollout": 6, "group_size": 3, "critic_warmup_rollouts": 1},
                {"critic_warmup_rollouts": 1, "window": 0, "kl_loss_coef": 0.01}, {"advantage": "vine", "forks": 2}],
    ids=["bilevel", "grpo", "warm-up and windows", "forks"],
)  # fmt: skip
def test_two_processes_train_as_one_does(changes, script, tiny_folder, tmp_path):
    changes = {"optim": "sgd", "learning_rate": 0.1, "critic_learning_rate": 0.1, **changes}
    one, two = tmp_path / "one", tmp_path / "two"
    run(script, tiny_folder, one, changes)
    run(*TWO, script, tiny_folder, two, changes)
    assert (two / "processes").read_text() == "2 DistributedType.MULTI_CPU"
    for name in ("rollout/return", "loss", "policy/loss", "critic/loss", "grad_norm", "advantage/std"):
        assert history(two, name) == pytest.approx(history(one, name), rel=1e-4, abs=1e-6), name
    expected = trained(one)
    for name, tensor in trained(two).items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize(
    "kind", ["fsdp", pytest.param("zero2", marks=pytest.mark.slow), pytest.param("zero3", marks=pytest.mark.slow)]
)
def test_weights_spread_over_two_processes_train_as_whole_ones_and_resume(kind, script, tiny_folder, tmp_path):
    """With the launch file's own settings, but on a CPU. Gradients aren't clipped, for DeepSpeed clips all together."""
    if kind != "fsdp":
        pytest.importorskip(
            "deepspeed", reason="DeepSpeed isn't installed; `pip install deepspeed` in an environment of its own"
        )
    changes = {
        "says": True,
        "max_grad_norm": 1e9,
        "adam_epsilon": 0.1,
        "learning_rate": 0.005,
        "critic_learning_rate": 0.005,
    }
    run(script, tiny_folder, tmp_path / "one", changes)
    changes |= {"use_cpu": False, "ddp_backend": "gloo", "save_strategy": "steps", "save_steps": 2}
    launched(kind, script, tiny_folder, tmp_path / "two", changes)
    kinds = {"fsdp": "FSDP"}
    assert (tmp_path / "two" / "processes").read_text() == f"2 DistributedType.{kinds.get(kind, 'DEEPSPEED')}"
    for name in ("rollout/return", "loss", "policy/loss", "critic/loss", "advantage/std", "policy/kl_to_reference"):
        assert history(tmp_path / "two", name) == pytest.approx(history(tmp_path / "one", name), rel=1e-4, abs=1e-6), (
            name
        )
    expected, found = trained(tmp_path / "one"), trained(tmp_path / "two")
    for name in expected.keys() & found.keys():
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-6, msg=name)

    shutil.copytree(tmp_path / "two" / "checkpoint-2", tmp_path / "again" / "checkpoint-2")
    launched(kind, script, tiny_folder, tmp_path / "again", changes | {"resume": True})
    again = trained(tmp_path / "again")
    assert all(torch.equal(again[name], each) for name, each in found.items())


def test_a_killed_run_goes_on_to_the_same_end(script, tiny_folder, tmp_path):
    changes = {"rollouts": 6, "save_strategy": "steps", "save_steps": 2, "save_total_limit": 2}
    run(script, tiny_folder, tmp_path / "whole", changes)

    folder = tmp_path / "killed"
    words = [sys.executable, script, tiny_folder, str(folder), str(changes)]
    with subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        while not (folder / "checkpoint-4").exists():  # it is being written right now
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not (folder / "end").exists()

    run(script, tiny_folder, folder, changes | {"resume": True})
    expected = trained(tmp_path / "whole")
    found = trained(folder)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert history(folder, "rollout/return")[-1] == history(tmp_path / "whole", "rollout/return")[-1]


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.yaml")), ids=lambda file: file.stem)
def test_launch_files_are_what_accelerate_reads(file):
    from accelerate.commands.config.config_args import load_config_from_file

    found = load_config_from_file(str(file))
    machines, _, gpus = file.stem.partition("-")[0].rpartition("x")
    assert (found.num_machines, found.num_processes) == (int(machines or 1), int(machines or 1) * int(gpus))
    kind = file.stem.partition("-")[2]
    assert str(found.distributed_type).endswith({"": "NO", "ddp": "MULTI_GPU", "fsdp": "FSDP"}.get(kind, "DEEPSPEED"))
    if kind == "fsdp":
        assert found.fsdp_config["fsdp_version"] == 2
    if kind.startswith("zero"):
        assert found.deepspeed_config["zero_stage"] == int(kind[-1])
