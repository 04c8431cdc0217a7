"""Bounds of options, which stand in the annotation of an option: `size: Annotated[int, Whole(3,
16), Open()] = 4`.

Where none stands there, the type is the bound. A bound reads plain JSON values, never converts
them, and costs nothing on a value that is far too large.
"""

from __future__ import annotations

import functools
import math
import sys
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

_LARGEST = 1e308
"""The largest number that an option may have: any that a float can hold."""


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
    """An integer from `least` to `most`, by default any."""

    least: float = -math.inf
    most: float = math.inf

    def admits(self, value: Any) -> bool:
        return type(value) is int and self.least <= value <= self.most

    def __str__(self) -> str:
        if self == Whole():
            return "an integer"
        return f"an integer from {self.least:,} " + (
            f"to {self.most:,}" if self.most < math.inf else "up"
        )


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number from `least` to `most`, by default any."""

    least: float = -_LARGEST
    most: float = _LARGEST

    def admits(self, value: Any) -> bool:
        return (
            isinstance(value, float | int)
            and type(value) is not bool
            and self.least <= value <= self.most
        )

    def __str__(self) -> str:
        if self == Number():
            return "a finite number"
        return f"a number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class Words:
    """A text of 1 to `most` characters that can be printed: no control characters, no lone
    surrogates.
    """

    most: int

    def admits(self, value: Any) -> bool:
        return type(value) is str and 1 <= len(value) <= self.most and value.isprintable()

    def __str__(self) -> str:
        return f"a text of 1 to {self.most} printable characters"


@dataclass(frozen=True, slots=True)
class Several:
    """A list of `least` to `most` values, each within `each`."""

    each: Bound
    most: int = sys.maxsize
    least: int = 1

    def admits(self, value: Any) -> bool:
        if type(value) is not list and type(value) is not tuple:
            return False
        return self.least <= len(value) <= self.most and all(map(self.each.admits, value))

    def __str__(self) -> str:
        if self.most == sys.maxsize:
            return f"a list, each {self.each}"
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
class Is:
    """An instance of a type."""

    kind: Any

    def admits(self, value: Any) -> bool:
        return isinstance(value, self.kind)

    def __str__(self) -> str:
        return "a string" if self.kind is str else f"of type {self.kind}"


@dataclass(frozen=True, slots=True)
class Open:
    """Opens an option to clients of a server, within a bound.

    Never one that is a path, a module, an address or a name that is looked up.

    Attributes:
        bound: of their values; by default the option's own.
    """

    bound: Bound | None = None


REWARD = Number(-1000.0, 1000.0)
"""The weight of a term of a reward."""
COUNTED = Whole(1, 1_000_000)
"""Something that is counted and takes no memory, such as the turns of an episode."""
SEED = Whole(0, 2**64 - 1)
"""A seed of a level."""


def bound_of(kind: Any) -> Bound:
    """The bound that a type hint says: such as of a `Literal`, a tuple of one type, or either of
    these or `None`.
    """
    origin = get_origin(kind)
    args = get_args(kind)
    if origin is Literal:
        return OneOf(args)
    if origin in (Union, types.UnionType) and len(args) == 2 and args[1] is types.NoneType:
        return OrNone(bound_of(args[0]))
    if origin is tuple:
        each = bound_of(args[0])
        return (
            Several(each, least=0) if args[-1] is Ellipsis else Several(each, len(args), len(args))
        )
    plain: dict[Any, Bound] = {int: Whole(), float: Number(), bool: OneOf((False, True))}
    return plain.get(kind, Is(origin or kind))


@functools.cache
def bounds_of(cls: Any) -> dict[str, tuple[Bound, Bound | None]]:
    """The bound of each field of a dataclass, and of what a client of a server may set it to;
    `None` for closed.
    """
    found: dict[str, tuple[Bound, Bound | None]] = {}
    # An option that a subclass declares without bounds keeps those it had.
    for owner in reversed(cls.__mro__[:-1]):
        for name, kind in get_type_hints(owner, include_extras=True).items():
            if get_origin(kind) is Annotated:
                given = [note for note in kind.__metadata__ if not isinstance(note, Open)]
                if given:
                    own = given[0]
                elif name in found:
                    own = found[name][0]
                else:
                    own = bound_of(kind.__origin__)
                found[name] = (
                    own,
                    next(
                        (note.bound or own for note in kind.__metadata__ if note not in given), None
                    ),
                )
            elif name not in found:
                found[name] = bound_of(kind), None
    return found
