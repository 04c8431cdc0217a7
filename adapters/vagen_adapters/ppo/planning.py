"""What a training run takes of each GPU's memory, before it starts: computed from the model's configuration alone.

Weights are counted on the meta device, in the very module that is trained. Activations are those of a forward and a
backward pass of the language model at two depths, on tensors without storage, and a straight line through them. The
vision tower's follow from its widths; a trained one is small beside the language model's for pictures of some hundred
tokens. `docs/training.md` says how far all this was from what torch allocated.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.actor_critic import ActorCritic, critic_class
from vagen_adapters.ppo.anatomy import sight_of, without_head
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.generation import ROOM
from vagen_adapters.ppo.keeping import can_keep
from vagen_adapters.ppo.tensor_bytes import passes_of_language_model, storage_bytes

GIB = 2**30
BACKENDS = ("ddp", "zero2", "fsdp", "zero3")
"""Of the launch files, those that spread less first."""
LOGITS = 0.42
"""Float32 copies of the sampled positions' logits that live at once; see `scoring.PIECES` (measured)."""
SPARE = 0.05
"""Of a GPU: CUDA's context, NCCL's buffers and what the allocator can't join."""
PLAYING = ("kv_cache", "vllm (sleeps)")
"""Parts of a plan that an update doesn't need."""
NEVER = 1 << 60
"""Bytes of what can't start with the share of the GPU that it has."""


@dataclass(frozen=True)
class Machines:
    """`machines` with `gpus` each, of `memory` bytes."""

    machines: int
    gpus: int
    memory: int

    @classmethod
    def parse(cls, text: str) -> Machines:
        """`8x80GiB`, or `2x8x80GiB` for two machines.

        Raises:
            TrainingConfigError: it is neither.
        """
        found = re.fullmatch(r"(?:(?:(\d{1,6})x)?(\d{1,6})x)?(\d{1,9}(?:\.\d{1,9})?)(GiB|GB)", text.replace(" ", ""))
        if found is None or 0 in (int(found[1] or 1), int(found[2] or 1), float(found[3])):
            raise TrainingConfigError(f"--gpus {text!r} is not valid: say it as 8x80GiB, or 2x8x80GiB for two machines")
        unit = GIB if found[4] == "GiB" else 10**9
        return cls(int(found[1] or 1), int(found[2] or 1), int(float(found[3]) * unit))

    @property
    def world(self) -> int:
        return self.machines * self.gpus

    def __str__(self) -> str:
        machines = f"{self.machines}x" if self.machines > 1 else ""
        return f"{machines}{self.gpus}x{self.memory / GIB:.4g}GiB"


@dataclass(frozen=True)
class Plan:
    """Bytes of one GPU, and of one machine's memory while weights are read.

    Attributes:
        backend: how weights are spread; see `BACKENDS`.
        machines: what it is planned for.
        parts: by name; all live at once in an update, but for those in `PLAYING`.
        host: bytes of a machine's own memory while weights are read.
        measured: whether activations are; else they are reckoned from the widths of layers.
    """

    backend: str
    machines: Machines
    parts: Mapping[str, int]
    host: int
    measured: bool = True

    @property
    def peak(self) -> int:
        """The larger of generation and update."""
        transient = sum(self.parts.get(name, 0) for name in ("gradients", "gathered", "activations", "logits"))
        playing = sum(self.parts.get(name, 0) for name in PLAYING)
        return sum(self.parts.values()) - min(transient, playing)

    @property
    def fits(self) -> bool:
        return self.peak <= (1 - SPARE) * self.machines.memory

    def lines(self) -> Iterator[str]:
        """For people."""
        whole = self.machines.memory / GIB
        yield f"Memory of each GPU, {self.machines} with {self.backend}, in GiB:"
        for name, size in self.parts.items():
            if size:
                shown = "too small a share of the GPU" if size == NEVER else f"{size / GIB:8.2f}"
                yield f"  {name.replace('_', ' '):14}{shown}"
        verdict = "fits" if self.fits else "doesn't fit"
        if self.peak < NEVER:
            yield f"  {'peak':14}{self.peak / GIB:8.2f} of {whole:.4g}, {SPARE:.0%} of which are kept free: {verdict}"
        if not self.measured:
            yield "  (activations are reckoned from widths: this family's layers can't be run without storage)"
        yield f"Memory of each machine while weights are read: {self.host / GIB:.2f} GiB"


