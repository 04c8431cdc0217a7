"""What counts in each task: subgoals, success, and the oracle's plan. Pure functions of a level and
a state.

Stages, from 0: in place, stack and align, a cube that has to move is lifted (0), it is where it
belongs (1), and the other one is lifted (2); in drawer, the apple is lifted (0) and lies in the
drawer (1). Success follows. The paper names no stages, and its release only those of one task.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from vagen_envs.errors import LevelError
from vagen_envs.primitive_skill import levels
from vagen_envs.primitive_skill.cabinets import Cabinet, PublishedCabinet, Vector
from vagen_envs.primitive_skill.levels import CUBE, ManipulationLevel
from vagen_envs.primitive_skill.state import PrimitiveSkillState as State
from vagen_envs.replies import call_text

STACKED = 20
"""A cube is on another if their centres are nearer than this in x and in y (as released: xy < 2
cm).
"""
ALIGNED = 10
"""A cube is on the line if |x| is at most this (as released)."""
_HALF = CUBE // 2
_LINE = range(-170, 171, 10)
"""Places on the line, along y."""
_LEVEL = 10
"""Heights that differ by less are the same."""


def solved(level: ManipulationLevel, state: State) -> bool:
    """Whether the task is done, with nothing left in the gripper."""
    if state.held:
        return False
    if level.cabinet is not None:
        is_shut = (state.drawer_open_value or 0) <= level.cabinet.shut
        return is_shut and level.cabinet.holds(state.positions)
    return len(_done(level, state)) == len(_movers(level))


def skills_needed(task: str, cubes: int, covered: bool = False) -> int:
    """Skills of the longest solution from the start: two for each cube that has to move; pick,
    place and push.
    """
    if task == "drawer":
        return 3
    if task == "stack":
        return 2 * (cubes - 1 + covered)
    return 4


def stage(level: ManipulationLevel, state: State) -> int:
    """The highest stage that is complete now, -1 for none."""
    if level.cabinet is not None:
        if state.held:
            return 0
        return 1 if level.cabinet.holds(state.positions) else -1
    done = _done(level, state)
    lifted = state.held in _movers(level) and state.held not in done
    return 2 * len(done) + lifted - 1


def plan(level: ManipulationLevel, state: State) -> list[str]:
    """The rest of a solution. Raises LevelError if a shut drawer would have to be opened, which no
    skill can do.
    """
    if solved(level, state):
        return []
    return (
        _plan_cubes(level, state) if level.cabinet is None else _plan_drawer(level.cabinet, state)
    )


# -- cubes -----------------------------------------------------------------------------------------


def _movers(level: ManipulationLevel) -> tuple[str, ...]:
    """The cubes that have to be brought somewhere, in the order in which that works."""
    if level.task == "align":
        return level.goal or tuple(body.name for body in level.bodies)
    return level.goal[1:] if level.task == "stack" else level.goal


def _done(level: ManipulationLevel, state: State) -> tuple[str, ...]:
    """The cubes that are where they belong."""
    at = state.positions
    if level.task == "stack":
        done: list[str] = []
        for below, above in itertools.pairwise(level.goal):
            if above == state.held or not _on(at[above], at[below]):
                break
            done.append(above)
        return tuple(done)
    resting = [
        name for name in _movers(level) if name != state.held and abs(at[name][2] - _HALF) < _LEVEL
    ]
    if level.task == "place":
        return tuple(
            name
            for name in resting
            if levels.near(at[name], _disc(level, name), levels.TARGET_RADIUS)
        )
    lined = [name for name in resting if abs(at[name][0]) <= ALIGNED]
    if len(lined) == 2 and level.goal and at[level.goal[0]][1] >= at[level.goal[1]][1]:
        lined.pop()  # in the wrong order: one of them has to go to the other side
    return tuple(lined)


def _plan_cubes(level: ManipulationLevel, state: State) -> list[str]:
    done = _done(level, state)
    movers = _movers(level)
    at = dict(state.positions)
    held = state.held
    actions: list[str] = []

    def put_aside(name: str, goal: Vector | None = None) -> None:
        at[name] = _free_spot(level, at, name, goal)
        actions.append(_place(at[name]))

    waiting = [name for name in movers if name not in done]
    if level.task != "stack":
        # A stack is built from below; elsewhere the cube in the hand comes first.
        waiting.sort(key=lambda name: name != held)
    for name in waiting:
        goal = _goal_of(level, at, name)
        others = [cube for cube in at if cube not in levels.TARGETS and cube != name]
        blockers = [
            cube for cube in others if _on(at[cube], at[name]) or _in_the_way(level, at[cube], goal)
        ]
        if held and (held != name or blockers):
            put_aside(held, goal)
            blockers = [cube for cube in blockers if cube != held]
            held = ""
        for blocker in blockers:
            actions.append(call_text("pick", at[blocker]))
            put_aside(blocker, goal)
        if held != name:
            actions.append(call_text("pick", at[name]))
        held = ""
        actions.append(_place(goal))
        at[name] = goal
    if held:
        put_aside(held)
    return actions


def _goal_of(level: ManipulationLevel, at: Mapping[str, Vector], name: str) -> Vector:
    """Where the centre of a cube belongs."""
    if level.task == "place":
        x, y, _ = _disc(level, name)
        return x, y, _HALF
    if level.task == "stack":
        x, y, z = at[level.goal[level.goal.index(name) - 1]]
        return x, y, z + CUBE
    other = next(at[cube] for cube in at if cube != name)
    on_line = abs(other[0]) <= ALIGNED
    side = 0
    if level.goal:
        side = 1 if name == level.goal[0] else -1
    # A cube that is still to follow may be put on either side later, if there is room for it.
    if on_line:
        allowed = [y for y in _LINE if side * (y - other[1]) <= 0]
    else:
        allowed = [y for y in _LINE if side * y <= 50]
    spots = [(0, y, _HALF) for y in allowed if levels.apart((0, y, _HALF), other)]
    if not spots:
        raise LevelError(
            f"no room on the line for {name} beside a cube at {other}; reset for another level"
        )
    return min(spots, key=lambda spot: (abs(spot[1] - at[name][1]), spot))


def _in_the_way(level: ManipulationLevel, other: Vector, goal: Vector) -> bool:
    """Whether a cube at `other` keeps the hand from `goal`."""
    if level.task == "stack":
        return levels.near(other, goal, 30) and other[2] >= goal[2] - _LEVEL
    return not levels.apart(goal, other)


def _free_spot(
    level: ManipulationLevel, at: Mapping[str, Vector], name: str, goal: Vector | None = None
) -> Vector:
    """A spot on the table away from everything, the nearest one."""
    things = [spot for other, spot in at.items() if other != name] + ([goal] if goal else [])
    spots = [
        spot for spot in levels.free_spots(things) if level.task != "align" or abs(spot[0]) > CUBE
    ]
    if not spots:
        raise LevelError(f"no free spot on the table for {name}; reset for another level")
    x, y, _ = at[name]
    return min(spots, key=lambda spot: (abs(spot[0] - x) + abs(spot[1] - y), spot))


def _disc(level: ManipulationLevel, name: str) -> Vector:
    return levels.TARGETS[("left_target", "right_target")[level.goal.index(name)]]


def _on(above: Vector, below: Vector) -> bool:
    return levels.near(above, below, STACKED) and abs(above[2] - below[2] - CUBE) < _LEVEL


# -- drawer ----------------------------------------------------------------------------------------


def _plan_drawer(cabinet: Cabinet | PublishedCabinet, state: State) -> list[str]:
    opened = state.drawer_open_value or 0
    at = state.positions
    actions = []
    if state.held or not cabinet.holds(at):
        if opened < cabinet.room:
            why = (
                f"the drawer is open by {opened} mm only, too little for the apple, and no skill "
                "opens it"
            )
            raise LevelError(f"{why}; reset for another level")
        if not state.held:
            actions.append(call_text("pick", at["apple"]))
        actions.append(call_text("place", levels.FLOOR.clip(cabinet.drop(opened))))
    return [*actions, call_text("push", levels.FLOOR.clip((*at["handle"], *cabinet.handle_at(0))))]


def _place(at: Vector) -> str:
    return call_text("place", (at[0], at[1], at[2] + 5))
