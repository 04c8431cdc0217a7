"""What a training takes of each GPU and of the disk, counted from a model's configuration before
its weights are read.

Weights are counted on torch's meta device. Activations follow from the model's widths; the counts
of copies below are those that torch's profiler sees in a layer of transformers' decoders
(tests/adapters/test_ppo_plan.py).
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.actor_critic import ActorCritic, with_adapters
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.generation import ROOM
from vagen_adapters.ppo.introspection import base_of
from vagen_adapters.ppo.scoring import PIECES

GIB = 2**30
SHARDINGS = ("ddp", "zero2", "fsdp", "zero3")
RESERVE = 2 * GIB
"""Of a GPU: CUDA's context, the work space of its libraries, and what its allocator can't use."""
VLLM_SHARE = 0.3
"""Of a GPU that vLLM takes in the trainer's process unless `gpu_memory_utilization` says
otherwise.
"""
LOGIT_COPIES = 6.6
"""Copies of a piece's logits that live at once; see `scoring`."""
PICTURES = 0.5
"""Share of a sequence's tokens that is taken for pictures'."""
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
class Part:
    """Bytes of one GPU that something takes, while episodes are played and while updates are made.

    `certain` ones are counted, the others estimated.
    """

    name: str
    rollout: float
    update: float
    certain: bool = False


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


@dataclass(frozen=True)
class _Weights:
    """Bytes of weights by use; `trained` are counted, not bytes."""

    policy: float
    critic: float
    reference: float
    trained: int
    saved: float


def make_plan(
    model: str, args: MultiTurnPPOConfig, machine: Machine, *, on_gpu: bool = True
) -> Plan:
    """What a training of the model (a folder or a name; its configuration is enough) takes with
    these settings.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(base_of(model) or model)
    weights = _weights(config, args)
    text = config.get_text_config()
    spread = machine.gpus if machine.sharding in ("fsdp", "zero3") else 1
    states = machine.gpus if machine.sharding != "ddp" else 1
    moments = 2 if args.optim in EIGHT_BITS else 8
    gradients = 4 * weights.trained / states
    # With one process gradients are freed before the next rollout; DDP's buckets stay.
    kept = gradients if machine.gpus > 1 else 0.0
    of_layers, of_logits, of_vision = _activations(config, args)
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
        *_generation(config, args, machine),
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
    """A copy of settings of which only a plan is made: derived ones, such as devices, stay as they
    are.
    """
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


def _weights(config: Any, args: MultiTurnPPOConfig) -> _Weights:
    """Weights are read and trained in float32, with adapters they are frozen as they are stored."""
    from transformers import AutoModel, AutoModelForImageTextToText

    stored = torch.finfo(getattr(config, "dtype", None) or torch.float32).bits // 8
    with torch.device("meta"):
        policy = AutoModelForImageTextToText.from_config(config)
        critic = AutoModel.from_config(config) if args.critic_kind == "own" else None
        if args.lora:
            policy = with_adapters(policy, args.lora, args.seed)
            critic = critic and with_adapters(critic, args.lora, args.seed + 1)
        both = ActorCritic(policy, critic, values=args.critic_kind != "none")
    if args.freeze_vision:
        both.freeze_vision()
    trained = sum(each.numel() for each in both.parameters() if each.requires_grad)
    bytes_of = _bytes(stored if args.lora else 4)
    held = bool(args.kl_coef or args.kl_loss_coef) and not args.lora
    saved = 4.0 * trained if args.lora else bytes_of(both)
    return _Weights(
        policy=bytes_of(policy),
        critic=bytes_of(critic) if critic is not None else 0.0,
        reference=_reference(policy, half=bool(args.bf16)) if held else 0.0,
        trained=trained,
        saved=saved,
    )


def _bytes(of_frozen: int) -> Any:
    """Bytes of a module's weights, those of adapters in float32."""

    def of(module: nn.Module) -> float:
        return float(
            sum(
                each.numel() * (4 if "lora_" in name else of_frozen)
                for name, each in module.named_parameters()
            )
        )

    return of


