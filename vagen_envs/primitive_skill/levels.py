"""Levels of the four tasks: initial positions, goals and instructions.

Lengths are millimetres in the world's axes: the camera looks towards -x, +y is to its right, +z up,
and the table's top is z = 0. Layouts keep the distances that the skills need (`apart`), so that
each level can be solved by construction.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vagen_envs.errors import LevelError
from vagen_envs.primitive_skill.cabinets import ARM_X, Cabinet, PublishedCabinet, Vector
from vagen_envs.seeding import HashStream, Split, split_of

CUBE = 40
"""Edge of a cube."""
TARGET_RADIUS = 50
APPLE_RADIUS = 32
TARGETS: Mapping[str, Vector] = {"left_target": (80, -100, 0), "right_target": (80, 100, 0)}


class Workspace(NamedTuple):
    """What the skills' coordinates may be: lowest and highest x, y and z, both included."""

    x: tuple[int, int]
    y: tuple[int, int]
    z: tuple[int, int]

    def clip(self, numbers: Sequence[float]) -> tuple[int, ...]:
        """The whole coordinates x, y, z, x, … moved into the workspace."""
        return tuple(
            int(min(max(value, low), high))
            for value, (low, high) in zip(numbers, self * 2, strict=False)
        )


TABLE = Workspace((-100, 150), (-200, 200), (10, 200))
FLOOR = Workspace((-500, -100), (-600, 200), (10, 650))


@dataclass(frozen=True, slots=True)
class Body:
    """A thing that can be moved: its name (colour first), where its centre starts, its turn about z
    in degrees.
    """

    name: str
    at: Vector
    yaw: int = 0


@dataclass(frozen=True, slots=True)
class ManipulationLevel:
    """One level.

    Attributes:
        bodies: what can be moved.
        targets: names of the discs on the table.
        cabinet: of the drawer task; `PublishedCabinet` stands for the whole published scene.
        goal: of place, the cube for the left and the one for the right target; of stack, the cubes
            from the lowest up; of align, the cubes from left to right, or nothing if any order will
            do.
        instruction: what a person asks for. True.
        listing: names in the order in which the observation lists positions, without the names.
    """

    task: str
    bodies: tuple[Body, ...]
    targets: tuple[str, ...]
    cabinet: Cabinet | PublishedCabinet | None
    goal: tuple[str, ...]
    instruction: str
    listing: tuple[str, ...]

    @property
    def arm_x(self) -> int:
        """Where the arm stands, at y = 0."""
        return self.cabinet.arm_x if self.cabinet else ARM_X

    def content(self) -> bytes:
        """Canonical: colours, words and goals left out, and equal for a layout and its mirror
        image.

        So all goals and words over one layout stay within one split. A cabinet has no mirror image.
        """
        cabinet = self.cabinet and self.cabinet.content
        views = []
        for side in (1,) if cabinet else (1, -1):
            bodies = [(side * body.at[1], body.at[0], side * body.yaw % 90) for body in self.bodies]
            views.append(sorted(bodies))
        return json.dumps(["table" if cabinet is None else "floor", min(views), cabinet]).encode()


def draw_level(
    task: str,
    stream: HashStream,
    split: Split,
    published: PublishedCabinet | None = None,
    cubes: int = 3,
    distractors: int = 0,
    covered: bool = False,
) -> ManipulationLevel:
    """Draw levels of a task, or of the published drawer scene, until one belongs to `split`.

    `stack` builds a tower of `cubes`; `place` and `stack` have `distractors` further
    cubes. If `covered`, the first of these stands on the lowest cube of the tower.
    """
    draw = {
        "place": lambda: _draw_place(stream, distractors),
        "stack": lambda: _draw_stack(stream, cubes, distractors, covered),
        "align": lambda: _draw_align(stream),
        "drawer": lambda: _draw_drawer(stream, published),
    }[task]
    # The smallest split takes a tenth of the levels: 2,000 draws miss it once in 10**91 times.
    for _ in range(2_000):
        level = draw()
        if split_of(level.content()) == split:
            return level
    raise LevelError(f"no {task} level for split {split} in 2000 draws; report this as a bug")


