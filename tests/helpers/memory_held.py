"""What a process of a training run holds: weights, gradients before an optimiser's step, what the optimiser keeps after."""

import json
import os
import sys
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from ppo_training import Says, likes_short_words
from transformers import TrainerCallback

from vagen_adapters.ppo import tiny
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

RUN = {
    "env_id": "vagen/FrozenLake-v0", "num_envs": 4, "rollouts": 1, "episodes_per_rollout": 4, "minibatches": 1,
    "env_options": {"strategy": "no_think", "max_turns": 2, "prompt_pack": tiny.PROMPTS}, "max_tokens": 4,
    "save_strategy": "no", "report_to": "none", "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
    "disable_tqdm": True,
}  # fmt: skip


def held(tensors):
    """Bytes of storages, each once; of a tensor that is spread over processes, those of this one's share."""
    local = [getattr(each, "_local_tensor", each) for each in tensors if isinstance(each, torch.Tensor)]
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in local}.values())


def weights(parameters):
    """Bytes of weights. DeepSpeed's are views of long tensors, in stage 3 of a process's share, and are counted as views."""
    shares = [getattr(each, "ds_tensor", each) for each in parameters]
    if "ACCELERATE_USE_DEEPSPEED" not in os.environ:
        return held(shares)
    return sum({each.data_ptr(): each.nbytes for each in shares}.values())


class Measure(TrainerCallback):
    def __init__(self):
        self.found = {}

    def on_step_begin(self, args, state, control, optimizer=None, **_):
        """DeepSpeed's backward pass takes the optimiser's step, too, and lets go of the gradients there."""
        zero = getattr(optimizer, "optimizer", None)
        if "ACCELERATE_USE_DEEPSPEED" not in os.environ or "step" in vars(zero):
            return
        step = zero.step

        def measured(*words, **options):
            self.found["gradients"] = held([each for group in zero.averaged_gradients.values() for each in group])
            return step(*words, **options)

        zero.step = measured

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        if "gradients" not in self.found:
            self.found["gradients"] = held([each.grad for each in model.parameters() if each.grad is not None])

    def on_optimizer_step(self, args, state, control, model=None, optimizer=None, **_):
        module = getattr(model, "module", model)
        self.found["policy"] = weights(module.policy.parameters())
        self.found["critic"] = weights([*module.critic.parameters(), *module.value_head.parameters()])
        self.found["reference"] = weights(module.reference.parameters())
        kept, inner = [], getattr(optimizer, "optimizer", optimizer)
        if "ACCELERATE_USE_DEEPSPEED" in os.environ:  # its own shares of the weights in float32 are the optimiser's
            of_stage_3 = hasattr(inner, "fp32_partitioned_groups_flat")
            kept = [*(inner.fp32_partitioned_groups_flat if of_stage_3 else inner.single_partition_of_fp32_groups)]
            inner = inner.optimizer
        kept += [tensor for entry in inner.state.values() for tensor in entry.values() if getattr(tensor, "ndim", 0)]
        self.found["optimiser"] = held(kept)


def measure(model, out, changes):
    """Train in small, and leave what was held in the folder's `measured.json`."""
    if "ACCELERATE_USE_FSDP" in os.environ:  # as in `ppo_training.train_all`
        PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    watch = Measure()
    args = MultiTurnPPOConfig(out, **changes)
    trainer = MultiTurnPPOTrainer(model, args, make_sampler=Says, callbacks=[watch], score=likes_short_words)
    trainer.train()
    if trainer.accelerator.is_main_process:
        Path(out, "measured.json").write_text(json.dumps(watch.found))
    trainer.accelerator.end_training()  # a process group that is left standing may abort the process


if __name__ == "__main__":
    measure(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