def _reference(policy: nn.Module, *, half: bool) -> float:
    """The reference, whose matrices are held as autocast rounds them; norms and embeddings are used
    whole.
    """
    whole = {id(each.weight) for each in policy.modules() if isinstance(each, nn.Embedding)}
    return float(
        sum(
            each.numel() * (2 if half and each.dim() > 1 and id(each) not in whole else 4)
            for each in policy.parameters()
        )
    )


def _activations(config: Any, args: MultiTurnPPOConfig) -> tuple[float, float, float]:
    """Bytes that a micro-batch of the longest sequences holds: of language models, logits and
    vision towers.
    """
    text = config.get_text_config()
    tokens = args.per_device_train_batch_size * args.max_length
    models = 2 if args.critic_kind == "own" else 1
    recomputes = bool(getattr(args, "activation_checkpointing", args.gradient_checkpointing))
    size = 2 if args.bf16 else 4
    layer = _layer_bytes(text, size)
    if recomputes:
        # Each layer's input is held in float32; one layer at a time is computed again, with its
        # gradients.
        held = models * text.num_hidden_layers * 4 * text.hidden_size + 1.5 * layer
    else:
        held = models * text.num_hidden_layers * layer
    logits = LOGIT_COPIES * 4 * tokens / PIECES * text.vocab_size
    # The language head as autocast rounds it, and its gradient.
    logits += text.vocab_size * text.hidden_size * (size + 4)
    return tokens * held, logits, 0.0 if args.freeze_vision else models * _vision(config, tokens)


def _layer_bytes(text: Any, size: int) -> float:
    """Bytes that a decoder layer holds of each token for its gradients: norms in float32, products
    as computed.
    """
    hidden = text.hidden_size
    heads = text.num_attention_heads
    attended = heads * (getattr(text, "head_dim", None) or hidden // heads)
    inner = _inner_width(text)
    return 16 * hidden + size * (3 * hidden + 5 * attended + 4 * inner)


def _inner_width(text: Any) -> int:
    """The width between a layer's feed-forward matrices, of all experts that a token visits."""
    if experts := getattr(text, "num_experts_per_tok", None):
        return int(experts * text.moe_intermediate_size)
    return int(text.intermediate_size)


def _vision(config: Any, tokens: int) -> float:
    """Bytes of a vision tower's layer inputs: a token stands for the square of `spatial_merge_size`
    patches.
    """
    vision = getattr(config, "vision_config", None)
    if vision is None or not hasattr(vision, "hidden_size"):
        return 0.0
    layers: int = getattr(vision, "depth", 0) or getattr(vision, "num_hidden_layers", 0)
    patches = PICTURES * tokens * getattr(vision, "spatial_merge_size", 1) ** 2
    return patches * layers * 4 * vision.hidden_size


def _generation(config: Any, args: MultiTurnPPOConfig, machine: Machine) -> list[Part]:
    """What sampling takes."""
    if args.generation == "vllm-server":
        return []
    if args.generation == "vllm":
        share = args.vllm_options.get("gpu_memory_utilization", VLLM_SHARE) * machine.memory
        sleeps = bool(args.vllm_options.get("enable_sleep_mode"))
        return [Part("vLLM's weights and key-value cache", share, 0.0 if sleeps else share)]
    text = config.get_text_config()
    size = 2 if args.bf16 else 4
    episodes = -(-args.episodes_per_rollout // machine.gpus)
    at_once = min(ROOM, min(args.num_envs, episodes) * args.max_length)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    cache = at_once * text.num_hidden_layers * 2 * heads * width * size
    # A prompt is read at once: a layer's states in float32 and the two halves of its inner product.
    read = at_once * (8 * text.hidden_size + 3 * size * _inner_width(text))
    return [Part("key-value cache", cache, 0.0), Part("prompts being read", read, 0.0)]
