"""Content-addressed cache of the features of frozen vision towers.

A picture is read in play, by each model that scores, and in every pass of updates. A frozen tower
gives the same features each time.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.features import RecentlyUsed, as_taken_by, joined_features
from vagen_adapters.ppo.introspection import backbone_of, vision_parameters
from vagen_adapters.ppo.shown import Shown

NUMBERS = "picture_numbers"
"""The model input that holds pictures' numbers in place of their pixels."""
GIVEN = "mm_encoder_outputs"
"""The argument by which models of transformers take their tower's output."""
DEEPSTACK = "deepstack_features"
PARTS = ("pooler_output", DEEPSTACK)
"""The parts of a tower's output that language models read."""


class VisionFeatureCache:
    """Keeps the features of the most recently used pictures, up to `most` bytes on the models'
    device.

    Models with equal towers share features. `looks` counts the pictures that towers have encoded.
    """

    def __init__(self, models: Sequence[Any], encoder: ChatEncoder, most: int) -> None:
        self.encoder = encoder
        self.looks = 0
        self.kept: RecentlyUsed[dict[str, Any]] = RecentlyUsed(most)
        self._pictures: weakref.WeakValueDictionary[int, Shown] = weakref.WeakValueDictionary()
        self._towers: list[Any] = []
        self._tower_of: dict[int, int] = {}
        for model in models:
            same = (
                number for number, other in enumerate(self._towers) if _same_tower(model, other)
            )
            self._tower_of[id(model)] = number = next(same, len(self._towers))
            if number == len(self._towers):
                self._towers.append(model)

    def inputs(self, shown: Sequence[Shown]) -> dict[str, Tensor]:
        """As `PictureFeatures.features_of`, with the pictures' numbers in place of their pixels."""
        with_pictures = [one for one in shown if one.pictures]
        if not with_pictures:
            return {}
        self._pictures.update({one.number: one for one in with_pictures})
        numbers = torch.tensor([one.number for one in with_pictures])
        return {NUMBERS: numbers, **joined_features([one.sizes for one in with_pictures])}

    def given(self, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a model's forward pass, with the tower's features in place of picture
        numbers.
        """
        inputs = dict(inputs)
        numbers = inputs.pop(NUMBERS, None)
        if numbers is None:
            return inputs
        features = self._features(self._tower_of[id(model)], numbers.tolist())
        kind = features[0]["kind"]
        names = [name for name in PARTS if name in features[0]]
        joined = {}
        for name in names:
            joined[name] = _joined(name, [entry[name] for entry in features])
        inputs[GIVEN] = {"image": kind(**joined)}
        return inputs

    def _features(self, tower: int, numbers: Sequence[int]) -> list[dict[str, Any]]:
        found = {
            number: entry
            for number in numbers
            if (entry := self.kept.get((tower, number))) is not None
        }
        missing = [number for number in dict.fromkeys(numbers) if number not in found]
        for number in missing:
            found[number] = entry = self._encode(self._towers[tower], self._pictures[number])
            size = sum(leaf.nbytes for leaf in tree_leaves(entry) if isinstance(leaf, Tensor))
            self.kept.put((tower, number), entry, size)
        return [found[number] for number in numbers]

    @torch.no_grad()
    def _encode(self, model: Any, shown: Shown) -> dict[str, Any]:
        """The tower's output for an observation's picture."""
        self.looks += 1
        backbone = backbone_of(model)
        was_training = backbone.training
        backbone.eval()  # dropout would make features differ
        taken = inspect.signature(backbone.get_image_features).parameters
        features = {
            name: entry.to(backbone.device)
            for name, entry in self.encoder.pictures.features_of([shown], taken).items()
        }
        output = backbone.get_image_features(**as_taken_by(backbone, features), return_dict=True)
        backbone.train(was_training)
        return {
            "kind": type(output),
            **{name: part for name in PARTS if (part := output.get(name)) is not None},
        }


def _same_tower(one: Any, other: Any) -> bool:
    pairs = zip(vision_parameters(one), vision_parameters(other), strict=True)
    return all(mine is its or torch.equal(mine, its.to(mine.dtype)) for mine, its in pairs)


def _joined(name: str, parts: Sequence[Any]) -> Any:
    """A part of the outputs for many pictures: a tensor whose rows are tokens, tiles or pictures,
    or a list by picture.

    Of deepstack features there is one of these for each layer.
    """
    if name == DEEPSTACK:
        return [_joined("", layer) for layer in zip(*parts, strict=True)]
    if isinstance(parts[0], Tensor):
        return torch.cat(list(parts))
    return tuple(entry for part in parts for entry in part)