class Planner:
    """Makes plans of one model for settings that differ; what they share is computed once."""

    def __init__(self, config: Any, turns: int = 4) -> None:
        """`turns` of an episode, whose replies are what is sampled of a sequence."""
        self.config, self.turns = config, turns
        self._models = functools.lru_cache(maxsize=None)(self._on_meta)
        self._weights = functools.lru_cache(maxsize=None)(_weights_of)  # to list a model's takes as long as all else
        self._passes = functools.lru_cache(maxsize=None)(
            lambda **options: passes_of_language_model(self.config, **options)
        )

    def make(self, args: MultiTurnPPOConfig, machines: Machines, backend: str) -> Plan:
        """The plan of a run.

        Args:
            args: its settings.
            machines: where it runs.
            backend: one of `BACKENDS`; with one GPU there is nothing to spread.
        """
        model = self._models(args.critic_kind, json.dumps(args.lora), args.freeze_vision,
                             bool(args.kl_coef or args.kl_loss_coef), bool(args.bf16))  # fmt: skip
        world, mixed = machines.world, bool(args.bf16)
        zero, spread = backend.startswith("zero") and world > 1, backend in ("fsdp", "zero3") and world > 1
        # DeepSpeed computes in bfloat16 copies, and its optimiser has float32 shares of them.
        width = 2 if zero and mixed else None
        trained, of_policy, of_critic, of_reference = self._weights(model)
        parts = {
            "weights": storage_bytes(of_policy, width),
            "critic": storage_bytes(of_critic, width),
            "reference": storage_bytes(of_reference, width),
            "optimiser": _optimiser_bytes(args, trained, zero),
            "gradients": storage_bytes(trained, width),
        }
        shared_out = {"ddp": (), "zero2": ("optimiser", "gradients"), "fsdp": tuple(parts), "zero3": tuple(parts)}
        whole = storage_bytes(trained, 2 if mixed else None)
        for name in shared_out[backend]:
            parts[name] = math.ceil(parts[name] / world)
        if "gradients" in shared_out[backend] and world > 1 and args.gradient_sync == "last" and _in_parts(args, world):
            parts["gradients"] += whole  # till they are summed, with the last part
        if spread:
            parts["gathered"] = _gathered(model, 2 if mixed else 4)
        dtype = torch.bfloat16 if args.lora or _has_experts(self.config) else torch.float32
        recomputed = bool(args.gradient_checkpointing)
        passes = self._passes(length=args.max_length, mixed=mixed, recomputed=recomputed, dtype=dtype)
        rows = args.sequences_per_forward
        kept = passes.kept + _vision_activations(model, self.config, args)
        parts["activations"] = rows * ((2 if model.critic is not None else 1) * kept + passes.passing)
        text = self.config.get_text_config()
        said = rows * min(args.max_length, self.turns * args.max_tokens)
        parts["logits"] = int(LOGITS * 4 * said * text.vocab_size)
        if args.generation == "transformers":
            per_token = passes.kv_per_token * (1 if mixed or args.lora else 2)
            kept = args.num_envs if can_keep(model.policy.config) else 0
            at_a_time = max(args.max_length, min(ROOM, args.max_length * args.num_envs))
            parts["kv_cache"] = per_token * (at_a_time + args.max_length * kept)
        elif args.generation == "vllm":
            name = PLAYING[1] if args.vllm_options.get("enable_sleep_mode") else "vllm"
            parts[name] = int(_share_of_vllm(args) * machines.memory)
            least = 2 * sum(each.numel() for each in of_policy) + passes.kv_per_token * args.max_length
            if parts[name] < least:
                parts[name] = NEVER  # it would refuse to start
        if args.max_staleness and args.generation == "transformers":
            parts["copy that plays"] = storage_bytes(of_policy)
        if not spread:
            parts["sight"] = _sight_bytes(model, self.config, args, world) * (2 if "copy that plays" in parts else 1)
        return Plan(
            backend if world > 1 else "one GPU",
            machines,
            parts,
            _host_bytes(model, backend, machines, args),
            passes.measured,
        )

    def best(self, args: MultiTurnPPOConfig, machines: Machines) -> Plan:
        """The plan of the back-end that spreads least among those that fit; of the smallest peak if none does."""
        plans = [self.make(args, machines, backend) for backend in _possible(args, machines)]
        return next((plan for plan in plans if plan.fits), min(plans, key=lambda plan: plan.peak))

    def cheapest_change(
        self, args: MultiTurnPPOConfig, machines: Machines, remake: Callable[[Mapping[str, Any]], Any] | None = None
    ) -> str | None:
        """What makes a run fit and costs least, in words of the command; None if nothing does.

        Cheapest is what changes nothing that is learned, then what computes more, then what learns in another way.
        `remake` makes the settings anew with others over them, and raises TrainingConfigError where they don't go
        together: such a change isn't proposed.
        """
        harmless, telling = _changes(args, machines)
        for altered in _some_of(telling):
            for chosen in _some_of(harmless):
                changed = copy.copy(args)
                for name, setting in (pair for change in (*chosen, *altered) for pair in change.items()):
                    setattr(changed, name, setting)
                if (plan := self.best(changed, machines)).fits:
                    pairs = [pair for change in (*chosen, *altered) for pair in change.items()]
                    with contextlib.suppress(TrainingConfigError):
                        return self._in_words(pairs, plan, changed, machines, remake)
        return None

    @staticmethod
    def _in_words(
        pairs: Sequence[tuple[str, Any]], plan: Plan, changed: MultiTurnPPOConfig, machines: Machines,
        remake: Callable[[Mapping[str, Any]], Any] | None,
    ) -> str:  # fmt: skip
        if remake is not None:
            remake(dict(pairs))
        words = [f"-s '{name}={_said(entry)}'" for name, entry in pairs]
        if changed.generation == "vllm-server":
            words.append("and GPUs of its own for the server")
        return " ".join([*words, *([f"under {plan.backend}"] if machines.world > 1 else [])])

    def _on_meta(self, critic: Any, lora: str, freeze_vision: bool, reference: bool, mixed: bool) -> ActorCritic:
        """What is trained, without storage."""
        from transformers import AutoModelForImageTextToText

        dtype = (getattr(self.config, "dtype", None) or torch.bfloat16) if json.loads(lora) else torch.float32
        with torch.device("meta"):
            policy = AutoModelForImageTextToText.from_config(self.config, dtype=dtype)
            backbone = None
            if critic == "own":
                backbone = without_head(critic_class(self.config).from_config(self.config, dtype=dtype))
            model = ActorCritic(policy, backbone, values=critic != "none")
            if json.loads(lora):
                model.add_adapters(json.loads(lora))
            if freeze_vision:
                model.freeze_vision()
            if reference:
                model.add_reference(torch.bfloat16 if mixed else torch.float32)
        return model


