"""What a training takes of each GPU and of the disk, and the cheapest change that makes it fit."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vagen_adapters.errors import TrainingConfigError, errors_as
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.introspection import base_of
from vagen_adapters.ppo.memory_counts import Part, activations_of, sampling_parts, weights_of

GIB = 2**30
SHARDINGS = ("ddp", "zero2", "fsdp", "zero3")
RESERVE = 2 * GIB
"""Bytes of a GPU that aren't planned: CUDA's context, the work space of its libraries, and what its
allocator can't use.
"""
EIGHT_BITS = ("adamw_bnb_8bit", "paged_adamw_8bit", "adamw_torch_8bit")
"""Optimisers whose two moments take a byte each."""

SAME_RESULT: Mapping[str, Mapping[str, Any]] = {
    "-s gradient_checkpointing=true": {"gradient_checkpointing": True},
    "-s per_device_train_batch_size=1": {"per_device_train_batch_size": 1},
    "-s num_envs=8": {"num_envs": 8},
}
"""What makes a training smaller and only slower, by what one writes."""
SHARDED = (
    "FSDP (ppo/launch/8-fsdp.yaml) with -s generation=vllm "
    "-s 'vllm_options={\"enable_sleep_mode\": true}'"
)
OTHER_RESULT: Mapping[str, Mapping[str, Any]] = {
    "-s optim=adamw_bnb_8bit": {"optim": "adamw_bnb_8bit"},
    "-s shared_backbone=true": {"shared_backbone": True},
    '-s \'lora={"r": 32, "target_modules": "all-linear"}\'': {
        "lora": {"r": 32, "target_modules": "all-linear"}
    },
}
"""What also changes what is learned, the least first."""


@dataclass(frozen=True)
class Machine:
    """GPUs that are alike: how many, the bytes of each, and how weights are spread over them
    (`SHARDINGS`).
    """

    gpus: int
    memory: int
    sharding: str = "ddp"

    def __post_init__(self) -> None:
        if self.sharding not in SHARDINGS:
            raise TrainingConfigError(
                f"sharding {self.sharding!r} is not valid: it must be one of {', '.join(SHARDINGS)}"
            )


@dataclass(frozen=True)
class Plan:
    """The parts of a GPU's memory, and bytes of the disk."""

    machine: Machine
    parts: Sequence[Part]
    checkpoint: float
    checkpoints: int
    model: float

    @property
    def peak(self) -> float:
        """Bytes of a GPU at the fuller of the two times."""
        return max(self._sum("rollout"), self._sum("update"))

    @property
    def fits(self) -> bool:
        """Whether a GPU holds it all."""
        return self.peak <= self.machine.memory

    @property
    def certain(self) -> float:
        """Bytes of a GPU that updates take whatever their sequences are."""
        return math.fsum(part.update for part in self.parts if part.certain)

    @property
    def disk(self) -> float:
        """Bytes of all checkpoints, of one that is written before the oldest goes, of the best and
        the last model.
        """
        return (self.checkpoints + 1) * self.checkpoint + 2 * self.model

    def _sum(self, at: str) -> float:
        return math.fsum(getattr(part, at) for part in self.parts)

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """The lines of a table: what, while playing, while updating."""
        yield "GiB of each GPU", "rollout", "update"
        for part in self.parts:
            if part.rollout or part.update:
                yield part.name, _gib(part.rollout), _gib(part.update)
        yield "sum", _gib(self._sum("rollout")), _gib(self._sum("update"))
        yield "there are", _gib(self.machine.memory), _gib(self.machine.memory)
        yield "disk: a checkpoint", "", _gib(self.checkpoint)
        yield f"disk: all, {self.checkpoints} checkpoints kept", "", _gib(self.disk)


def make_plan(
    model: str, args: MultiTurnPPOConfig, machine: Machine, *, on_gpu: bool = True
) -> Plan:
    """What a training of the model (a folder or a name; its configuration is enough) takes with
    these settings.

    Raises:
        TrainingConfigError: there is no such configuration, or no model can be built of it.
    """
    from transformers import AutoConfig

    with errors_as(
        TrainingConfigError,
        f"the configuration of {model} can't be read",
        "give the folder of a model of transformers, or a name that the hub knows",
    ):
        config = AutoConfig.from_pretrained(base_of(model) or model)
    with errors_as(
        TrainingConfigError,
        f"{model} can't be built",
        "give the folder or name of a vision-language model",
    ):
        weights = weights_of(config, args)
    text = config.get_text_config()
    spread = machine.gpus if machine.sharding in ("fsdp", "zero3") else 1
    states = machine.gpus if machine.sharding != "ddp" else 1
    moments = 2 if args.optim in EIGHT_BITS else 8
    gradients = 4 * weights.trained / states
    # With one process gradients are freed before the next rollout; DDP's buckets stay.
    kept = gradients if machine.gpus > 1 else 0.0
    of_layers, of_logits, of_vision = activations_of(config, args)
    gathered = 0.0
    if spread > 1:
        gathered = 2 * (weights.policy + weights.critic) / max(text.num_hidden_layers, 1)
    parts = [
        _always("weights of the policy", weights.policy / spread),
        _always("weights of the critic", weights.critic / spread),
        _always("weights of the reference", weights.reference / spread),
        _always("optimiser's moments", moments * weights.trained / states),
        Part("gradients", kept, gradients, certain=True),
        _always("layers gathered from other GPUs", gathered),
        Part("activations of the language models", 0.0, of_layers),
        Part("activations of the vision towers", 0.0, of_vision),
        Part("logits", 0.0, of_logits),
        *sampling_parts(config, args, machine.gpus, machine.memory),
        _always("reserve", RESERVE if on_gpu else 0.0),
    ]
    steps = args.rollouts * args.steps_per_rollout
    made = 0 if str(args.save_strategy).endswith("no") else max(1, steps // int(args.save_steps))
    limit = args.save_total_limit or made
    saved = weights.saved + moments * weights.trained
    return Plan(machine, parts, saved if made else 0.0, min(made, limit), weights.saved)


def cheapest_change(model: str, args: MultiTurnPPOConfig, machine: Machine) -> str | None:
    """What makes a training fit that doesn't: one change, weights spread over GPUs, else ever more
    changes.
    """

    def fits(changes: Mapping[str, Any], on: Machine = machine) -> bool:
        try:
            return make_plan(model, _changed(args, changes), on).fits
        except TrainingConfigError:  # such as a critic to share where there is none
            return False

    for name, change in SAME_RESULT.items():
        if fits(change):
            return name
    if machine.gpus > 1 and machine.sharding != "fsdp":
        spread = dataclasses.replace(machine, sharding="fsdp")
        if fits({"generation": "vllm", "vllm_options": {"enable_sleep_mode": True}}, spread):
            return SHARDED
    for name, change in OTHER_RESULT.items():
        if fits(change):
            return name
    names: list[str] = []
    together: dict[str, Any] = {}
    for name, change in {**SAME_RESULT, **OTHER_RESULT}.items():
        names.append(name)
        together |= change
        if fits(together):
            return " ".join(names)
    return None


def _changed(args: MultiTurnPPOConfig, changes: Mapping[str, Any]) -> MultiTurnPPOConfig:
    """A copy of the settings for a plan alone: derived ones, such as devices, stay as they are."""
    changed = copy.copy(args)
    for name, value in changes.items():
        setattr(changed, name, value)
    if "gradient_checkpointing" in changes:
        changed.activation_checkpointing = True
    return changed


def _always(name: str, size: float) -> Part:
    return Part(name, size, size, certain=True)


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}" if size >= GIB or not size else f"{size / GIB:.3f}"
