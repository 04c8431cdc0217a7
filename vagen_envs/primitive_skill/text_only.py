"""What PrimitiveSkill's text gives away: skills for the positions that it lists, without a look at the picture."""

from __future__ import annotations

import re
from collections.abc import Callable

from vagen_envs.core import VagenEnv
from vagen_envs.primitive_skill.cabinets import Vector
from vagen_envs.primitive_skill.levels import CUBE, near
from vagen_envs.replies import call_text

_POINT = re.compile(r"\((-?\d+), (-?\d+), (-?\d+)\)")
_BESIDE = 49
"""Cubes of 40 mm that stand beside each other are farther apart: the gripper needs 70 between them (`levels.apart`)."""
_OPEN = re.compile(r"'drawer_open_value': (\d+)")


def text_only_reply(env: VagenEnv) -> str:
    """The reply of an agent that reads the listed positions and guesses which is which."""
    words = dict.fromkeys(("observation", "reasoning", "prediction", "think"), "I did not look.")
    skills = read_skills(env.observed.text, env.config.task) or [call_text("pick", [0, 0, 0])]  # type: ignore[attr-defined]
    return env.grammar.render(skills[: env.config.max_actions_per_turn], **words)


def read_skills(text: str, task: str) -> list[str]:
    """Skills for the positions in a text; none where it lists none, or where all seems done."""
    _, _, listed = text.partition("Object positions:\n")
    points: list[Vector] = [(int(x), int(y), int(z)) for x, y, z in _POINT.findall(listed.partition("\n")[0])]
    if not points:
        return []
    if opened := _OPEN.search(listed):
        return _shut(points, int(opened[1]))
    return _TASKS[task](points)


def _shut(points: list[Vector], opened: int) -> list[str]:
    """Find drawer and handle, which are in line; the remaining position is the apple, whose place is the drawer."""
    pairs = [(one, other) for one in points for other in points if one[1] < other[1] and one[0] == other[0]]
    drawer, handle = pairs[0] if pairs else (points[0], points[1])
    apple = next((each for each in points if each not in (drawer, handle)), drawer)
    x, y, z = handle
    push = call_text("push", [x, y, z, x, y - opened, z])
    if abs(apple[0] - drawer[0]) < 50 and abs(apple[1] - drawer[1]) < 60:
        return [push]
    return [call_text("pick", apple), call_text("place", (*drawer[:2], 100)), push]


def _place(points: list[Vector]) -> list[str]:
    """Each disc gets a cube, whichever."""
    discs = sorted((each for each in points if each[2] == 0), key=lambda each: each[1])
    cubes = [each for each in points if each[2] > 0]
    free = [disc for disc in discs if not any(near(cube, disc, _BESIDE) for cube in cubes)]
    loose = [cube for cube in cubes if not any(near(cube, disc, _BESIDE) for disc in discs)]
    return _carried(loose, free)


def _stack(points: list[Vector]) -> list[str]:
    """The others onto the first, as they are listed."""
    top = max(points, key=lambda each: each[2])
    if top[2] < CUBE:  # none is on another
        top = points[0]
    loose = [each for each in points if not near(each, top, _BESIDE)]
    return _carried(loose, [(top[0], top[1], top[2] + 20 + CUBE * level) for level in range(len(loose))])


def _align(points: list[Vector]) -> list[str]:
    """Those that are off the line straight onto it."""
    loose = [each for each in points if abs(each[0]) > 10]
    return _carried(loose, [(0, y, 0) for _, y, _ in loose])


def _carried(things: list[Vector], places: list[Vector]) -> list[str]:
    # Half a cube and 5 mm of air: the hand lets go above what it stands on.
    pairs = zip(things, places, strict=False)
    return [skill for at, (x, y, z) in pairs for skill in (call_text("pick", at), call_text("place", (x, y, z + 25)))]


_TASKS: dict[str, Callable[[list[Vector]], list[str]]] = {"place": _place, "stack": _stack, "align": _align}
