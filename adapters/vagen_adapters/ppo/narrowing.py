"""A language model's last layer, where somebody reads what it says: half of a conversation is pictures and prompts.

All layers but the last must know every token, since later ones look back at it. What the last says of a token is read
by the language head or the critic, or by nobody, and is left out then. In the tiny model's three layers that is a
fifth of all arithmetic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from vagen_adapters.ppo.anatomy import decoder_of
from vagen_adapters.ppo.quick_layers import ROWS


@contextlib.contextmanager
def narrowed(model: Any, wanted: Tensor | None) -> Iterator[None]:
    """While this lasts a model's last layer is right where `wanted`, (B, L) bool, says so, and cheap elsewhere.

    Nothing happens where the layer isn't built of the parts that transformers names so, or is computed again for its
    gradients, when this will be over.
    """
    parts = [] if wanted is None else _parts(model)
    if wanted is not None and parts:
        places = _whole_rows(wanted).nonzero(as_tuple=True)
        for part in parts:
            part.forward = _at(places, part.forward)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for part in parts:
            del part.forward


def _whole_rows(wanted: Tensor) -> Tensor:
    """The same and a few places more, where there are some, or each product would fill its rows up by a copy."""
    more = (~wanted).flatten().nonzero()[: -int(wanted.sum()) % ROWS]
    return wanted.flatten().index_fill(0, more.squeeze(1), True).view_as(wanted)


def _parts(model: Any) -> list[nn.Module]:
    """What of the last layer treats each token by itself: what feeds forward, the queries, and attention's way out."""
    decoder = decoder_of(model)
    layers = getattr(decoder, "layers", None)
    if not layers or hasattr(layers[-1], "_checkpoint_wrapped_module"):
        return []
    if getattr(layers[-1], "gradient_checkpointing", getattr(decoder, "gradient_checkpointing", False)):
        return []
    attention = getattr(layers[-1], "self_attn", None)
    named = [getattr(layers[-1], "mlp", None), *(getattr(attention, name, None) for name in ("q_proj", "o_proj"))]
    return [each for each in named if isinstance(each, nn.Module)]


def _at(places: tuple[Tensor, ...], forward: Any) -> Any:
    def of_those(states: Tensor) -> Tensor:
        found = forward(states[places][None])
        return found.new_zeros(*states.shape[:-1], found.shape[-1]).index_put(places, found[0])

    return of_those
