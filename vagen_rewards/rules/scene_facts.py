"""What is claimed about PrimitiveSkill's table, as facts that hold of a state or don't."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vagen_rewards.rules.truths import States, Truths

Point = tuple[float, ...]
"""Two or three coordinates in millimetres."""

TOLERANCE = 10
"""Millimetres on each axis, and of the drawer's opening (VAGEN, appendix D.1)."""


def near(point: Point, place: Sequence[float]) -> bool:
    """Whether coordinates are right."""
    for a, b in zip(point, place, strict=False):  # noqa: SIM110 - `all` takes thrice as long
        if not -TOLERANCE <= a - b <= TOLERANCE:
            return False
    return True


@dataclass(frozen=True, slots=True)
class At:
    """A named thing is at these coordinates; nowhere in particular if `hedged`."""

    name: str
    point: Point
    hedged: bool = False

    def holds(self, state: Any) -> bool:
        """Whether it is there, within the tolerance."""
        return not self.hedged and self.name in state.positions and near(self.point, state.positions[self.name])

    def truths(self, states: States) -> Truths:
        """`holds` of each of many states."""
        found = np.zeros(len(states), np.int8)
        numbers, places = states.table(_places).get(self.name, _NOWHERE)
        if not self.hedged and len(numbers):
            apart = np.abs(np.array(self.point) - places[:, : len(self.point)])
            found[numbers] = (apart <= TOLERANCE).all(axis=1)
        return found


_Places = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Numbers of states, and where a thing is in them."""

_NOWHERE: _Places = (np.zeros(0, np.int64), np.zeros((0, 3)))


def _places(states: States) -> dict[str, _Places]:
    found: dict[str, list[tuple[int, Sequence[float]]]] = {}
    for number, state in enumerate(states):
        for name, place in cast(Any, state).positions.items():
            found.setdefault(name, []).append((number, place))
    return {
        name: (np.array([number for number, _ in each]), np.array([place for _, place in each], np.float64))
        for name, each in found.items()
    }


@dataclass(frozen=True, slots=True)
class On:
    """One named thing is on another. Within a target's radius, but not at its middle, one may differ."""

    upper: str
    lower: str
    negated: bool = False

    def holds(self, state: Any) -> bool | None:
        """Whether it is: above it, and aside by no more than twice the tolerance."""
        if self.upper not in state.positions or self.lower not in state.positions:
            return False
        on, near_by = (_on(state, self.upper, self.lower, off) for off in (2 * TOLERANCE, RADIUS))
        return None if self.lower.endswith("target") and on != near_by else on != self.negated


RADIUS = 50
"""Of a target, in millimetres."""
BODY = 30
"""Millimetres above which the centre of a thing doesn't lie on the table: cubes are 40 high, the apple 70."""


def _on(state: Any, upper: str, lower: str, off: int = 2 * TOLERANCE) -> bool:
    a, b = state.positions[upper], state.positions[lower]
    return bool(abs(a[0] - b[0]) <= off and abs(a[1] - b[1]) <= off and a[2] > b[2])


@dataclass(frozen=True, slots=True)
class Beside:
    """A thing is at this side of another, as the camera sees it.

    Attributes:
        depth: 1 nearer to the camera, which is larger x; -1 further away; `None` unsaid.
        across: -1 to the left, which is smaller y; 1 to the right; `None` unsaid.
    """

    subject: str
    other: str
    depth: int | None
    across: int | None
    negated: bool = False

    def holds(self, state: Any) -> bool:
        """Whether it is, by more than the tolerance."""
        if self.subject not in state.positions or self.other not in state.positions:
            return False
        a, b = state.positions[self.subject], state.positions[self.other]
        sides = [(self.depth, a[0] - b[0]), (self.across, a[1] - b[1])]
        return all(side is None or side * apart > TOLERANCE for side, apart in sides) != self.negated


@dataclass(frozen=True, slots=True)
class Inside:
    """A thing is in the drawer."""

    subject: str
    other: str
    negated: bool = False

    def holds(self, state: Any) -> bool:
        """Whether it is within the drawer's box; a hundred millimetres around its middle."""
        if self.subject not in state.positions or "drawer" not in state.positions:
            return False
        a, b = state.positions[self.subject], state.positions["drawer"]
        return bool(abs(a[0] - b[0]) < 90 and abs(a[1] - b[1]) < 90) != self.negated


@dataclass(frozen=True, slots=True)
class Outermost:
    """A thing is at this end of the table: no movable thing is further out.

    Attributes:
        axis: 0 is depth, 1 across.
        side: 1 near the camera or right, -1 far from it or left.
    """

    name: str
    axis: int
    side: int

    def holds(self, state: Any) -> bool:
        """Whether no other movable thing is further out."""
        if self.name not in state.positions:
            return False
        at = state.positions[self.name][self.axis] * self.side
        things = [name for name in state.positions if name.endswith("cube") or name == "apple"]
        return all(state.positions[name][self.axis] * self.side <= at for name in things if name != self.name)


@dataclass(frozen=True, slots=True)
class Lies:
    """A thing lies on the table; all movable things where it has no name."""

    name: str

    def holds(self, state: Any) -> bool:
        """Whether it does: low, on no other and not held."""
        things = [name for name in state.positions if name.endswith("cube") or name == "apple"]
        names = [self.name] if self.name else things
        return all(
            name in state.positions and state.held != name and state.positions[name][2] <= BODY + TOLERANCE
            and not any(_on(state, name, other) for other in things if other != name)
            for name in names
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unstacked:
    """No cube is on another."""

    def holds(self, state: Any) -> bool:
        """Whether none is."""
        cubes = [name for name in state.positions if name.endswith("cube")]
        return not any(_on(state, one, other) for one in cubes for other in cubes if one != other)


@dataclass(frozen=True, slots=True)
class OffTargets:
    """No cube is on a target. Which one belongs where isn't in the state: where one is on any, `its` can't be told.

    Attributes:
        its: each is said not to be on its own.
    """

    its: bool

    def holds(self, state: Any) -> bool | None:
        """Whether it is so; `None` without targets too."""
        cubes = [at for name, at in state.positions.items() if name.endswith("cube") and name != state.held]
        targets = [at for name, at in state.positions.items() if name.endswith("target")]
        if not targets:
            return None
        far = (max(abs(x - u), abs(y - v)) > RADIUS for x, y, _ in cubes for u, v, _ in targets)
        return True if all(far) else None if self.its else False


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


Fact = At | On | Beside | Inside | Outermost | Lies | Unstacked | OffTargets | Held | Open
