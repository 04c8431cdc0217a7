"""What frozen vision towers say of pictures, kept by content: each looks at a picture once, however often it is read.

A picture is read in play, once more by each model that scores, and in every pass of updates. A tower that isn't
trained says the same each time. It took 35 % of the tiny model's forward pass, and more where pictures are large.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vagen_adapters.ppo.chat_encoder import ChatEncoder, Shown
from vagen_adapters.ppo.features import RecentlyUsed, as_taken_by, joined_features
from vagen_adapters.ppo.introspection import backbone_of, vision_parameters

NUMBERS = "picture_numbers"
"""By this name a batch's observations with pictures stand among a model's inputs, in the place of their pixels."""
GIVEN = "mm_encoder_outputs"
"""By this name models of transformers take what their tower has said."""
PARTS = ("pooler_output", "deepstack_features")
"""Of a tower's output, what language models read."""


class VisionFeatureCache:
    """Keeps what towers said, the latest used first, up to a number of bytes.

    Args:
        models: that read pictures; those whose towers are equal share what is kept.
        encoder: theirs.
        most: bytes, on the models' device.

    Attributes:
        looks: pictures that towers were given.
        kept: what towers said, by tower and picture.
    """

    def __init__(self, models: Sequence[Any], encoder: ChatEncoder, most: int) -> None:
        self.encoder = encoder
        self.looks = 0
        self._pictures: weakref.WeakValueDictionary[int, Shown] = weakref.WeakValueDictionary()
        self.kept: RecentlyUsed[dict[str, Any]] = RecentlyUsed(most)
        towers: list[Any] = []
        self._tower_of: dict[int, int] = {}
        for model in models:
            same = (number for number, other in enumerate(towers) if _same_tower(model, other))
            self._tower_of[id(model)] = number = next(same, len(towers))
            if number == len(towers):
                towers.append(model)
        self._towers = towers

    def inputs(self, shown: Sequence[Shown]) -> dict[str, Tensor]:
        """As `ChatEncoder.features_of`, with the pictures' numbers instead of their pixels."""
        seen = [each for each in shown if each.pictures]
        if not seen:
            return {}
        for each in seen:
            self._pictures[each.number] = each
        return {NUMBERS: torch.tensor([each.number for each in seen]), **joined_features([each.sizes for each in seen])}

    def given(self, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a model's forward pass, in which numbers have become what its tower says of them."""
        inputs = dict(inputs)
        numbers = inputs.pop(NUMBERS, None)
        if numbers is None:
            return inputs
        said = self._look(self._tower_of[id(model)], numbers.tolist())
        kind, names = said[0]["kind"], [name for name in PARTS if name in said[0]]
        inputs[GIVEN] = {"image": kind(**{name: _joined([each[name] for each in said]) for name in names})}
        return inputs

    def clear(self) -> None:
        """Forget all: weights were read anew."""
        self.kept.clear()

    def _look(self, tower: int, numbers: Sequence[int]) -> list[dict[str, Any]]:
        found = {number: said for number in numbers if (said := self.kept.get((tower, number))) is not None}
        missing = [number for number in dict.fromkeys(numbers) if number not in found]
        if missing:
            new = self._encode(self._towers[tower], [self._pictures[number] for number in missing])
            found |= dict(zip(missing, new, strict=True))
            for number, said in zip(missing, new, strict=True):
                self.kept.put((tower, number), said, _bytes(said))
        return [found[number] for number in numbers]

    @torch.no_grad()
    def _encode(self, model: Any, shown: Sequence[Shown]) -> list[dict[str, Any]]:
        """What the tower says of each observation's pictures."""
        self.looks += len(shown)
        backbone = backbone_of(model)
        was_training = backbone.training
        backbone.eval()  # a tower that isn't trained drops nothing out
        taken = inspect.signature(backbone.get_image_features).parameters
        features = {name: each.to(backbone.device) for name, each in self.encoder.features_of(shown, taken).items()}
        output = backbone.get_image_features(**as_taken_by(backbone, features), return_dict=True)
        backbone.train(was_training)
        parts = {name: _split(part, shown) for name in PARTS if (part := output.get(name)) is not None}
        return [
            {"kind": type(output), **{name: part[each] for name, part in parts.items()}} for each in range(len(shown))
        ]


def can_be_kept(model: Any, encoder: ChatEncoder) -> bool:
    """Whether a model's tower is frozen, and its language model takes what the tower has said."""
    return encoder.takes(GIVEN) and not any(each.requires_grad for each in vision_parameters(model))


def _same_tower(one: Any, other: Any) -> bool:
    pairs = zip(vision_parameters(one), vision_parameters(other), strict=True)
    return all(mine is its or torch.equal(mine, its.to(mine.dtype)) for mine, its in pairs)


def _split(part: Any, shown: Sequence[Shown]) -> list[Any]:
    """What is one batch's by observation.

    Families give a list with an entry for each picture, or for each layer one such list; or a tensor whose rows are
    tokens, tiles (as many for each token) or pictures.

    Raises:
        ValueError: it is none of these.
    """
    pictures = [len(each.pictures) for each in shown]
    if isinstance(part, Tensor):
        tokens, rows = [each.image_tokens for each in shown], part.shape[0]
        sizes = [each * rows // sum(tokens) for each in tokens]
        if [each * sum(tokens) for each in sizes] != [each * rows for each in tokens]:
            sizes = pictures
        # Copies: a view would keep the whole batch alive.
        return [each.clone() for each in part.split(sizes)]
    if part and isinstance(part[0], list | tuple):
        return [list(layers) for layers in zip(*(_split(layer, shown) for layer in part), strict=True)]
    if len(part) != sum(pictures):
        raise ValueError(f"{len(part)} entries for {sum(pictures)} pictures")
    entries = iter(part)
    return [tuple(next(entries).clone() for _ in range(many)) for many in pictures]


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], Tensor):
        return torch.cat(list(parts))
    if isinstance(parts[0], list):
        return [_joined(layer) for layer in zip(*parts, strict=True)]
    return tuple(entry for part in parts for entry in part)


def _tensors(said: Any) -> Iterator[Tensor]:
    if isinstance(said, Tensor):
        yield said
    elif isinstance(said, list | tuple):
        for each in said:
            yield from _tensors(each)


def _bytes(said: Mapping[str, Any]) -> int:
    return sum(each.nbytes for part in said.values() for each in _tensors(part))
