"""Keys and values in buffers that have room for a whole reply.

transformers' cache copies all that was read for every token that is added: half the time of the tiny model's play.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """One layer.

    Args:
        room: tokens that it may come to hold.
        buffers: keys and values, (B, room, heads, features), of which some are there; None for an empty layer.
        read: how many.
    """

    def __init__(self, room: int, buffers: Sequence[Tensor] | None = None, read: int = 0) -> None:
        super().__init__()
        self._room = room
        if buffers is not None:
            self._hold(buffers, read)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write what is new behind the rest, and return all."""
        states = (key_states, value_states)
        begin = self.get_seq_length()
        if not self.is_initialized:
            shapes = [(each.shape[0], self._room, each.shape[1], each.shape[3]) for each in states]
            self._hold([each.new_empty(shape) for each, shape in zip(states, shapes, strict=True)], 0)
        end = begin + key_states.shape[2]
        for buffer, new in zip(self._buffers, states, strict=True):
            buffer[:, begin:end] = new.transpose(1, 2)
        self._hold(self._buffers, end)
        return self.keys, self.values

    def keep_rows(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        self._hold([each[rows] for each in self._buffers], self.get_seq_length())

    def _hold(self, buffers: Sequence[Tensor], read: int) -> None:
        self._buffers = buffers
        self.keys, self.values = (each[:, :read].transpose(1, 2) for each in buffers)
        self.dtype, self.device = self.keys.dtype, self.keys.device
        self.is_initialized = True


def joined(rows: Sequence[Sequence[tuple[Tensor, Tensor]]], lengths: Sequence[int], room: int) -> Cache:
    """A cache of conversations that were read before, padded on the left.

    Args:
        rows: of each the layers, keys and values (tokens, heads, features); none where nothing was read.
        lengths: how many tokens of each were read.
        room: tokens that each may come to hold, with its padding.
    """
    longest = max(lengths)
    some = next((row for row in rows if row), None)
    if some is None:
        return Cache(layer_class_to_replicate=functools.partial(RoomyLayer, room))
    layers = []
    for number, pair in enumerate(some):
        buffers = [like.new_zeros(len(rows), room, *like.shape[1:]) for like in pair]
        for place, row in enumerate(rows):
            for buffer, own in zip(buffers, row[number] if row else (), strict=bool(row)):
                buffer[place, longest - len(own) : longest] = own
        layers.append(RoomyLayer(room, buffers, longest))
    return Cache(layers)
