"""Content-addressed cache of the features of frozen vision towers.

A picture is read in play, by each model that scores, and in every pass of updates. A frozen tower gives the same
features each time.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from vagen_adapters.ppo.chat_encoder import ChatEncoder, Shown
from vagen_adapters.ppo.features import RecentlyUsed, as_taken_by, joined_features
from vagen_adapters.ppo.introspection import backbone_of, vision_parameters

NUMBERS = "picture_numbers"
"""The model input that holds pictures' numbers in place of their pixels."""
GIVEN = "mm_encoder_outputs"
"""The argument by which models of transformers take their tower's output."""
PARTS = ("pooler_output", "deepstack_features")
"""The parts of a tower's output that language models read."""


class VisionFeatureCache:
    """Keeps the features of the most recently used pictures, up to a number of bytes.

    Args:
        models: that read pictures; models with equal towers share features.
        encoder: of the models.
        most: bytes, on the models' device.

    Attributes:
        looks: pictures that towers have encoded.
        kept: features by tower and picture.
    """

    def __init__(self, models: Sequence[Any], encoder: ChatEncoder, most: int) -> None:
        self.encoder = encoder
        self.looks = 0
        self.kept: RecentlyUsed[dict[str, Any]] = RecentlyUsed(most)
        self._pictures: weakref.WeakValueDictionary[int, Shown] = weakref.WeakValueDictionary()
        self._towers: list[Any] = []
        self._tower_of: dict[int, int] = {}
        for model in models:
            same = (number for number, other in enumerate(self._towers) if _same_tower(model, other))
            self._tower_of[id(model)] = number = next(same, len(self._towers))
            if number == len(self._towers):
                self._towers.append(model)

    def inputs(self, shown: Sequence[Shown]) -> dict[str, Tensor]:
        """As `ChatEncoder.features_of`, with the pictures' numbers in place of their pixels."""
        with_pictures = [one for one in shown if one.pictures]
        if not with_pictures:
            return {}
        self._pictures.update({one.number: one for one in with_pictures})
        numbers = torch.tensor([one.number for one in with_pictures])
        return {NUMBERS: numbers, **joined_features([one.sizes for one in with_pictures])}

    def given(self, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a model's forward pass, with the tower's features in place of picture numbers."""
        inputs = dict(inputs)
        numbers = inputs.pop(NUMBERS, None)
        if numbers is None:
            return inputs
        features = self._features(self._tower_of[id(model)], numbers.tolist())
        kind, names = features[0]["kind"], [name for name in PARTS if name in features[0]]
        inputs[GIVEN] = {"image": kind(**{name: _joined([entry[name] for entry in features]) for name in names})}
        return inputs

    def clear(self) -> None:
        """Drop all features, as the weights have changed."""
        self.kept.clear()

    def _features(self, tower: int, numbers: Sequence[int]) -> list[dict[str, Any]]:
        found = {number: entry for number in numbers if (entry := self.kept.get((tower, number))) is not None}
        missing = [number for number in dict.fromkeys(numbers) if number not in found]
        if missing:
            encoded = self._encode(self._towers[tower], [self._pictures[number] for number in missing])
            for number, entry in zip(missing, encoded, strict=True):
                found[number] = entry
                size = sum(leaf.nbytes for leaf in tree_leaves(entry) if isinstance(leaf, Tensor))
                self.kept.put((tower, number), entry, size)
        return [found[number] for number in numbers]

    @torch.no_grad()
    def _encode(self, model: Any, shown: Sequence[Shown]) -> list[dict[str, Any]]:
        """The tower's output for each observation's picture."""
        self.looks += len(shown)
        backbone = backbone_of(model)
        was_training = backbone.training
        backbone.eval()  # dropout would make features differ
        taken = inspect.signature(backbone.get_image_features).parameters
        features = {name: entry.to(backbone.device) for name, entry in self.encoder.features_of(shown, taken).items()}
        output = backbone.get_image_features(**as_taken_by(backbone, features), return_dict=True)
        backbone.train(was_training)
        parts = {name: _split(part, shown) for name in PARTS if (part := output.get(name)) is not None}
        return [
            {"kind": type(output), **{name: part[place] for name, part in parts.items()}} for place in range(len(shown))
        ]


def _same_tower(one: Any, other: Any) -> bool:
    pairs = zip(vision_parameters(one), vision_parameters(other), strict=True)
    return all(mine is its or torch.equal(mine, its.to(mine.dtype)) for mine, its in pairs)


def _split(part: Any, shown: Sequence[Shown]) -> list[Any]:
    """Split a batch's output by observation, each of which has one picture.

    Families give a list with an entry for each picture, or for each layer one such list; or a tensor whose rows are
    tokens, tiles (as many for each token) or pictures.

    Raises:
        ValueError: the output has another form.
    """
    if isinstance(part, Tensor):
        tokens, rows = [one.image_tokens for one in shown], part.shape[0]
        sizes = [count * rows // sum(tokens) for count in tokens]
        if [size * sum(tokens) for size in sizes] != [count * rows for count in tokens]:
            sizes = [1] * len(shown)
        return [piece.clone() for piece in part.split(sizes)]  # a view would keep the whole batch alive
    if part and isinstance(part[0], list | tuple):
        return [list(layers) for layers in zip(*(_split(layer, shown) for layer in part), strict=True)]
    if len(part) != len(shown):
        raise ValueError(f"{len(part)} entries for {len(shown)} pictures")
    return [(entry.clone(),) for entry in part]


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], Tensor):
        return torch.cat(list(parts))
    if isinstance(parts[0], list):
        return [_joined(layer) for layer in zip(*parts, strict=True)]
    return tuple(entry for part in parts for entry in part)
