"""What models read of a batch of sequences: all of them end to end in one row, or in rows without a mask.

One row has no padding; each sequence in it has its own positions and is blind to the others. That is in the manner of
transformers: a row without an attention mask whose position ids begin anew. From these it derives a mask of blocks
(eager, SDPA, flex attention) or the lengths that variable-length attention takes (flash attention).

Rows that are padded on the right need no mask: a decoder's tokens look back only, and what padding says isn't read.
Attention that knows it is causal takes half the time of one that is given a mask.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vagen_adapters.ppo.codec import TOKEN_TYPES
from vagen_adapters.ppo.generation import Prompt
from vagen_adapters.ppo.keeping import places_by, rope_index_of

PLACES = "position_ids"


def placed(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of B sequences with the places of their tokens, so that several models find them once.

    (4, B, L) for families that tell the places of tokens in pictures: the token's number, then its place in time,
    height and width. Others have none.
    """
    own = rope_index_of(model)
    if own is None or PLACES in inputs:
        return dict(inputs)
    mask = inputs["attention_mask"]
    # Numbers go on through the padding on the right: where they begin anew, models take it for another sequence.
    numbers = torch.arange(mask.shape[1], device=mask.device) - (1 - mask).cumprod(1).sum(1, keepdim=True)
    return {**inputs, PLACES: torch.cat([numbers[None], places_by(own, inputs)])}


class Places:
    """`placed` for a trainer, which reads the same sequences in several passes: their places are found once.

    Args:
        model: whose places they are.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._known: weakref.WeakKeyDictionary[Prompt, Tensor] = weakref.WeakKeyDictionary()

    def given(self, prompts: Sequence[Prompt], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of these sequences, padded on the right, with their places."""
        known = [each for prompt in prompts if (each := self._known.get(prompt)) is not None]
        if len(known) < len(prompts):
            found = placed(self.model, inputs)
            if PLACES in found:
                for row, prompt in enumerate(prompts):
                    self._known[prompt] = found[PLACES][:, row, : len(prompt.ids)]
            return found
        rows, width = inputs["input_ids"].shape
        places = torch.arange(width, device=known[0].device).repeat(len(known[0]), rows, 1)
        for row, own in enumerate(known):
            places[:, row, : own.shape[1]] = own
        return {**inputs, PLACES: places}


def unmasked(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of B sequences without their mask, unless they are padded on the left."""
    if not bool(inputs["attention_mask"][:, 0].all()):
        return dict(inputs)
    return {name: each for name, each in placed(model, inputs).items() if name != "attention_mask"}


def in_one_row(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of B sequences, padded on either side, as those of one row of all their N tokens.

    Families that tell the places of tokens in pictures get them as (4, 1, N), see `placed`; others as (1, N).
    """
    mask = inputs["attention_mask"].bool()
    inputs = placed(model, inputs)
    places = inputs[PLACES][:, mask][:, None] if PLACES in inputs else (mask.cumsum(1) - 1)[mask][None]
    along = {name: inputs[name][mask][None] for name in ("input_ids", *TOKEN_TYPES) if name in inputs}
    rest = {name: each for name, each in inputs.items() if name != "attention_mask"}
    return {**rest, **along, PLACES: places}


def in_rows(states: Tensor, mask: Tensor) -> Tensor:
    """(1, N, H) → (B, L, H), 0 where `mask`, (B, L), has no token."""
    mask = mask.bool()
    return states.new_zeros(*mask.shape, states.shape[-1]).index_put(mask.nonzero(as_tuple=True), states[0])
