"""An observation as a model reads it: tokens, and encoded pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from vagen_envs import State
from vagen_envs.pictures import Picture


@dataclass(frozen=True, eq=False)
class Shown:
    """An observation as tokens and encoded pictures.

    Attributes:
        first_ids: with the system prompt before it, as the beginning of a conversation.
        next_ids: as the continuation of one, beginning with the token that closes the reply before
            it.
        image_tokens: how many of its tokens stand for parts of pictures.
        pictures: at most one, held as PNG and shared by all observations that show it.
        sizes: what the model's forward pass takes of pictures beside their pixels, by name.
        state: what is true of it, for critics that are told; `None` where nobody knows.
        opens: how many of the last tokens open the thoughts before the reply.
    """

    first_ids: tuple[int, ...]
    next_ids: tuple[int, ...]
    image_tokens: int
    pictures: tuple[Picture, ...]
    sizes: Mapping[str, Tensor]
    state: State | None = None
    opens: int = 0

    @property
    def number(self) -> int:
        """60 bits of the picture's content hash; 0 without a picture."""
        return int(self.pictures[0].sha256[:15], 16) if self.pictures else 0
