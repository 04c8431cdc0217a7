"""Pictures' features, many of them end to end."""

from __future__ import annotations

from collections.abc import Container, Sequence

import torch
from torch import Tensor, nn

from vagen_adapters.ppo.codec import Shown


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


def features_of(shown: Sequence[Shown], wanted: Container[str] | None = None) -> dict[str, Tensor]:
    """The features of all pictures of these observations, or those of them that are wanted."""
    features = [each.features for each in shown if each.features]
    names = [name for name in (features[0] if features else ()) if wanted is None or name in wanted]
    return {name: end_to_end([each[name] for each in features]) for name in names}
