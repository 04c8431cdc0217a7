"""What is checked before weights are read, by a training and by its plan alike."""

from __future__ import annotations

import copy

import torch
from transformers import Trainer, get_scheduler

from vagen_adapters.errors import TrainingConfigError, errors_as
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.inherited_settings import word_of
from vagen_adapters.ppo.introspection import base_of


def check_start(
    model: str, args: MultiTurnPPOConfig, *, has_score: bool, elsewhere: bool = False
) -> None:
    """Raise TrainingConfigError if this model can't be trained with these settings, as far as they
    tell.

    A training `elsewhere` may find libraries there that are missing here.
    """
    if args.reasoning_credit == "span" and not has_score:
        raise TrainingConfigError(
            "reasoning_credit='span' credits sentences by a reward for reasoning, and none "
            "is given; pass one as score (see reasoning.ReasoningScore), take a recipe "
            "that has one, or set 'turn'"
        )
    if args.binary_reward and has_score:
        raise TrainingConfigError(
            "binary_reward=True pays nothing beside the solution, and a further reward is given, "
            "which would be asked and dropped; leave one out (a recipe's by "
            "--without-reasoning-reward)"
        )
    if args.lora and base_of(model) is not None:
        raise TrainingConfigError(
            f"{model} holds adapters already (lora), and new ones would be of the model without "
            f"them; merge them first: vagen merge {model} --out FOLDER"
        )
    _check_schedule(args)
    _check_optimizer(args, elsewhere=elsewhere)


def _check_optimizer(args: MultiTurnPPOConfig, *, elsewhere: bool) -> None:
    optim = word_of(args.optim)
    with errors_as(
        TrainingConfigError,
        f"optim={optim} can't be used",
        "install what it needs, or leave it out",
    ):
        try:
            made = Trainer.get_optimizer_cls_and_kwargs(args)
        except ImportError:
            if elsewhere:
                return
            raise
        without = copy.copy(args)
        without.optim_args = None
        is_read = Trainer.get_optimizer_cls_and_kwargs(without) != made
    if args.optim_args and not is_read:
        raise TrainingConfigError(
            f"optim_args={args.optim_args!r} is not valid: transformers gives optim={optim} none; "
            "leave it out"
        )


def _check_schedule(args: MultiTurnPPOConfig) -> None:
    schedule = word_of(args.lr_scheduler_type)
    with errors_as(
        TrainingConfigError,
        f"lr_scheduler_type={schedule} can't be used with "
        f"lr_scheduler_kwargs={args.lr_scheduler_kwargs!r}",
        "set what it needs in lr_scheduler_kwargs",
    ):
        get_scheduler(
            schedule,
            optimizer=torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0),
            num_warmup_steps=args.get_warmup_steps(args.max_steps),
            num_training_steps=args.max_steps,
            scheduler_specific_kwargs=args.lr_scheduler_kwargs or {},
        )


def check_sharding(sharding: str, args: MultiTurnPPOConfig, *, own_sampler: bool = False) -> None:
    """Raise TrainingConfigError for what weights that are spread so can't do.

    `own_sampler` says that replies come from another back-end than `args.generation` names.
    """
    spread = sharding in ("fsdp", "zero3")
    if spread and args.generation == "transformers" and not own_sampler:
        raise TrainingConfigError(
            "generation='transformers' samples from weights that are whole in each process, and "
            f"here they are sharded ({sharding}); set generation to vllm or vllm-server, or use "
            "DDP or ZeRO 2"
        )
    if args.log_gradient_norms and sharding != "ddp":
        raise TrainingConfigError(
            "log_gradient_norms=True is not valid: it must be False under FSDP and DeepSpeed, "
            "which hold no whole gradients"
        )