def apart(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether the open gripper can reach down to `a` while a cube stands at `b`; its fingers spread
    along y.
    """
    return abs(a[1] - b[1]) >= 100 or abs(a[0] - b[0]) >= 70


def near(a: Vector, b: Vector, distance: int) -> bool:
    """Whether two points differ by at most `distance` in x and in y."""
    return abs(a[0] - b[0]) <= distance and abs(a[1] - b[1]) <= distance


def free_spots(things: Collection[Vector]) -> list[Vector]:
    """Places on the table, each centimetre, where a cube is `apart` from everything."""
    return [_at(10 * i, 10 * j) for i, j in np.argwhere(_free_of(things)[::10, ::10]).tolist()]


def _at(i: int, j: int) -> Vector:
    """A cube's centre at one of the millimetres of `_free_of`."""
    return i - 80, j - 160, CUBE // 2


def _free_of(things: Collection[Vector], fingers: int = 100) -> NDArray[np.bool_]:
    """Which millimetres of the table, from x = -80 and y = -160 on, are `apart` from everything."""
    free = np.ones((211, 321), np.bool_)
    for x, y, _ in things:
        i = x + 80
        j = y + 160
        rows = slice(max(i - 69, 0), max(i + 70, 0))
        columns = slice(max(j - fingers + 1, 0), max(j + fingers, 0))
        free[rows, columns] = False
    return free


def say(name: str) -> str:
    """`red_cube` as people say it."""
    return name.replace("_", " ")


def _lay_out(
    stream: HashStream,
    names: Collection[str],
    free: NDArray[np.bool_],
    crowded: bool,
    fingers: int = 100,
) -> tuple[Body, ...]:
    """Cubes on free millimetres, `apart` from each other: anywhere, all anew if one isn't, or where
    room is left.

    Beside two cubes on each other the palm needs room too: 150 for `fingers`.
    """
    while True:
        bodies: list[Body] = []
        for name in names:
            left = free & _free_of([body.at for body in bodies], fingers)
            if crowded:
                places = np.argwhere(left)
                if not len(places):
                    break
                i, j = places[stream.below(len(places))].tolist()
            else:
                i = stream.below(211)
                j = stream.below(321)
            if left[i, j]:
                bodies.append(Body(name, _at(i, j), stream.below(31) - 15))
        if len(bodies) == len(names):
            return tuple(bodies)


def _shuffled(stream: HashStream, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(stream.sample(names, len(names)))


_INSTRUCTIONS = tomllib.loads(
    Path(__file__).with_name("instructions.toml").read_text(encoding="utf-8")
)

_DISTRACTORS = ("purple_cube", "white_cube")
"""Cubes that no instruction speaks of, unless a tower needs the first as its fifth."""


def _draw_place(stream: HashStream, distractors: int) -> ManipulationLevel:
    cubes = ("red_cube", "green_cube")
    all_cubes = (*cubes, *_DISTRACTORS[:distractors])
    bodies = _lay_out(stream, all_cubes, _free_of(TARGETS.values()), distractors > 0)
    left, right = goal = _shuffled(stream, cubes)
    words = stream.choice(_INSTRUCTIONS["place"]).format(left=say(left), right=say(right))
    listing = _shuffled(stream, (*all_cubes, *TARGETS))
    return ManipulationLevel("place", bodies, tuple(TARGETS), None, goal, words, listing)


def _within_reach(bodies: tuple[Body, ...], order: tuple[str, ...]) -> bool:
    """Whether the arm gets by a tower of four with the fifth cube.

    It comes from -x. Of 40 towers it overthrew two on its way, at x of -67 and -80, and of 110 that
    stood clear of that one as it reached over it, for a fifth cube right behind.
    """
    at = {body.name: body.at for body in bodies}
    (x, y, _), (last_x, last_y, _) = at[order[0]], at[order[-1]]
    return x >= 0 and (last_x <= x or abs(last_y - y) >= 150)


def _draw_stack(
    stream: HashStream, height: int, distractors: int, covered: bool
) -> ManipulationLevel:
    every = ("red_cube", "green_cube", "yellow_cube", "blue_cube", *_DISTRACTORS)
    cubes = every[:height]
    others = every[max(height, 4) :][:distractors]
    all_cubes = (*cubes, *others)
    spread = tuple(name for name in all_cubes if not covered or name != others[0])
    goal: tuple[str, ...] = ()
    while not goal:
        bodies = _lay_out(stream, spread, _free_of(()), len(all_cubes) != 3, fingers=150)
        if covered and not free_spots([body.at for body in bodies]):
            continue  # what stands on the lowest cube has to go somewhere
        for _ in range(8):  # cubes that no order suits are laid out anew
            order = _shuffled(stream, cubes)
            if height < 5 or _within_reach(bodies, order):
                goal = order
                break
    if covered:
        x, y, z = next(body.at for body in bodies if body.name == goal[0])
        bodies = (*bodies, Body(others[0], (x, y, z + CUBE)))
    *lower, top = (say(name) for name in goal)
    pattern = stream.choice(_INSTRUCTIONS["stack" if height == 3 else "tower"])
    words = pattern.format(bottom=lower[0], middle=lower[-1], top=top, lower=", the ".join(lower))
    return ManipulationLevel("stack", bodies, (), None, goal, words, _shuffled(stream, all_cubes))


def _draw_align(stream: HashStream) -> ManipulationLevel:
    cubes = ("red_cube", "green_cube")
    off_the_line = np.broadcast_to(abs(np.arange(-80, 131)) >= CUBE, (321, 211)).T
    bodies = _lay_out(stream, cubes, off_the_line, crowded=False)
    goal: tuple[str, ...] = ()
    words = stream.choice(_INSTRUCTIONS["align"])
    if stream.below(3):
        left, right = goal = _shuffled(stream, cubes)
        words = stream.choice(_INSTRUCTIONS["align_ordered"]).format(
            left=say(left), right=say(right)
        )
    return ManipulationLevel("align", bodies, (), None, goal, words, _shuffled(stream, cubes))


def _draw_drawer(stream: HashStream, published: PublishedCabinet | None) -> ManipulationLevel:
    cabinet: Cabinet | PublishedCabinet
    if published is not None:
        # Where the release lets the apple lie.
        cabinet = published
        x = stream.below(51) - 150
        y = 100 + stream.below(101)
        z = published.apple_height
    else:
        cabinet = Cabinet(stream.below(81) - 300, stream.below(71) - 370, 130 + stream.below(31))
        x = ARM_X
        y = 0
        z = APPLE_RADIUS
        while math.hypot(x - ARM_X, y) < 340:  # nearer to its foot the arm can't bend enough
            x = stream.below(181) - 330
            y = 40 + stream.below(121)
    apple = Body("apple", (x, y, z), stream.below(360))
    words = stream.choice(_INSTRUCTIONS["drawer"])
    listing = _shuffled(stream, ("apple", "drawer", "handle"))
    return ManipulationLevel("drawer", (apple,), (), cabinet, (), words, listing)