def _weights_of(model: ActorCritic) -> tuple[list[nn.Parameter], ...]:
    """What is trained; the policy's, the critic's and the reference's."""
    parts = ((model.policy,), (model.critic, model.value_head), (model.reference,))
    trained = [each for each in model.parameters() if each.requires_grad]
    return trained, *([each for one in part if one is not None for each in one.parameters()] for part in parts)


def _possible(args: MultiTurnPPOConfig, machines: Machines) -> Sequence[str]:
    """Back-ends that these settings go with: transformers samples from weights that are whole."""
    if machines.world == 1:
        return ("ddp",)
    return BACKENDS[:2] if args.generation == "transformers" else BACKENDS


def _some_of(changes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], ...]]:
    """None, each alone, each two, and so on."""
    return itertools.chain.from_iterable(itertools.combinations(changes, many) for many in range(len(changes) + 1))


def _changes(args: MultiTurnPPOConfig, machines: Machines) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Settings that take less memory, cheapest first: of the same run on these GPUs; with more GPUs, or another run."""
    harmless: list[Mapping[str, Any]] = []
    if args.gradient_sync == "last" and machines.world > 1:
        harmless.append({"gradient_sync": "each"})
    if args.sequences_per_forward > 1:
        harmless.append({"sequences_per_forward": 1})
    if args.sight_memory > 0.1:
        harmless.append({"sight_memory": 0.1})
    if not args.gradient_checkpointing:
        harmless.append({"gradient_checkpointing": True})
    if args.generation == "transformers" and args.num_envs > 1:
        harmless.append({"num_envs": max(1, args.num_envs // 8)})
    if args.generation == "transformers" and machines.world > 1:
        harmless.append({"generation": "vllm"})
    if args.generation == "vllm" and not args.vllm_options.get("enable_sleep_mode"):
        harmless.append({"vllm_options": {**args.vllm_options, "enable_sleep_mode": True}})
    if args.generation != "vllm-server" and machines.world > 1:
        larger = [{**args.vllm_options, "gpu_memory_utilization": share} for share in (0.5, 0.8)]
        harmless += [{"generation": "vllm", "vllm_options": options} for options in larger]
    telling: list[Mapping[str, Any]] = []
    if args.generation != "vllm-server" and machines.world > 1:
        telling.append({"generation": "vllm-server"})
    if args.critic_kind == "own":
        telling.append({"shared_backbone": True})
    if not args.lora:
        telling.append({"lora": {"r": 32, "target_modules": "all-linear"}})
    return harmless, telling


def _in_parts(args: MultiTurnPPOConfig, world: int) -> bool:
    """Whether a process has more sequences of a mini-batch than go through the model at once."""
    turns = 1 if args.window is None else args.max_turns or 1
    rows = math.ceil(args.episodes_per_rollout / args.minibatches) * turns
    return math.ceil(rows / world) > args.sequences_per_forward


def _said(entry: Any) -> str:
    return entry if isinstance(entry, str) else json.dumps(entry)


def _share_of_vllm(args: MultiTurnPPOConfig) -> float:
    return float(args.vllm_options.get("gpu_memory_utilization", 0.3))


def _has_experts(config: Any) -> bool:
    named = vars(config.get_text_config()).items()
    return any(name.endswith("experts") and isinstance(each, int) and each > 1 for name, each in named)


def _optimiser_bytes(args: MultiTurnPPOConfig, trained: Sequence[nn.Parameter], zero: bool) -> int:
    """AdamW keeps two numbers in each weight's precision; DeepSpeed float32 weights and two float32 numbers beside."""
    name = str(getattr(args.optim, "value", args.optim))
    moments = 0.5 if "8bit" in name else 0 if name == "sgd" else 2
    elements = sum(each.numel() for each in trained)
    return int((4 + 4 * moments) * elements) if zero else int(moments * storage_bytes(trained))


