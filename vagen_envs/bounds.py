"""Bounds of options, which stand in the annotation of an option: `size: Annotated[int, Whole(3, 16), Open()] = 4`.

A bound reads plain JSON values, never converts them, and costs nothing on a value that is far too large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol


class Bound(Protocol):
    """What a value must be. `str()` of a bound completes "it must be …"."""

    def admits(self, value: Any) -> bool:
        """Whether the value keeps to it. Takes any JSON value and raises nothing."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these values, of just their type: `True` isn't 1."""

    choices: tuple[Any, ...]

    def admits(self, value: Any) -> bool:
        return any(type(value) is type(choice) and value == choice for choice in self.choices)

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.choices))}"


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer from `least` to `most`."""

    least: int
    most: int

    def admits(self, value: Any) -> bool:
        return type(value) is int and self.least <= value <= self.most

    def __str__(self) -> str:
        return f"an integer from {self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number from `least` to `most`."""

    least: float
    most: float

    def admits(self, value: Any) -> bool:
        if type(value) is not float and type(value) is not int:
            return False
        return self.least <= value <= self.most and math.isfinite(value)

    def __str__(self) -> str:
        return f"a number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class Words:
    """A text of 1 to `most` characters that can be printed: no control characters, no lone surrogates."""

    most: int

    def admits(self, value: Any) -> bool:
        return type(value) is str and 1 <= len(value) <= self.most and value.isprintable()

    def __str__(self) -> str:
        return f"a text of 1 to {self.most} printable characters"


@dataclass(frozen=True, slots=True)
class Several:
    """A list of `least` to `most` values, each within `each`."""

    each: Bound
    most: int
    least: int = 1

    def admits(self, value: Any) -> bool:
        if type(value) is not list and type(value) is not tuple:
            return False
        return self.least <= len(value) <= self.most and all(map(self.each.admits, value))

    def __str__(self) -> str:
        count = str(self.most) if self.least == self.most else f"{self.least} to {self.most}"
        return f"a list of {count}, each {self.each}"


@dataclass(frozen=True, slots=True)
class OrNone:
    """`None`, or within a bound."""

    bound: Bound

    def admits(self, value: Any) -> bool:
        return value is None or self.bound.admits(value)

    def __str__(self) -> str:
        return f"None or {self.bound}"


@dataclass(frozen=True, slots=True)
class Open:
    """Opens an option to clients of a server, within a bound.

    Never one that is a path, a module, an address or a name that is looked up (see `vagen_envs.permission`).

    Attributes:
        bound: of their values; by default the option's own, or the values of its `Literal` or `bool`.
    """

    bound: Bound | None = None


REWARD = Number(-1000.0, 1000.0)
"""The weight of a term of a reward."""
COUNTED = Whole(1, 1_000_000)
"""Something that is counted and takes no memory, such as the turns of an episode."""
SEED = Whole(0, 2**64 - 1)
"""A seed of a reset."""
