"""A text space that holds any Unicode and survives Gymnasium's vector environments.

`gymnasium.spaces.Text` accepts ASCII letters and digits by default and, under the default
`AsyncVectorEnv`, hands out the text that stood in shared memory at the start, for ever
(seen with Gymnasium 1.4.0). `UnicodeText` registers a function of its own for everything that Gymnasium registers
for `Text`, so its wrappers and vector environments work.
"""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Tuple
from gymnasium.spaces.utils import (
    _flat_dtype,
    flatdim,
    flatten,
    flatten_space,
    is_space_dtype_shape_equiv,
    unflatten,
)
from gymnasium.vector.utils import batch_differing_spaces, create_empty_array
from gymnasium.vector.utils.shared_memory import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.wrappers.utils import create_zero_array
from numpy.typing import NDArray

MAX_TEXT_LENGTH = 16_384
"""Longest reply or observation, in Unicode code points."""

_NO_CHARACTER = 0x110000
"""Fills a flattened text: one beyond the last code point."""
_SAMPLE_LENGTH = 64  # characters of a text that is drawn, which nobody reads


class UnicodeText(Space[str]):
    """Any string of at most `max_length` code points, lone surrogates included.

    `contains` is O(1). `sample` gives strings of up to 64 code points from the Basic
    Multilingual Plane.
    """

    def __init__(self, max_length: int = MAX_TEXT_LENGTH, *, seed: int | np.random.Generator | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}; it must be at least 1 code point")
        self.max_length = max_length
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return True

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText can't be sampled with a mask or probabilities; leave both out")
        length = int(self.np_random.integers(0, min(_SAMPLE_LENGTH, self.max_length) + 1))
        # From the space to the surrogates, which are no characters by themselves.
        points = self.np_random.integers(0x20, 0xD800, size=length)
        return "".join(map(chr, points))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_length))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"


class SharedTexts(Sequence[str]):
    """The current texts of all sub-environments, read from shared memory when looked at.

    `AsyncVectorEnv` asks for its observations once and expects a live view. Its default
    `copy=True` deep-copies them at each step, which freezes this view into a tuple.
    """

    def __init__(self, memory: Any, n: int, max_length: int) -> None:
        self._rows = np.frombuffer(memory.get_obj(), dtype=np.uint32).reshape(n, max_length + 1)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        row = self._rows[index]
        return row[1 : 1 + int(row[0])].tobytes().decode("utf-32-le", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, SharedTexts)) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@create_shared_memory.register
def _create(space: UnicodeText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.Array("I", n * (space.max_length + 1))


@read_from_shared_memory.register  # type: ignore[arg-type]
def _read(space: UnicodeText, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(shared_memory, n, space.max_length)


@write_to_shared_memory.register
def _write(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    points = np.frombuffer(value[: space.max_length].encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    rows = np.frombuffer(shared_memory.get_obj(), dtype=np.uint32)
    start = index * (space.max_length + 1)
    rows[start + 1 : start + 1 + len(points)] = points
    rows[start] = len(points)


@create_empty_array.register
def _empty(space: UnicodeText, n: int = 1, fn: Any = np.zeros) -> tuple[str, ...]:  # noqa: ARG001
    return ("",) * n


@batch_differing_spaces.register(UnicodeText)
def _batch_differing(spaces: Sequence[UnicodeText]) -> Tuple[Any]:  # type: ignore[misc]
    return Tuple([copy.deepcopy(space) for space in spaces])


@is_space_dtype_shape_equiv.register
def _equivalent(space_1: UnicodeText, space_2: Any) -> bool:
    return bool(space_1 == space_2)


@create_zero_array.register
def _zero(space: UnicodeText) -> str:  # type: ignore[misc]  # noqa: ARG001
    return ""


@_flat_dtype.register
def _dtype(space: UnicodeText) -> np.dtype[Any]:  # noqa: ARG001
    return np.dtype(np.int32)


@flatdim.register
def _flat_length(space: UnicodeText) -> int:
    return space.max_length


@flatten.register
def _flatten(space: UnicodeText, x: str) -> NDArray[np.int32]:  # type: ignore[misc]
    """Code points, and `_NO_CHARACTER` after the text's end."""
    flat = np.full(space.max_length, _NO_CHARACTER, np.int32)
    flat[: len(x)] = np.frombuffer(x.encode("utf-32-le", "surrogatepass"), np.uint32)
    return flat


@unflatten.register
def _unflatten(space: UnicodeText, x: NDArray[Any]) -> str:  # type: ignore[misc]  # noqa: ARG001
    return "".join(chr(point) for point in x.astype(np.int64).tolist() if 0 <= point < _NO_CHARACTER)


@flatten_space.register
def _flat_space(space: UnicodeText) -> Box:
    return Box(0, _NO_CHARACTER, (space.max_length,), np.int32)
