"""Attention of one new token to all that was read, on a CPU: all heads of a row in one product.

torch makes two products for each head of each row, of a few thousand numbers each, which costs more than to read them.
Here a row's query is laid out with zeros where other heads are, so that one product gives the scores of all heads: four
times the arithmetic of four heads, and for 96 rows of 60 to 130 tokens three quarters of the time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import causal_mask_function, sdpa_mask

from vagen_adapters.ppo.quick_layers import are_plain

NAME = "sdpa_by_row"
WIDEST = 256
"""Features of all heads up to which zeros cost less than many products."""
FEWEST = 2**19
"""Numbers of keys from which it pays: fewer lie in a core's own cache, where torch's products are as quick."""


@contextlib.contextmanager
def by_row(model: Any) -> Iterator[None]:
    """While this lasts a model whose language model attends by torch's own attention does so by rows, where it pays.

    And nothing is noted down for gradients: what comes of it can't be learned from.
    """
    text = model.config.get_text_config(decoder=True)
    if text._attn_implementation != "sdpa" or model.device.type != "cpu":
        yield
        return
    text._attn_implementation = NAME
    try:
        with torch.inference_mode():  # a thirtieth of a step
            yield
    finally:
        text._attn_implementation = "sdpa"


def attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **how: Any
) -> tuple[Tensor, None]:
    """(B, heads, 1, features) of queries, and keys and values (B, heads, tokens, features) → (B, 1, heads, features).

    As transformers' other attention functions, one of which does the work where this one wouldn't pay.
    """
    _, heads, new, features = query.shape
    if new != 1 or key.shape[1] != heads or heads * features > WIDEST or key.numel() < FEWEST or _is_special(
        query, key, value, attention_mask, **how
    ):  # fmt: skip
        found: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **how)
        return found
    keys, values = (each.transpose(1, 2).flatten(2) for each in (key, value))  # no copies of a `RoomyLayer`'s
    apart = (query * torch.eye(heads, dtype=query.dtype)[:, :, None]).flatten(2)
    scores = torch.bmm(keys, apart.transpose(1, 2)).transpose(1, 2) * (how.get("scaling") or features**-0.5)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask[:, 0], -torch.inf)
    mixed = torch.bmm(scores.softmax(-1), values).unflatten(2, (heads, features))
    return mixed.diagonal(dim1=1, dim2=2).transpose(1, 2)[:, None], None


def mask_of(
    batch_size: int, q_length: int, kv_length: int, attention_mask: Tensor | None = None,
    mask_function: Any = causal_mask_function, **how: Any,
) -> Tensor | None:  # fmt: skip
    """(B, tokens) → (B, 1, 1, tokens) bool for a new token, which is causal anyway; else transformers' own."""
    plain = q_length == 1 and mask_function is causal_mask_function
    if plain and attention_mask is not None and attention_mask.shape == (batch_size, kv_length):
        return attention_mask[:, None, None].bool()
    found: Tensor | None = sdpa_mask(
        batch_size=batch_size, q_length=q_length, kv_length=kv_length, attention_mask=attention_mask,
        mask_function=mask_function, **how,
    )  # fmt: skip
    return found


def _is_special(
    query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, dropout: float = 0.0,
    position_bias: Tensor | None = None, softcap: float | None = None, s_aux: Tensor | None = None, **_: Any,
) -> bool:  # fmt: skip
    """Whether something is asked for that isn't done here."""
    masks = attention_mask is not None and (attention_mask.dtype != torch.bool or attention_mask.shape[1] != 1)
    asked = any(each is not None for each in (position_bias, softcap, s_aux))
    return masks or asked or bool(dropout) or value.shape != key.shape or not are_plain(query, key, value)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, mask_of)
