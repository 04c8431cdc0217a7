"""What scorers that compare features share."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from vagen_envs.pictures import Pixels

F = TypeVar("F")


class FeatureScorer(Generic[F]):
    """A scorer that compares features. A target's are kept, since it comes back at each turn."""

    name: str
    version: str

    def __init__(self) -> None:
        self._target = functools.lru_cache(maxsize=256)(self._features_of_bytes)

    def score(self, targets: Sequence[Pixels], pictures: Sequence[Pixels]) -> list[Mapping[str, float]]:
        """As `vagen_envs.svg.scorers.Scorer`."""
        wanted = [self._target(target.tobytes(), target.shape) for target in targets]
        return [self.compare(a, b) for a, b in zip(wanted, self.features(pictures), strict=True)]

    def _features_of_bytes(self, data: bytes, shape: tuple[int, ...]) -> F:
        return self.features([np.frombuffer(data, np.uint8).reshape(shape)])[0]

    @abstractmethod
    def features(self, pictures: Sequence[Pixels]) -> list[F]:
        """The compared features of each picture."""

    @abstractmethod
    def compare(self, target: F, picture: F) -> Mapping[str, float]:
        """The scores of a picture."""
