"""Packing: the sequences of a batch as one row without padding, and back.

Each sequence has its own positions and doesn't attend to the others. As transformers expects it,
the row has no attention mask, and position ids that start again at each sequence. From these
transformers derives a block mask (eager, SDPA, flex attention) or the lengths that variable-length
attention takes (flash attention).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vagen_adapters.ppo.family_tokens import TOKEN_TYPES
from vagen_adapters.ppo.introspection import backbone_of


def in_one_row(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of B sequences, padded on either side, as one row of their N tokens.

    Models with multimodal rotary positions get position ids of shape (4, 1, N): the token's number,
    then its place in time, height and width. Others get (1, N).
    """
    mask = inputs["attention_mask"].bool()
    rope_index = getattr(backbone_of(model), "get_rope_index", None)
    if rope_index is None:
        positions = (mask.cumsum(1) - 1)[mask][None]
    else:
        # Numbers run on through padding on the right: where they start again, models see another
        # sequence.
        padding_before = (~mask).long().cumprod(1).sum(1, keepdim=True)
        numbers = torch.arange(mask.shape[1], device=mask.device) - padding_before
        parameters = inspect.signature(rope_index).parameters
        taken = {name: tensor for name, tensor in inputs.items() if name in parameters}
        places = rope_index(**taken)[0]
        positions = torch.cat([numbers[None], places])[:, mask][:, None]
    along: dict[str, Any] = {}
    for name in ("input_ids", *TOKEN_TYPES):
        if name in inputs:
            along[name] = inputs[name][mask][None]
    rest = {name: tensor for name, tensor in inputs.items() if name != "attention_mask"}
    return {**rest, **along, "position_ids": positions}


def in_rows(states: Tensor, mask: Tensor) -> Tensor:
    """(1, N, H) → (B, L, H), 0 where `mask`, (B, L), has no token."""
    mask = mask.bool()
    return states.new_zeros(*mask.shape, states.shape[-1]).index_put(
        mask.nonzero(as_tuple=True), states[0]
    )
