"""Loading weights, how they are sharded over processes, and when gradients are reduced."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingConfigError, in_short
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.introspection import base_of
from vagen_adapters.ppo.lora import with_adapters


def sharding_of(accelerator: Any, *, fsdp: bool) -> str:
    """`ddp` (also for one process), `fsdp`, `zero2` or `zero3`."""
    plugin = getattr(accelerator.state, "deepspeed_plugin", None)
    if fsdp:
        return "fsdp"
    return "ddp" if plugin is None else f"zero{min(max(plugin.zero_stage, 2), 3)}"


def check_fsdp(accelerator: Any, sharding: str) -> None:
    """Raise TrainingConfigError for FSDP's first version."""
    if sharding == "fsdp" and not accelerator.is_fsdp2:
        raise TrainingConfigError(
            "FSDP 1 clips gradients of shards as if they were whole; set fsdp_version: 2"
        )


def with_reduction(accelerator: Any, model: Any, parts: Sequence[Any]) -> Iterator[Any]:
    """Yield the parts of an update; gradients are reduced with the last one.

    Where gradients are sharded (FSDP 2, ZeRO) they are reduced with each part, so that no process
    holds whole ones.
    """
    sharded = accelerator.num_processes > 1 and str(accelerator.distributed_type.value) in (
        "FSDP",
        "DEEPSPEED",
    )
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        accelerator.gradient_state._set_sync_gradients(last)
        with contextlib.nullcontext() if last or sharded else accelerator.no_sync(model):
            yield part


def load_actor_critic(cls: type[ActorCritic], model: str, args: MultiTurnPPOConfig) -> ActorCritic:
    """Read policy, critic and reference as the settings ask for them."""
    # An update of 1e-6 of a weight is lost in bfloat16, so weights are float32, and autocast
    # computes in bfloat16. DeepSpeed keeps float32 copies of its own, and adapters are small beside
    # the frozen weights.
    deepspeed = getattr(args, "deepspeed_plugin", None) is not None
    as_stored = deepspeed and args.bf16
    options: dict[str, Any] = {"dtype": "auto" if args.lora or as_stored else torch.float32}
    if not deepspeed and os.environ.get("ACCELERATE_USE_FSDP") != "true":
        # From the file, whose pages a machine's processes share, to the GPU, one tensor after the
        # other. Weights that will be sharded may not fit on one GPU.
        options["device_map"] = str(args.device)
    if args.attn_implementation is not None:
        options["attn_implementation"] = args.attn_implementation
    with whole_weights(args):
        with attention_faults(args.attn_implementation):
            loaded = cls.from_pretrained(model, critic=args.critic_kind, **options)
        if args.lora:
            loaded.policy = with_adapters(loaded.policy, args.lora, args.seed)
            loaded.critic = loaded.critic and with_adapters(loaded.critic, args.lora, args.seed + 1)
        if args.freeze_vision:
            loaded.freeze_vision()
        if args.kl_coef or args.kl_loss_coef:
            arithmetic = torch.bfloat16 if args.bf16 else torch.float32
            loaded.add_reference(
                arithmetic, model if as_stored and base_of(model) is None else None
            )
    return loaded


@contextlib.contextmanager
def attention_faults(attn_implementation: str | None) -> Iterator[None]:
    """Say of an attention that is missing or unknown which setting asked for it."""
    try:
        yield
    except (ImportError, ValueError) as error:
        if attn_implementation is None or "attention" not in str(error).lower():
            raise
        raise TrainingConfigError(
            f"attn_implementation={attn_implementation!r} can't be used: {in_short(error)}; "
            "leave it out, or install what it needs, such as `pip install flash-attn` on a "
            "machine with a GPU for flash_attention_2"
        ) from error


@contextlib.contextmanager
def whole_weights(args: MultiTurnPPOConfig) -> Iterator[None]:
    """Read whole models in each process, and let DeepSpeed shard them later.

    Under ZeRO 3 transformers would shard them while it reads, whatever `zero3_init_flag` says, and
    the copy that becomes the reference would be empty.
    """
    plugin = getattr(args, "deepspeed_plugin", None)
    if plugin is None:
        yield
        return
    from transformers.integrations.deepspeed import (
        set_hf_deepspeed_config,
        unset_hf_deepspeed_config,
    )

    unset_hf_deepspeed_config()
    yield
    set_hf_deepspeed_config(plugin.dschf)


def own_parts(accelerator: Any, rows: Tensor, size: int) -> Iterator[tuple[Tensor, bool]]:
    """This process's share of `rows`, up to `size` at a time.

    Yields rows and whether they are its own. Every process gets equally many parts, because sharded
    weights are gathered by all at once; a process without rows gets the first row and False.
    """
    world = accelerator.num_processes
    mine = rows[accelerator.process_index :: world]
    most = math.ceil(len(rows) / world)
    for start in range(0, most, size):
        part = mine[start : start + size]
        if len(part):
            yield part, True
        else:
            yield rows[:1], False
