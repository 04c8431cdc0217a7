"""What models are given of pictures: joined over a batch, and kept for a while within a number of
bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Kept = TypeVar("Kept")


class RecentlyUsed(Generic[Kept]):
    """Keeps the most recently used entries, up to `most` bytes; `held` is their present size."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self._lock = threading.Lock()  # an asynchronous rollout reads beside updates
        self._kept: dict[Hashable, tuple[Kept, int]] = {}

    def get(self, key: Hashable) -> Kept | None:
        """The entry of this key; None if it isn't kept."""
        with self._lock:
            if (found := self._kept.pop(key, None)) is None:
                return None
            self._kept[key] = found
            return found[0]

    def put(self, key: Hashable, entry: Kept, size: int) -> None:
        """Keep an entry of `size` bytes in the place of those that were not used for longest."""
        with self._lock:
            _, size_before = self._kept.pop(key, (None, 0))
            self._kept[key] = (entry, size)
            self.held += size - size_before
            while self.held > self.most:
                oldest = next(iter(self._kept))
                _, freed = self._kept.pop(oldest)
                self.held -= freed

    def clear(self) -> None:
        """Keep nothing."""
        self._kept.clear()
        self.held = 0


def end_to_end(features: Sequence[Tensor]) -> Tensor:
    """One feature of many pictures, along the first axis; where their sizes differ along others,
    zeros fill up.

    Families that take pictures of many sizes say beside them how large each is, or leave out what
    is all zeros.
    """
    if len({feature.shape[1:] for feature in features}) == 1:
        return torch.cat(list(features))
    # Here, for the parity kit also runs where TRL can't be installed.
    from trl.trainer.utils import pad

    return pad([row for feature in features for row in feature])


def joined_features(
    features: Sequence[Mapping[str, Tensor]], wanted: Container[str] | None = None
) -> dict[str, Tensor]:
    """The features of many observations end to end, or those of them that are wanted; some have no
    pictures.
    """
    seen = [entries for entries in features if entries]
    names = [name for name in (seen[0] if seen else ()) if wanted is None or name in wanted]
    joined = {}
    for name in names:
        joined[name] = end_to_end([entries[name] for entries in seen])
    return joined


def as_taken_by(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with features in the type of a model's weights: not all families see to that."""
    dtype = model.dtype
    return {
        name: entry.to(dtype) if isinstance(entry, Tensor) and entry.is_floating_point() else entry
        for name, entry in inputs.items()
    }
