"""What a scorer of pictures is, and the base of those that compare features."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from vagen_envs.pictures import Pixels

F = TypeVar("F")

_BATCH = 64


class Scorer(Protocol):
    """Scores pictures against targets.

    Attributes:
        name: `dreamsim`, `lpips` or `classical`.
        version: what computes the scores: model, weights' layout, own version.
    """

    name: str
    version: str

    def score(
        self, targets: Sequence[Pixels], pictures: Sequence[Pixels]
    ) -> list[Mapping[str, float]]:
        """Scores from 0 (nothing alike) to 1 (the same), by name, for each target and picture of
        one index.

        The first name is the scorer's own. Pictures are uint8 of shape (size, size, 3), the
        target's and the picture's size alike.
        """


class FeatureScorer(Scorer, Generic[F]):
    """A scorer that compares features. A target's are kept, since it comes back at each turn."""

    def __init__(self) -> None:
        self._known = functools.lru_cache(maxsize=256)(self._features_of_bytes)

    def score(
        self, targets: Sequence[Pixels], pictures: Sequence[Pixels]
    ) -> list[Mapping[str, float]]:
        found: list[F] = []
        for start in range(0, len(pictures), _BATCH):
            found += self.features(pictures[start : start + _BATCH])
        wanted = [self._known(target.tobytes(), target.shape) for target in targets]
        return list(map(self.compare, wanted, found))

    def _features_of_bytes(self, data: bytes, shape: tuple[int, ...]) -> F:
        return self.features([np.frombuffer(data, np.uint8).reshape(shape)])[0]

    @abstractmethod
    def features(self, pictures: Sequence[Pixels]) -> list[F]:
        """The compared features of each picture, at most `_BATCH` at a time."""

    @abstractmethod
    def compare(self, target: F, picture: F) -> Mapping[str, float]:
        """The scores of a picture."""
