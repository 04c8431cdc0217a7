"""What a model is given of pictures, as its family's own processor makes it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Container, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo.family_tokens import TOKEN_TYPES
from vagen_adapters.ppo.features import RecentlyUsed, joined_features
from vagen_adapters.ppo.processors import Family
from vagen_adapters.ppo.shown import Shown
from vagen_envs.pictures import Picture

PIXELS = ("pixel_values", "pixel_attention_mask")
"""What the model is given of a picture's contents; all else follows from its shape."""
RECENT = 2**28
"""Bytes of processed pictures that are kept for the next turn or micro-batch."""


class PictureFeatures:
    """Pictures as a family's processor gives them to its model.

    Args:
        family: the family.
        image_token: the placeholder of a picture in texts.
        accepted: the arguments of the model's forward pass.
    """

    def __init__(self, family: Family, image_token: str, accepted: frozenset[str]) -> None:
        self.family = family
        self.image_token = image_token
        self.accepted = accepted
        self.layout_of = functools.lru_cache(maxsize=256)(self._look_at_shape)
        self._held: weakref.WeakValueDictionary[str, Picture] = weakref.WeakValueDictionary()
        self._recent: RecentlyUsed[dict[str, Tensor]] = RecentlyUsed(RECENT)

    def hold(self, image: Picture | NDArray[np.uint8]) -> Picture:
        """The picture as PNG, the same object wherever it is in use. Threads may call it."""
        picture = image if isinstance(image, Picture) else Picture(image.copy())
        held = self._held.get(picture.sha256)
        if held is None:
            held = self._held.setdefault(picture.sha256, picture.encoded())
        return held

    def look(self, picture: NDArray[np.uint8]) -> tuple[dict[str, Tensor], str]:
        """What the model is given of a picture, and what the processor writes in its place."""
        processor = self.family.processor
        made = processor(
            text=[self.image_token],
            images=[Image.fromarray(picture)],
            add_special_tokens=False,
            return_tensors="pt",
        )
        wanted = self.accepted - {"input_ids", "attention_mask", *TOKEN_TYPES}
        features = {name: torch.as_tensor(made[name]) for name in made if name in wanted}
        placeholder = processor.tokenizer.decode(made["input_ids"][0], skip_special_tokens=False)
        return features, placeholder

    def features_of(
        self, shown: Sequence[Shown], wanted: Container[str] | None = None
    ) -> dict[str, Tensor]:
        """What the model is given of these observations' pictures, or those of it by name that are
        wanted.
        """
        return joined_features([self._features(one) for one in shown], wanted)

    def _features(self, shown: Shown) -> dict[str, Tensor]:
        if not shown.pictures:
            return {}
        found = self._recent.get(shown.number)
        if found is None:
            (picture,) = shown.pictures
            found, placeholder = self.look(picture.pixels)
            _, expected = self.layout_of(picture.shape)
            if placeholder != expected:
                raise TrainingDataError(
                    f"the processor of {self.family.name} lays out two pictures of "
                    f"{picture.shape} in different tokens; resize pictures before, or use the "
                    "family's own picture settings"
                )
            self._recent.put(shown.number, found, sum(tensor.nbytes for tensor in found.values()))
        return found

    def _look_at_shape(self, shape: tuple[int, ...]) -> tuple[dict[str, Tensor], str]:
        """As `look` at a picture of this shape, without pixels."""
        features, placeholder = self.look(np.zeros(shape, np.uint8))
        sizes = {name: tensor for name, tensor in features.items() if name not in PIXELS}
        return sizes, placeholder
