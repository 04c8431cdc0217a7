"""A small training run, in the test's process or, as a script, in processes of a launcher: `MODEL JOBS`."""

import json
import os
import sys
from pathlib import Path

import torch
import tried_once
from accelerate import PartialState
from accelerate.utils import DistributedType

from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.generation import Reply
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_envs import RewardTerm

SETTINGS = {
    "environments": [{"id": "vagen/FrozenLake-v0", "options": {"strategy": "no_think", "max_turns": 2, "format_reward": 0.0, "prompt_pack": tiny.PROMPTS}}],
    "num_envs": 8, "rollouts": 2, "episodes_per_rollout": 7, "minibatches": 2, "max_tokens": 4, "temperature": 1.0,
    "top_p": 1.0, "learning_rate": 1e-3, "critic_learning_rate": 3e-3, "logging_steps": 1, "save_strategy": "no",
    "report_to": "none", "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "disable_tqdm": True,
    "per_device_train_batch_size": 2,
}  # fmt: skip


def likes_short_words(turn):
    return [RewardTerm("brevity", 1.0 - len(turn.reply) / 20)]


class Says:
    """A back-end that needs no weights: a reply follows from its seed."""

    def __init__(self, policy, encoder):
        pass

    def sync(self):
        pass

    def sample(self, prompts, sampling, seeds):
        replies = [tuple(20 + seed // 7**n % 200 for n in range(self.length(seed))) for seed in seeds]
        return [Reply(each, (-5.0,) * len(each)) for each in replies]

    def length(self, seed):
        return 4


def train(model, out, changes):
    """Train into `out`, with what was logged in `history` and who did it in `processes`."""
    changes, out = dict(changes), str(out)
    resume, says = changes.pop("resume", None), changes.pop("says", False)
    config = MultiTurnPPOConfig(out, **{**SETTINGS, **changes})
    trainer = MultiTurnPPOTrainer(model, config, score=likes_short_words, make_sampler=Says if says else None)
    trainer.train(resume_from_checkpoint=resume)
    trainer.save_model(out + "/end")
    if trainer.accelerator.is_main_process:
        torch.save(trainer.state.log_history, out + "/history")
        Path(out, "processes").write_text(f"{trainer.accelerator.num_processes} {trainer.accelerator.distributed_type}")
    return trainer


def train_all(model, all_of_them):
    """One training after another in this process, one of a group's or alone: folders, and what is set otherwise."""
    tried_once.install()
    if "ACCELERATE_USE_FSDP" in os.environ:
        # accelerate asks for a GPU; torch's FSDP 2 itself runs on a CPU, over gloo
        PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    for to, different in all_of_them:
        last = train(model, to, different)
    last.accelerator.end_training()  # a process group that is left standing may abort the process


def train_there(folder, model, all_of_them):
    """The same, in a folder in which trackers may leave files."""
    os.chdir(folder)
    train_all(model, all_of_them)


if __name__ == "__main__":
    train_all(sys.argv[1], json.loads(sys.argv[2]))
