"""What a scorer is, how one is made, and what is missing for it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from vagen_envs.errors import VagenError
from vagen_envs.pictures import Pixels

SAME_PICTURE = {"classical": 0.85, "lpips": 0.95, "dreamsim": 0.95}
"""From this score on a scorer finds two pictures the same but for how smooth their outlines are, as a person does
who compares an icon with its trace. Of 101 built-in icons (60 for LPIPS) the tracer's pictures have it in 98 % with
`classical` (97 % with LPIPS); moved by 3 % of the width none has it (none), turned by 70 degrees of hue 3 % (2 %), with
their last element missing 55 % (25 %; that element may be a dot). For DreamSim it is taken over from LPIPS and not
measured: its weights could not be had."""

T = TypeVar("T")


class ScorerError(VagenError, RuntimeError):
    """A scorer lacks its weights, or they are not what they should be."""


class Scorer(Protocol):
    """Scores pictures against targets.

    Attributes:
        name: `dreamsim`, `lpips` or `classical`.
        version: what exactly computed the scores: model, weights' layout, own version.
    """

    name: str
    version: str

    def score(self, targets: Sequence[Pixels], pictures: Sequence[Pixels]) -> list[Mapping[str, float]]:
        """Scores from 0 (nothing alike) to 1 (the same), by name, for each target and picture of one index.

        The first name is the scorer's own. Pictures are uint8 of shape (size, size, 3), the target's and
        the picture's size alike.
        """


class Remembered:
    """The features of the last targets, by content: a target comes back at each turn.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get_all(self, pictures: Sequence[Pixels], compute: Callable[[list[Pixels]], Sequence[T]]) -> list[T]:
        """The features of all pictures; `compute` is called once, with those that aren't known."""
        keys = [picture.tobytes() for picture in pictures]
        with self._lock:  # a process has one scorer, whatever its threads
            found = {key: self._kept[key] for key in keys if key in self._kept}
        unknown = {key: picture for key, picture in zip(keys, pictures, strict=True) if key not in found}
        if unknown:
            found.update(zip(unknown, compute(list(unknown.values())), strict=True))
        with self._lock:
            for key in keys:
                self._kept[key] = found[key]
                self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return [found[key] for key in keys]
