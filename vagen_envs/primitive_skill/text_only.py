"""What PrimitiveSkill's text gives away: skills for the positions that it lists, without a look at
the picture.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from vagen_envs.core import VagenEnv
from vagen_envs.primitive_skill.cabinets import Vector
from vagen_envs.primitive_skill.levels import CUBE, near
from vagen_envs.replies import call_text

_POINT = re.compile(r"\((-?\d+), (-?\d+), (-?\d+)\)")
_BESIDE = 49
"""Cubes of 40 mm that stand beside each other are farther apart: the gripper needs 70 between them
(`levels.apart`).
"""
_OPEN = re.compile(r"'drawer_open_value': (\d+)")


def text_only_reply(env: VagenEnv) -> str:
    """The reply of an agent that reads the listed positions and guesses which is which."""
    words = dict.fromkeys(("observation", "reasoning", "prediction", "think"), "I did not look.")
    skills = read_skills(env.observed.text, env.config.task) or [call_text("pick", [0, 0, 0])]  # type: ignore[attr-defined]
    return env.grammar.render(skills[: env.config.max_actions_per_turn], **words)


def read_skills(text: str, task: str) -> list[str]:
    """Skills for the positions in a text; none where it lists none, or where all seems done."""
    _, _, listed = text.partition("Object positions:\n")
    points: list[Vector] = [
        (int(x), int(y), int(z)) for x, y, z in _POINT.findall(listed.partition("\n")[0])
    ]
    if not points:
        return []
    if opened := _OPEN.search(listed):
        return _shut(points, int(opened[1]))
    moves = _MOVES.get(task, _onto_the_line)
    skills = []
    for at, (x, y, z) in moves(points):
        # Half a cube and 5 mm of air: the hand lets go above what it stands on.
        skills += [call_text("pick", at), call_text("place", (x, y, z + 25))]
    return skills


def _onto_discs(points: list[Vector]) -> Iterator[tuple[Vector, Vector]]:
    """Put any cube on each disc that has none."""
    discs = sorted((point for point in points if point[2] == 0), key=lambda disc: disc[1])
    cubes = [point for point in points if point[2] > 0]
    loose = [cube for cube in cubes if not _beside_one_of(cube, discs)]
    free = [disc for disc in discs if not _beside_one_of(disc, cubes)]
    return zip(loose, free, strict=False)


def _onto_one_another(points: list[Vector]) -> Iterator[tuple[Vector, Vector]]:
    """Stack the others, in their order, on the highest thing, or on the first if all are low."""
    highest = max(points, key=lambda point: point[2])
    top = highest if highest[2] >= CUBE else points[0]
    loose = [point for point in points if not near(point, top, _BESIDE)]
    for level, point in enumerate(loose):
        yield point, (top[0], top[1], top[2] + 20 + CUBE * level)


def _onto_the_line(points: list[Vector]) -> Iterator[tuple[Vector, Vector]]:
    """Move each thing that is off the line straight onto it."""
    for point in points:
        if abs(point[0]) > 10:
            yield point, (0, point[1], 0)


_MOVES = {"place": _onto_discs, "stack": _onto_one_another}


def _beside_one_of(point: Vector, others: list[Vector]) -> bool:
    return any(near(point, other, _BESIDE) for other in others)


def _shut(points: list[Vector], opened: int) -> list[str]:
    """Find drawer and handle, which are in line; the remaining position is the apple, whose place
    is the drawer.
    """
    pairs = [
        (one, other)
        for one, other in itertools.product(points, points)
        if one[1] < other[1] and one[0] == other[0]
    ]
    drawer, handle = pairs[0] if pairs else (points[0], points[1])
    apple = next((point for point in points if point not in (drawer, handle)), drawer)
    x, y, z = handle
    push = call_text("push", [x, y, z, x, y - opened, z])
    is_inside = abs(apple[0] - drawer[0]) < 50 and abs(apple[1] - drawer[1]) < 60
    if is_inside:
        return [push]
    pick = call_text("pick", apple)
    place = call_text("place", (*drawer[:2], 100))
    return [pick, place, push]
