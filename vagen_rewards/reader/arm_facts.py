"""Facts of PrimitiveSkill: coordinates and sides of named things, the gripper and the drawer."""

from __future__ import annotations

from typing import Any, NamedTuple

from vagen_rewards.reader.claims import every

TOLERANCE = 10
"""Millimetres that a coordinate may be off; the paper's judge gives none, and a cube is 40 wide."""

UNCLEAR = 20
"""Millimetres within which observers differ about sides."""

OPEN = 100
"""Millimetres from which on a drawer is open; below a tenth of it, it is shut."""

NEAR, FAR = 75, 150
"""Millimetres between the middles of things that are next to each other, and of those that
aren't."""

SIDES = {"left": (1, -1), "right": (1, 1), "front": (0, 1), "behind": (0, -1)}
"""Axis and sign of each side: the camera looks towards -x, +y is to its right."""


class Told(NamedTuple):
    """What a text says of a thing; left is towards -y, the front towards +x.

    Attributes:
        name: the thing, or `cubes` for all of them.
        how: `at` coordinates; `on` or `near` another thing, or on a side of it; `end left` of all
            others; `held` by the gripper, which is `empty`; `open` or `shut`.
        other: the other thing.
        far: millimetres to that side, or of the opening.
        at: coordinates in millimetres.
    """

    name: str
    how: str
    other: str = ""
    far: float | None = None
    at: tuple[float, ...] = ()

    def holds(self, state: Any) -> bool | None:
        """Whether it is so.

        `None` where observers may differ, or if the state doesn't know the things.
        """
        if self.name == "cubes":
            return every([self._replace(name=one).holds(state) for one in _cubes(state)] or [None])
        if self.how == "empty":
            return not state.held
        if self.how in ("open", "shut"):
            return self._is_open(state.drawer_open_value)
        if self.name not in state.positions:
            return None
        if self.how == "held":
            return bool(state.held == self.name)
        if self.how == "at":
            pairs = zip(state.positions[self.name], self.at, strict=True)
            return all(abs(true - told) <= TOLERANCE for true, told in pairs)
        if self.how.startswith("end "):
            return self._is_outermost(state, self.how.removeprefix("end "))
        return self._to(state, self.how, self.other)

    def _is_open(self, true: int | None) -> bool | None:
        if true is None:
            return None
        if self.far is not None:
            return abs(true - self.far) <= TOLERANCE
        if OPEN / 10 < true < OPEN:
            return None
        return (true >= OPEN) == (self.how == "open")

    def _is_outermost(self, state: Any, side: str) -> bool | None:
        """Whether it is on that side of all others.

        `None` if only of some, since "on the right" may be of the table.
        """
        cubes = [name for name in _cubes(state) if name != self.name]
        things = [name for name in state.positions if name != self.name]
        verdicts = {self._to(state, side, name) for name in cubes or things}
        return verdicts.pop() if len(verdicts) == 1 else None

    def _to(self, state: Any, how: str, name: str) -> bool | None:
        """Whether it is so to one other thing."""
        one = state.positions[self.name]
        other = (*one[:2], -UNCLEAR) if name == "table" else state.positions.get(name)
        if other is None:
            return None
        if how in SIDES:
            axis, sign = SIDES[how]
            return self._is_aside((one[axis] - other[axis]) * sign)
        off = max(abs(one[0] - other[0]), abs(one[1] - other[1]))
        if how == "near":
            near = 2 * UNCLEAR <= off <= NEAR
            return near or (False if off >= FAR or off < UNCLEAR else None)
        above = one[2] - other[2]
        if off > 2 * UNCLEAR or above < -TOLERANCE:
            return False
        return True if off <= UNCLEAR and 0 < above <= 3 * UNCLEAR else None

    def _is_aside(self, far: int) -> bool | None:
        if self.far is None or far <= 0:
            return None if abs(far) < UNCLEAR else far > 0
        off = abs(self.far - far)
        if off <= max(UNCLEAR, 0.2 * far):
            return True
        return False if off > max(2 * UNCLEAR, 0.5 * far) else None

    def __str__(self) -> str:
        return " ".join(str(part) for part in self if part not in ("", None, ()))


def _cubes(state: Any) -> list[str]:
    return [name for name in state.positions if name.endswith("_cube")]
