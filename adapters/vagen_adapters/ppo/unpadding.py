"""Sequences end to end in one row, each with its own positions and blind to the others: no padding.

In the manner of transformers: a row without an attention mask whose position ids begin anew. From these it derives a
mask of blocks (eager, SDPA, flex attention) or the lengths that variable-length attention takes (flash attention).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vagen_adapters.ppo.codec import TOKEN_TYPES
from vagen_adapters.ppo.keeping import places_by, rope_index_of


def in_one_row(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of B sequences, padded on either side, as those of one row of all their N tokens.

    Families that tell the places of tokens in pictures get them as (4, 1, N), the token's number before its place in
    time, height and width; others as (1, N).
    """
    mask = inputs["attention_mask"].bool()
    numbers = inputs["attention_mask"].cumsum(1) - 1
    own = rope_index_of(model)
    places = numbers[mask][None]
    if own is not None:
        places = torch.cat([numbers[None], places_by(own, inputs)])[:, mask][:, None]
    along = {name: inputs[name][mask][None] for name in ("input_ids", *TOKEN_TYPES) if name in inputs}
    rest = {name: each for name, each in inputs.items() if name != "attention_mask"}
    return {**rest, **along, "position_ids": places}


def in_rows(states: Tensor, mask: Tensor) -> Tensor:
    """(1, N, H) → (B, L, H), 0 where `mask`, (B, L), has no token."""
    mask = mask.bool()
    return states.new_zeros(*mask.shape, states.shape[-1]).index_put(mask.nonzero(as_tuple=True), states[0])
