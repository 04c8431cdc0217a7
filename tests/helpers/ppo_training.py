"""Small training runs, in the test's process or, as a script, in processes of a launcher: `MODEL JOBS`."""

import json
import os
import sys
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType

from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.generation import SampledReply
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_envs import RewardTerm

LAKE = "vagen/FrozenLake-v0"
OPTIONS = {
    "strategy": "no_think",
    "max_turns": 2,
    "format_reward": 0.0,
    "prompt_pack": tiny.PROMPTS,
}


def lake(**options):
    """FrozenLake as what a training plays, its replies and episodes as short as can be."""
    return [{"id": LAKE, "options": OPTIONS | options}]


def config(out, **changes):
    """Settings of a training that takes a second on a CPU."""
    settings = {
        "environments": lake(),
        "num_envs": 8,
        "rollouts": 1,
        "episodes_per_rollout": 8,
        "minibatches": 2,
        "max_tokens": 4,
        "temperature": 1.0,
        "top_p": 1.0,
        "learning_rate": 1e-3,
        "critic_learning_rate": 3e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
    }
    return MultiTurnPPOConfig(str(out), **settings | changes)


def likes_short_words(turn):
    """A reward that any policy can move: fewer characters are better."""
    return [RewardTerm("brevity", 1.0 - len(turn.reply) / 20)]


def trained(
    model,
    out,
    *,
    score=likes_short_words,
    make_sampler=None,
    callbacks=None,
    resume=None,
    **changes,
):
    """The trainer after its training."""
    trainer = MultiTurnPPOTrainer(
        model, config(out, **changes), score=score, make_sampler=make_sampler, callbacks=callbacks
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def history(trainer, name):
    """What was logged by this name."""
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def weights(trainer):
    """Of policy and critic; the reference is none of the trained ones."""
    state = trainer.model.state_dict()
    return {
        name: tensor.clone() for name, tensor in state.items() if not name.startswith("reference.")
    }


def same(first, second, **tolerance):
    """Weights are, bit by bit or within a tolerance."""
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(
            first[name], second[name], **(tolerance or {"rtol": 0, "atol": 0}), msg=name
        )


class Says:
    """A back-end that needs no weights: a reply follows from its seed."""

    def __init__(self, policy, encoder):
        pass

    def sync(self):
        pass

    def sample(self, prompts, sampling, seeds):
        replies = [
            tuple(20 + seed // 7**n % 200 for n in range(self.length(seed))) for seed in seeds
        ]
        return [SampledReply(each, (-5.0,) * len(each)) for each in replies]

    def length(self, seed):
        return 4


def train(model, out, changes):
    """Train into `out`, with what was logged in `history` and who did it in `processes`."""
    changes = {
        "rollouts": 2,
        "episodes_per_rollout": 7,
        "per_device_train_batch_size": 2,
        **changes,
    }
    says = changes.pop("says", False)
    trainer = trained(model, out, make_sampler=Says if says else None, **changes)
    trainer.save_model(f"{out}/end")
    if trainer.accelerator.is_main_process:
        torch.save(trainer.state.log_history, f"{out}/history")
        Path(out, "processes").write_text(
            f"{trainer.accelerator.num_processes} {trainer.accelerator.distributed_type}"
        )
    return trainer


def train_all(model, all_of_them):
    """One training after another in this process, one of a group's or alone: folders, and what is set otherwise."""
    if "ACCELERATE_USE_FSDP" in os.environ:
        # accelerate asks for a GPU; torch's FSDP 2 itself runs on a CPU, over gloo
        PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    for to, different in all_of_them:
        last = train(model, to, different)
    last.accelerator.end_training()  # a process group that is left standing may abort the process


if __name__ == "__main__":
    train_all(sys.argv[1], json.loads(sys.argv[2]))
