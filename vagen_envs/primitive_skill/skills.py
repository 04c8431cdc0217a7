"""The three skills as sequences of waypoints. They know no simulator: whoever runs them moves the
hand.

A skill yields `Waypoint`s, is sent an `Arrived` for each, and returns what the agent is told:
nothing if all went well, else what failed. Each begins and ends with the hand drawn back ("home").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace

from vagen_envs.primitive_skill.levels import Workspace
from vagen_envs.replies import Action, Calls, Refused, call_text

Point = tuple[float, float, float]
SkillCall = tuple[str, tuple[int, ...]]
"""A skill's name and its whole numbers."""

HOVER = 100
"""Millimetres above a point from where the hand comes straight down."""
TOLERANCE = 15
"""A hand that stays farther from its waypoint than this many millimetres was stopped by
something.
"""
STANDOFF = 70
"""A push comes down this many millimetres before the object's centre ..."""
CONTACT = 30
"""... and ends this many before the place where the centre shall be: half of 40 mm, and half a
finger.
"""


@dataclass(frozen=True, slots=True)
class Waypoint:
    """Where the hand goes next.

    Attributes:
        at: of the point between the fingertips, in millimetres; `None` draws the hand back.
        closed: whether the fingers close (they move after the hand has arrived).
        turn: of the hand about the vertical, in radians; 0 spreads the fingers along y.
        straight: along a straight line; otherwise by the shortest way for the joints.
    """

    at: Point | None
    closed: bool
    turn: float = 0.0
    straight: bool = True


@dataclass(frozen=True, slots=True)
class Arrived:
    """How it went: where the hand is, whether the arm can get there at all, and what the fingers
    hold.
    """

    at: Point
    reachable: bool
    holding: str


Skill = Generator[Waypoint, Arrived, str]


def pick(x: int, y: int, z: int, *, holding: str) -> Skill:
    """Grasp what is at a point and lift it."""
    if holding:
        return "The gripper already holds an object, so pick did nothing."
    here = f"({x}, {y}, {z})"
    arrived = yield Waypoint((x, y, z + HOVER), closed=False, straight=False)
    if not arrived.reachable:
        return f"The arm can't reach {here}."
    arrived = yield Waypoint((x, y, z), closed=False)
    if stopped := _stopped(arrived, (x, y, z)):
        yield from _retreat((x, y, z + HOVER), closed=False)
        return f"{stopped}, and nothing was grasped at {here}."
    yield Waypoint((x, y, z), closed=True)
    arrived = yield Waypoint((x, y, z + HOVER), closed=True)
    if not arrived.holding:
        yield Waypoint(None, closed=False, straight=False)
        return f"Nothing was grasped at {here}."
    arrived = yield Waypoint(None, closed=True, straight=False)
    return "" if arrived.holding else "The object slipped out of the gripper."


def place(x: int, y: int, z: int, *, holding: str) -> Skill:
    """Let go of the held object at a point."""
    if not holding:
        return "The gripper holds nothing, so place did nothing."
    here = f"({x}, {y}, {z})"
    arrived = yield Waypoint((x, y, z + HOVER), closed=True, straight=False)
    if not arrived.reachable:
        return f"The arm can't reach {here}, so the object is still in the gripper."
    arrived = yield Waypoint((x, y, z), closed=True)
    stopped = _stopped(arrived, (x, y, z))
    yield Waypoint(arrived.at, closed=False)
    yield from _retreat((x, y, z + HOVER), closed=False)
    return f"{stopped}, and the object was let go there, not at {here}." if stopped else ""


def push(x1: int, y1: int, z1: int, x2: int, y2: int, z2: int, *, holding: str) -> Skill:
    """Push an object whose centre is at the first point until it is at the second."""
    if holding:
        return "The gripper holds an object, so push did nothing; place the object first."
    length = math.hypot(x2 - x1, y2 - y1)
    if length < 1:
        return (
            "A push goes sideways, and the two points do not differ in x or y, so push did nothing."
        )
    along_x = (x2 - x1) / length
    along_y = (y2 - y1) / length
    start = (x1 - STANDOFF * along_x, y1 - STANDOFF * along_y, float(z1))
    end = (x2 - CONTACT * along_x, y2 - CONTACT * along_y, float(z2))
    # Fingers across the way: the palm is wide along them and would hit what stands behind the
    # object.
    turn = math.atan2(along_y, along_x)
    turn -= math.pi * round(turn / math.pi)
    above = (start[0], start[1], start[2] + HOVER)
    arrived = yield Waypoint(above, closed=True, turn=turn, straight=False)
    if not arrived.reachable:
        return f"The arm can't reach {_say(start)}, where this push begins."
    arrived = yield Waypoint(start, closed=True, turn=turn)
    stopped = _stopped(arrived, start)
    if not stopped:
        arrived = yield Waypoint(end, closed=True, turn=turn)
        stopped = _stopped(arrived, end)
    x, y, z = arrived.at
    yield from _retreat((x, y, z + HOVER), closed=True, turn=turn)
    return f"{stopped} during the push." if stopped else ""


SKILLS: Mapping[str, Callable[..., Skill]] = {"pick": pick, "place": place, "push": push}
ARITY = {"pick": 3, "place": 3, "push": 6}


class SkillCalls(Calls):
    """The skills' calls, in whole millimetres to which fractions are rounded, or refused outside a
    workspace.
    """

    def __init__(self, workspace: Workspace | None) -> None:
        super().__init__(ARITY, integers=False)
        self._workspace = workspace

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        action = super().read(piece, start, end)
        if isinstance(action, Refused):
            return action
        numbers = tuple(map(round, action.args))
        if numbers != action.args:
            action = replace(action, args=numbers, text=call_text(action.name, numbers))
        for axis, value, (low, high) in zip(
            "xyzxyz", numbers, (self._workspace or ()) * 2, strict=False
        ):
            if not low <= value <= high:
                why = (
                    f"{action.text} is out of the workspace: {axis}={value} is not between {low} "
                    f"and {high}"
                )
                return Refused("bad_argument", why)
        return action

    def summary(self) -> str:
        return "pick(x, y, z), place(x, y, z), push(x1, y1, z1, x2, y2, z2)"


def _retreat(
    above: Point, *, closed: bool, turn: float = 0.0
) -> Generator[Waypoint, Arrived, None]:
    yield Waypoint(above, closed, turn)
    yield Waypoint(None, closed=False, straight=False)


def _stopped(arrived: Arrived, goal: Point) -> str:
    """Why the hand didn't come to a waypoint, or nothing if it did."""
    if math.dist(arrived.at, goal) <= TOLERANCE:
        return ""
    why = "Something was in the way" if arrived.reachable else "The arm can't bend that way"
    return f"{why}: the hand stopped at {_say(arrived.at)}"


def _say(point: Point) -> str:
    return "({}, {}, {})".format(*(round(value) for value in point))
