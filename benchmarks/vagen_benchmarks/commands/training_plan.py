"""The plan of `vagen train`: what a training takes of each GPU and of the disk, as a table."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from rich.table import Table

from vagen_adapters.errors import TrainingConfigError
from vagen_benchmarks.commands.printing import err, out

if TYPE_CHECKING:
    from vagen_adapters.ppo.plan import Machine, Plan

SPREAD_BY_FSDP = "ACCELERATE_USE_FSDP"
"""The variable by which `accelerate launch` asks for FSDP."""


def machine_of(gibibytes: float | None, gpus: int, sharding: str) -> Machine:
    """The machine that a plan is made for: as given, else the GPUs of this process's group, or the
    host's memory.
    """
    import torch

    from vagen_adapters.ppo.plan import GIB, Machine

    if gibibytes is not None:
        if not math.isfinite(gibibytes):
            raise TrainingConfigError(f"--gpu-memory {gibibytes} is no size; give GiB, such as 80")
        return Machine(gpus, round(gibibytes * GIB), sharding)
    if torch.cuda.is_available():
        return Machine(gpus, torch.cuda.get_device_properties(0).total_memory, sharding)
    if gpus > 1:
        raise TrainingConfigError(
            "--gpus counts GPUs that aren't here; add --gpu-memory, such as 80"
        )
    return Machine(1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), sharding)


def print_plan(model: str, config: Any, machine: Machine, *, on_gpu: bool) -> None:
    """Print the plan of a training.

    Raises:
        TrainingConfigError: weights that are spread so can't be trained with these settings, or it
            doesn't fit; a change that helps is named.
    """
    from vagen_adapters.ppo.plan import make_plan
    from vagen_adapters.ppo.start_checks import check_sharding

    check_sharding(machine.sharding, config)
    plan = make_plan(model, config, machine, on_gpu=on_gpu)
    _print(plan)
    if not plan.fits:
        raise TrainingConfigError(_advice(model, config, plan))


def check_plan(model: str, config: Any) -> None:
    """Print the plan of a training that is about to begin.

    Raises:
        TrainingConfigError: what surely is held at once doesn't fit.
    """
    from vagen_adapters.ppo.plan import make_plan
    from vagen_adapters.ppo.start_checks import check_sharding

    plugin = getattr(config, "deepspeed_plugin", None)
    sharding = f"zero{min(max(plugin.zero_stage, 2), 3)}" if plugin is not None else "ddp"
    if os.environ.get(SPREAD_BY_FSDP) == "true":
        sharding = "fsdp"
    if config.use_cpu:
        machine = machine_of(None, 1, "ddp")
    else:
        machine = machine_of(None, config.world_size, sharding)
    check_sharding(sharding, config)
    plan = make_plan(model, config, machine, on_gpu=not config.use_cpu)
    _print(plan)
    if plan.certain > plan.machine.memory:
        raise TrainingConfigError(_advice(model, config, plan))
    if not plan.fits:
        err.print(f"this may not fit: {_advice(model, config, plan)}", soft_wrap=True)


def _print(plan: Plan) -> None:
    first, *rows = plan.rows()
    table = Table(*first, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _advice(model: str, config: Any, plan: Plan) -> str:
    from vagen_adapters.ppo.plan import GIB, cheapest_change

    need = plan.peak / GIB
    have = plan.machine.memory / GIB
    change = cheapest_change(model, config, plan.machine)
    fix = f"add {change}" if change else "take more or larger GPUs, or a smaller model"
    return f"the training takes {need:.1f} GiB of each GPU, and one has {have:.1f}; {fix}"
