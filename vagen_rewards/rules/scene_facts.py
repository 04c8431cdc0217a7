"""What is claimed about PrimitiveSkill's table, as facts that hold of a state or don't."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Point = tuple[float, ...]
"""Two or three coordinates in millimetres."""

TOLERANCE = 10
"""Millimetres on each axis, and of the drawer's opening (VAGEN, appendix D.1)."""


def near(point: Point, place: Sequence[float]) -> bool:
    """Whether coordinates are right."""
    return all(-TOLERANCE <= a - b <= TOLERANCE for a, b in zip(point, place, strict=False))


@dataclass(frozen=True, slots=True)
class At:
    """A named thing is at these coordinates; nowhere in particular if `hedged`."""

    name: str
    point: Point
    hedged: bool = False

    def holds(self, state: Any) -> bool:
        """Whether it is there, within the tolerance."""
        return not self.hedged and self.name in state.positions and near(self.point, state.positions[self.name])


@dataclass(frozen=True, slots=True)
class On:
    """One named thing is on another."""

    upper: str
    lower: str
    negated: bool = False

    def holds(self, state: Any) -> bool:
        """Whether it is: above it, and aside by no more than twice the tolerance."""
        if self.upper not in state.positions or self.lower not in state.positions:
            return False
        a, b = state.positions[self.upper], state.positions[self.lower]
        on = abs(a[0] - b[0]) <= 2 * TOLERANCE and abs(a[1] - b[1]) <= 2 * TOLERANCE and a[2] > b[2]
        return on != self.negated


@dataclass(frozen=True, slots=True)
class Held:
    """The gripper holds this thing; nothing if it has no name."""

    name: str
    negated: bool = False

    def holds(self, state: Any) -> bool:
        """Whether it does."""
        return bool(state.held == self.name) != self.negated


@dataclass(frozen=True, slots=True)
class Open:
    """The drawer is open by so many millimetres; at all, or not at all, where no number is said."""

    by: float | None
    closed: bool = False

    def holds(self, state: Any) -> bool | None:
        """Whether it is; `None` without a drawer."""
        opened = state.drawer_open_value
        if opened is None:
            return None
        if self.by is not None:
            return bool(abs(self.by - opened) <= TOLERANCE)
        return bool(self.closed == (opened <= TOLERANCE))
