"""How weights are sharded over processes, which settings go with it, and when gradients are reduced."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.config import MultiTurnPPOConfig

T = TypeVar("T")


def sharding_of(accelerator: Any, *, fsdp: bool) -> str:
    """`ddp` (also for one process), `fsdp`, `zero2` or `zero3`."""
    plugin = getattr(accelerator.state, "deepspeed_plugin", None)
    if fsdp:
        return "fsdp"
    return "ddp" if plugin is None else f"zero{min(max(plugin.zero_stage, 2), 3)}"


def check_sharding(accelerator: Any, sharding: str, generation: str) -> None:
    """Raise TrainingConfigError for what can't be trained or sampled from."""
    if sharding == "fsdp" and not accelerator.is_fsdp2:
        raise TrainingConfigError("FSDP 1 clips gradients of shards as if they were whole; set fsdp_version: 2")
    if sharding in ("fsdp", "zero3") and generation == "transformers":
        raise TrainingConfigError(
            "generation='transformers' samples from weights that are whole in each process, and here they are "
            "sharded; set generation to vllm or vllm-server, or use DDP or ZeRO 2"
        )


def with_reduction(accelerator: Any, model: Any, parts: Sequence[T]) -> Iterator[T]:
    """Yield the parts of an update; gradients are reduced with the last one.

    Where gradients are sharded (FSDP 2, ZeRO) they are reduced with each part, so that no process holds whole ones.
    """
    sharded = accelerator.num_processes > 1 and str(accelerator.distributed_type.value) in ("FSDP", "DEEPSPEED")
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        accelerator.gradient_state._set_sync_gradients(last)
        with contextlib.nullcontext() if last or sharded else accelerator.no_sync(model):
            yield part


def load_options(args: MultiTurnPPOConfig) -> dict[str, Any]:
    """Keywords for `from_pretrained` that put weights where they will be trained.

    Weights go from the file, whose pages a machine's processes share, to the GPU, one tensor after the other. Where
    they will be sharded they may not fit on one GPU, and FSDP or DeepSpeed distributes them later.
    """
    sharded = getattr(args, "deepspeed_plugin", None) is not None or os.environ.get("ACCELERATE_USE_FSDP") == "true"
    return {} if sharded else {"device_map": str(args.device)}


@contextlib.contextmanager
def whole_weights(args: MultiTurnPPOConfig) -> Iterator[None]:
    """Read whole models in each process, and let DeepSpeed shard them later.

    Under ZeRO 3 transformers would shard them while it reads, whatever `zero3_init_flag` says, and the copy that
    becomes the reference would be empty.
    """
    plugin = getattr(args, "deepspeed_plugin", None)
    if plugin is None:
        yield
        return
    from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config

    unset_hf_deepspeed_config()
    yield
    set_hf_deepspeed_config(plugin.dschf)