def _gathered(model: ActorCritic, width: int) -> int:
    """What is whole at once where weights are spread: two layers, and all that stands outside of layers."""
    names = set(model._no_split_modules)
    layers = [each for each in model.modules() if type(each).__name__ in names]
    inside = {id(each) for layer in layers for each in layer.parameters()}
    outside = {id(each): each.numel() for each in model.parameters() if id(each) not in inside}
    largest = max((sum(each.numel() for each in layer.parameters()) for layer in layers), default=0)
    return width * (sum(outside.values()) + 2 * largest)


def _vision_activations(model: ActorCritic, config: Any, args: MultiTurnPPOConfig) -> int:
    """Of a trained tower: its input of each layer, for a sequence that is half pictures, four patches a token."""
    vision = getattr(config, "vision_config", None)
    if vision is None or not any(each.requires_grad for each in sight_of(model.policy)):
        return 0
    depth, width = (next((each for name in names if isinstance(each := getattr(vision, name, None), int)), other)
                    for names, other in ((("depth", "num_hidden_layers", "encoder_layers"), 24),
                                         (("hidden_size", "embed_dim", "d_model"), 1024)))  # fmt: skip
    patches = args.max_length // 2 * 4
    recomputed = 1 if args.gradient_checkpointing else 16
    return int(depth * recomputed * patches * width * 4)


def _sight_bytes(model: ActorCritic, config: Any, args: MultiTurnPPOConfig, world: int) -> int:
    """Of what a frozen tower said of all rollouts' pictures, half of each sequence; see `seeing`.

    The towers of policy, critic and reference count as equal, as they are when training begins from one folder.
    """
    if any(each.requires_grad for each in sight_of(model.policy)):
        return 0
    vision = getattr(config, "vision_config", None)
    layers = 1 + len(getattr(vision, "deepstack_visual_indexes", None) or ())
    tokens = args.rollouts * math.ceil(args.episodes_per_rollout / world) * args.max_length // 2
    said = layers * tokens * config.get_text_config().hidden_size * (2 if args.bf16 else 4)
    return int(min(said, args.sight_memory * GIB))


def _host_bytes(model: ActorCritic, backend: str, machines: Machines, args: MultiTurnPPOConfig) -> int:
    """Whole weights once: one process reads them for all (FSDP), or a file's pages are all processes' (ZeRO).

    DeepSpeed in float32 has each process read them; under DDP they go to the GPU one tensor at a time.
    """
    whole = storage_bytes(list(model.parameters()))
    if machines.world == 1 or backend == "ddp":
        return machines.gpus * max(each.numel() * each.element_size() for each in model.parameters())
    return whole if backend == "fsdp" or args.bf16 else machines.gpus * whole


def explained(
    config: Any,
    args: MultiTurnPPOConfig,
    machines: Machines,
    backend: str | None = None,
    remake: Callable[[Mapping[str, Any]], Any] | None = None,
) -> Plan:
    """The plan of a run that fits, with `backend` or with the one that spreads least.

    Raises:
        TrainingConfigError: it doesn't fit; with the numbers, and the cheapest change that does (`remake`: see there).
            Or the model can't be laid out.
    """
    planner = Planner(config)
    try:
        plan = planner.best(args, machines) if backend is None else planner.make(args, machines, backend)
    except TrainingConfigError:
        raise
    except Exception as error:  # transformers raises whatever it likes of a configuration that makes no model
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise TrainingConfigError(
            f"a model of type {getattr(config, 'model_type', '?')} can't be laid out by its config.json ({reason}); "
            "mend that, or name a vision-language model"
        ) from error
    if plan.fits:
        return plan
    change = planner.cheapest_change(args, machines, remake)
    mend = f"the cheapest change that fits: {change}" if change else "no setting makes it fit; take more GPUs"
    raise TrainingConfigError("\n".join([*plan.lines(), mend]))


def here(processes: int) -> Machines | None:
    """The GPUs that a run of so many processes has, or None where there are none."""
    if not torch.cuda.is_available():
        return None
    local = min(processes, torch.cuda.device_count())
    return Machines(max(1, processes // local), local, torch.cuda.get_device_properties(0).total_memory)
