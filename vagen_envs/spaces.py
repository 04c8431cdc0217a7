"""A text space that holds any Unicode and survives Gymnasium's vector environments.

`gymnasium.spaces.Text` accepts ASCII letters and digits by default, keeps its characters as a set,
and, under the default `AsyncVectorEnv`, hands out the text that stood in shared memory at the
start, for ever (seen with Gymnasium 1.4.0). `UnicodeText` is a `Text` of all code points that is
read anew; what else Gymnasium does with a `Text` works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Text
from gymnasium.spaces.utils import flatten
from gymnasium.vector.utils.shared_memory import read_from_shared_memory
from numpy.typing import NDArray

MAX_TEXT_LENGTH = 49_152  # the longest SVG that is drawn, and thoughts beside it
"""Longest reply or observation, in Unicode code points."""


class _CodePoints(Sequence[str]):
    """All code points, lone surrogates included, as `Text` asks for its characters."""

    def __len__(self) -> int:
        return 0x110000

    def __getitem__(self, index: Any) -> Any:
        return chr(index)

    def __contains__(self, x: object) -> bool:
        return isinstance(x, str) and len(x) == 1


_ALL = _CodePoints()


class UnicodeText(Text):
    """Any string of at most `max_length` code points, lone surrogates included.

    `contains` is O(1). `sample` gives strings of up to 64 code points from the Basic
    Multilingual Plane.
    """

    def __init__(
        self, max_length: int = MAX_TEXT_LENGTH, *, seed: int | np.random.Generator | None = None
    ) -> None:
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}; it must be at least 1 code point")
        super().__init__(max_length, min_length=0, seed=seed)

    @property
    def character_set(self) -> Any:
        return _ALL

    character_list = characters = character_set

    def character_index(self, char: str) -> np.int32:
        return np.int32(ord(char))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        if mask is not None or probability is not None:
            raise ValueError(
                "UnicodeText can't be sampled with a mask or probabilities; leave both out"
            )
        length = int(self.np_random.integers(0, min(64, self.max_length) + 1))
        # From the space to the surrogates, which are no characters by themselves.
        points = self.np_random.integers(0x20, 0xD800, size=length)
        return "".join(map(chr, points))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"


class SharedTexts(Sequence[str]):
    """The current texts of all sub-environments, read from shared memory when looked at.

    `AsyncVectorEnv` asks for its observations once and expects a live view. Its default
    `copy=True` deep-copies them at each step, which freezes this view into a tuple.
    """

    def __init__(self, memory: Any, n: int, max_length: int) -> None:
        self._rows = np.frombuffer(memory.get_obj(), np.int32).reshape(n, max_length)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        row = self._rows[index]
        return row[row < len(_ALL)].tobytes().decode("utf-32-le", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, SharedTexts)) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@read_from_shared_memory.register  # type: ignore[arg-type]
def _read(space: UnicodeText, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(shared_memory, n, space.max_length)


@flatten.register
def _flatten(space: UnicodeText, x: str) -> NDArray[np.int32]:  # type: ignore[misc]
    """Code points, and one beyond the last after the text's end, as of `Text` but not character by
    character.
    """
    flat = np.full(space.max_length, len(_ALL), np.int32)
    flat[: len(x)] = np.frombuffer(x.encode("utf-32-le", "surrogatepass"), np.uint32)
    return flat
