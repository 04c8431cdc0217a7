"""Keys and values of conversations, kept from turn to turn, and the cache that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from vagen_adapters.ppo.generation import (
    Prompt,
)
from vagen_adapters.ppo.shown import Shown


@dataclass(frozen=True, eq=False)
class Kept:
    """What a model has read of a conversation.

    Attributes:
        ids: the tokens.
        shown: the observations among them.
        layers: of each layer keys and values, (heads, tokens, features).
        places: (tokens + 1,) the position of each token, and that of the next one.
    """

    ids: tuple[int, ...]
    shown: tuple[Shown, ...]
    layers: Sequence[tuple[Tensor, Tensor]]
    places: Tensor

    def shared_with(self, prompt: Prompt) -> Kept:
        """The part that the prompt begins with; one token of the prompt at least stays to be
        read.
        """
        read = len(self.ids)
        if read < len(prompt.ids) and prompt.ids[:read] == self.ids:
            return self  # most often, and a loop over all tokens would take longer with each turn
        same = 0
        for own, other in zip(self.ids, prompt.ids[:-1], strict=False):
            if own != other:
                break
            same += 1
        layers = [(keys[:, :same], values[:, :same]) for keys, values in self.layers]
        return Kept(self.ids[:same], self.shown, layers, self.places[: same + 1])


NOTHING = Kept((), (), (), torch.zeros(1, dtype=torch.long))


class RoomyLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
    """A layer of a cache in buffers with room for more: transformers' own copies all that was read
    for every token that is added.
    """

    def __init__(self, buffers: Sequence[Tensor], read: int) -> None:
        super().__init__()
        self.dtype = buffers[0].dtype
        self.device = buffers[0].device
        self.is_initialized = True
        self._hold(buffers, read)

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write what is new behind the rest, and return all."""
        begin = self.get_seq_length()
        end = begin + key_states.shape[2]
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, begin:end] = new
        self._hold(self._buffers, end)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Go on with these rows alone."""
        self._hold([buffer[indices] for buffer in self._buffers], self.get_seq_length())

    def _hold(self, buffers: Sequence[Tensor], read: int) -> None:
        self._buffers = buffers
        self.keys, self.values = (buffer[:, :, :read] for buffer in buffers)


def joined_cache(rows: Sequence[Kept], more: int) -> Any:
    """A cache of conversations, padded on the left, with room for more tokens."""
    longest = max(len(row.ids) for row in rows)
    some = next((row for row in rows if row.ids), None)
    if some is None:
        return DynamicCache()
    layers = []
    for number, pair in enumerate(some.layers):
        buffers: list[Tensor] = []
        for like in pair:
            heads, _, features = like.shape
            buffers.append(like.new_zeros((len(rows), heads, longest + more, features)))
        for place, row in enumerate(rows):
            if not row.ids:
                continue
            for buffer, own in zip(buffers, row.layers[number], strict=False):
                buffer[place, :, longest - own.shape[1] : longest] = own
        layers.append(RoomyLayer(buffers, longest))
    return Cache(layers)


def layers_of_row(cache: Any, row: int, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Of each layer the keys and values of a row, where its mask is not 0."""
    places = mask.nonzero()[:, 0]
    return [  # three times as fast on a CPU as an index in brackets
        (layer.keys[row].index_select(1, places), layer.values[row].index_select(1, places))
        for layer in cache.layers
    ]
