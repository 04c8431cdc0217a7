"""Bytes of tensors, with storage or without: what lives, and what lived at most."""

from __future__ import annotations

import copy
import logging
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vagen_adapters.ppo.anatomy import decoder_of

_DEPTHS = (1, 3)


def storage_bytes(tensors: Sequence[Tensor], width: int | None = None) -> int:
    """Bytes of tensors, those that are one (tied weights) counted once; `width` bytes an element if given."""
    distinct = {id(each): each for each in tensors}.values()
    return sum(each.numel() * (width or each.element_size()) for each in distinct)


class LiveBytes(TorchDispatchMode):
    """Counts the storages that operations make, while they live.

    Args:
        but: tensors that were there before, such as weights, which views of them would bring in.

    Attributes:
        now: bytes that live.
        highest: the most that lived at once.
    """

    def __init__(self, but: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.now = self.highest = 0
        self._known: dict[int, Any] = {each.untyped_storage()._cdata: None for each in but}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        for each in tree_leaves(found):
            if isinstance(each, Tensor):
                self._count(each.untyped_storage())
        return found

    def _count(self, storage: Any) -> None:
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self.now += size
        self.highest = max(self.highest, self.now)
        self._known[key] = weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self.now -= size
        self._known.pop(key, None)


@dataclass(frozen=True)
class Passes:
    """Bytes of an update's passes through a language model.

    Attributes:
        kept: from the forward to the backward pass.
        passing: the most that lives beside, while it goes backward.
        kv_per_token: keys and values of a token in two bytes each, all layers.
        measured: whether by running layers without storage; else reckoned from their widths, as some can't be run so.
    """

    kept: int
    passing: int
    kv_per_token: int
    measured: bool = True


def passes_of_language_model(
    config: Any, *, length: int, mixed: bool, recomputed: bool, dtype: torch.dtype = torch.float32
) -> Passes:
    """Forward and backward through the language model's layers for one sequence, without storage.

    Two shallow models are measured; what a layer adds is the same for every layer.

    Args:
        config: of the whole model, of transformers.
        length: tokens of the sequence.
        mixed: whether autocast computes in bfloat16.
        recomputed: whether layers compute their activations again (gradient checkpointing).
        dtype: of the weights. Adapters read what the weights that they are beside read, so that they keep as much.
    """
    text = config.get_text_config()
    depth, measured = text.num_hidden_layers, True
    try:
        shallow, deeper = (_measured(config, each, length, mixed, recomputed, dtype) for each in _DEPTHS)
        layer = (deeper[0] - shallow[0]) / (_DEPTHS[1] - _DEPTHS[0])
        kept, passing = int(shallow[0] + layer * (depth - _DEPTHS[0])), deeper[1] - deeper[0]
    except Exception:  # layers raise whatever they like without storage
        layer = _of_widths(text, length, 2 if mixed or dtype != torch.float32 else 4)
        entry = text.hidden_size * length * dtype.itemsize
        kept, passing, measured = (entry if recomputed else layer) * depth, layer, False
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * depth
    remembering = sum("attention" in kind and "linear" not in kind for kind in kinds)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return Passes(kept, passing, remembering * 2 * heads * width * 2, measured)


def _of_widths(text: Any, length: int, width: int) -> int:
    """Bytes that a layer keeps of a sequence, for the gradients of norms, projections and attention."""
    inner = _largest(getattr(text, "intermediate_size", None)) or 4 * text.hidden_size
    chosen = _largest(
        [getattr(text, name, 0) for name in ("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts")]
    )
    inner = max(inner, chosen * (_largest(getattr(text, "moe_intermediate_size", None)) or inner))
    return int(length * (width * (8 * text.hidden_size + 4 * inner) + 2 * 4 * text.hidden_size))


def _largest(setting: Any) -> int:
    """Of a number, one for each layer, or none."""
    return max((each or 0 for each in setting), default=0) if isinstance(setting, list | tuple) else setting or 0


def _measured(
    config: Any, depth: int, length: int, mixed: bool, recomputed: bool, dtype: torch.dtype
) -> tuple[int, int]:
    """Bytes that live after the forward pass, and the most that do at once."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from transformers import AutoModelForImageTextToText
    from transformers.initialization import no_init_weights

    config = copy.deepcopy(config)
    text = config.get_text_config()
    layers, text.num_hidden_layers = text.num_hidden_layers, depth
    for name, each in vars(text).items():
        if isinstance(each, list) and len(each) == layers:
            setattr(text, name, [each[place % layers] for place in range(depth)])
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # what can't be run is reckoned
    with FakeTensorMode(allow_non_fake_inputs=True), no_init_weights():
        policy = AutoModelForImageTextToText.from_config(config, dtype=dtype).train()
        if recomputed:
            policy.activation_checkpointing_enable()
        for parameter in policy.parameters():
            parameter.register_post_accumulate_grad_hook(_forget_gradient)
        words = torch.zeros(1, length, text.hidden_size, dtype=policy.dtype, requires_grad=True)
        with LiveBytes(but=[*policy.parameters(), *policy.buffers()]) as live:
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed, cache_enabled=False):
                hidden = decoder_of(policy)(inputs_embeds=words, use_cache=False).last_hidden_state
            kept = live.now
            hidden.backward(torch.zeros_like(hidden))
        return kept, live.highest


def _forget_gradient(parameter: Tensor) -> None:
    parameter.grad = None
