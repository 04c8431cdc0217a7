"""Pictures' features, many of them end to end."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def end_to_end(features: Sequence[Tensor]) -> Tensor:
    """One feature of many pictures, along the first axis; where their sizes differ along others, zeros fill up.

    Families that take pictures of many sizes say beside them how large each is, or leave out what is all zeros.
    """
    widest = [max(sizes) for sizes in zip(*(each.shape[1:] for each in features), strict=True)]
    if all(list(each.shape[1:]) == widest for each in features):
        return torch.cat(list(features))
    gaps = [[gap for size, most in zip(each.shape[:0:-1], widest[::-1], strict=True) for gap in (0, most - size)]
            for each in features]  # fmt: skip
    return torch.cat([nn.functional.pad(each, gap) for each, gap in zip(features, gaps, strict=True)])


def joined_features(
    features: Sequence[Mapping[str, Tensor]], wanted: Container[str] | None = None
) -> dict[str, Tensor]:
    """The features of many observations end to end, or those of them that are wanted; some have no pictures."""
    seen = [each for each in features if each]
    names = [name for name in (seen[0] if seen else ()) if wanted is None or name in wanted]
    return {name: end_to_end([each[name] for each in seen]) for name in names}


def as_taken_by(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with features in the type of a model's weights: not all families see to that."""
    dtype = model.dtype
    return {name: each.to(dtype) if isinstance(each, Tensor) and each.is_floating_point() else each
            for name, each in inputs.items()}  # fmt: skip
