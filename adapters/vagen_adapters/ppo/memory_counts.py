"""Bytes of a model's weights, activations and caches, counted from its configuration before its
weights are read.

Weights are counted on torch's meta device. Activations follow from the model's widths; the counts
of copies below are those that torch's profiler sees in a layer of transformers' decoders
(tests/adapters/test_ppo_plan.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.generation import ROOM
from vagen_adapters.ppo.kept_conversations import can_keep
from vagen_adapters.ppo.lora import with_adapters
from vagen_adapters.ppo.scoring import PIECES

VLLM_SHARE = 0.3
"""The share of a GPU that vLLM takes in the trainer's process unless `gpu_memory_utilization` says
otherwise.
"""
LOGIT_COPIES = 6.6
"""Copies of a piece's logits that live at once; see `scoring`."""
PICTURES = 0.5
"""Share of a sequence's tokens that is taken for pictures'."""


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
class Weights:
    """Bytes of weights by use; `trained` are counted, not bytes."""

    policy: float
    critic: float
    reference: float
    trained: int
    saved: float


def weights_of(config: Any, args: MultiTurnPPOConfig) -> Weights:
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
    return Weights(
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


def activations_of(config: Any, args: MultiTurnPPOConfig) -> tuple[float, float, float]:
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


def sampling_parts(config: Any, args: MultiTurnPPOConfig, gpus: int, memory: int) -> list[Part]:
    """What sampling takes."""
    if args.generation == "vllm-server":
        return []
    if args.generation == "vllm":
        share = args.vllm_options.get("gpu_memory_utilization", VLLM_SHARE) * memory
        sleeps = bool(args.vllm_options.get("enable_sleep_mode"))
        return [Part("vLLM's weights and key-value cache", share, 0.0 if sleeps else share)]
    text = config.get_text_config()
    size = 2 if args.bf16 else 4
    episodes = -(-args.episodes_per_rollout // gpus)
    at_once = min(ROOM, min(args.num_envs, episodes) * args.max_length)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    cache = at_once * text.num_hidden_layers * 2 * heads * width * size
    if can_keep(config) and args.context_policy.turns is None:
        cache *= 2  # conversations are kept beside the batch that is sampled
    # A prompt is read at once: a layer's states in float32 and the two halves of its inner product.
    read = at_once * (8 * text.hidden_size + 3 * size * _inner_width(text))
    return [Part("key-value cache", cache, 0.0), Part("prompts being read", read, 0.0)]
