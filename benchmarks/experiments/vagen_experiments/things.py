"""The things in a picture, and what a look at each should tell: for eyes that are taught, and for
probes of them.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Container, Mapping
from typing import NamedTuple

from vagen_envs import State
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.grid import Position
from vagen_envs.navigation.state import NavigationState, words
from vagen_envs.primitive_skill.levels import say
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.sample.generated import SHAPES
from vagen_envs.sample.shapes import COLOURS
from vagen_envs.sample.state import SampleState
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import Element, SvgState

SHAPE_FACT = re.compile(r"the picture has an? (\w+) (\w+) at \((\d+), (\d+), (\d+), (\d+)\)")
"""Of a generated sample: colour, kind and the box in thousandths of the picture."""
SIDES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


class Thing(NamedTuple):
    """A thing in a picture.

    Attributes:
        name: of its kind. A board may have several things of one name; they are told alike.
        at: (x, y) of its middle, as shares of the picture's width and height from the upper left;
            `None` where the state doesn't know the picture. No two such things of a state have the
            same name.
        relations: what is true of it, in numbers: how far away what matters is, what is beside it
            (1.0, else 0.0).
    """

    name: str
    at: tuple[float, float] | None
    relations: Mapping[str, float]


@functools.singledispatch
def things(state: State) -> tuple[Thing, ...]:  # noqa: ARG001  (a default)
    """The things in the picture of this state, with their relations; none where that isn't
    known.
    """
    return ()


@things.register
def _of_sokoban(state: SokobanState) -> tuple[Thing, ...]:
    """Player, boxes and targets, with what is beside each and the way to the nearest of what
    matters to it.
    """
    size, boxes, targets = (state.height, state.width), state.boxes, state.targets
    cells = [(row, column) for row in range(state.height) for column in range(state.width)]
    walls = {
        (row, column) for row, column in cells if not state.floor >> row * state.width + column & 1
    }
    beside = {"wall": walls, "box": boxes, "target": targets, "player": (state.player,)}
    to_box, to_player = {"box": nearest(state.player, boxes)}, {"player": state.player}
    return (
        on_board("player", state.player, size, beside=beside, ways=to_box),
        *(
            on_board("box", box, size, beside=beside, ways={"target": nearest(box, targets)})
            for box in boxes
        ),
        *(on_board("target", target, size, beside=beside, ways=to_player) for target in targets),
    )


@things.register
def _of_frozen_lake(state: FrozenLakeState) -> tuple[Thing, ...]:
    """Player, target and holes, each with what is beside it and the way to the target or the
    player.
    """
    size, goals = state.shape, (state.target, *state.more_targets)
    beside = {"hole": state.holes, "edge": outside(*size)}
    to_target, to_player = {"target": state.target}, {"player": state.player}
    return (
        on_board("player", state.player, size, beside=beside, ways=to_target),
        *(on_board("target", goal, size, beside=beside, ways=to_player) for goal in goals),
        *(
            on_board("hole", hole, size, beside=beside, ways=to_target | to_player)
            for hole in state.holes
        ),
    )


@things.register
def _of_navigation(state: NavigationState) -> tuple[Thing, ...]:
    """The nearest visible thing of each type: how many metres ahead it is, and how many to the
    right.
    """
    found: dict[str, Thing] = {}
    for (kind, _, far), angle in zip(state.visible_objects, state.bearings, strict=False):
        turned = math.radians(angle)
        way = {
            "distance": far,
            "ahead": far * math.cos(turned),
            "to the right": far * math.sin(turned),
        }
        found.setdefault(kind, Thing(words(kind), None, way))
    return tuple(found.values())


@things.register
def _of_svg(state: SvgState) -> tuple[Thing, ...]:
    """The elements of the target, in the left half of the picture, and those of the drawing, in its
    right half.
    """
    halves = ((state.target, 0.0), (state.drawing or (), 0.5))
    return tuple(_thing(element, left) for elements, left in halves for element in elements)


@things.register
def _of_primitive_skill(state: PrimitiveSkillState) -> tuple[Thing, ...]:
    """Each named thing with its place in millimetres and whether the gripper holds it, and the
    drawer.
    """
    found = [
        Thing(
            say(name),
            None,
            {"x": float(x), "y": float(y), "z": float(z), "held": float(name == state.held)},
        )
        for name, (x, y, z) in state.positions.items()
    ]
    if state.drawer_open_value is not None:
        found.append(Thing("opening", None, {"open": float(state.drawer_open_value)}))
    return tuple(found)


@things.register
def _of_sample(state: SampleState) -> tuple[Thing, ...]:
    """The shapes of a generated picture: kind, colour and edges in thousandths of the picture."""
    return tuple(_shape(match) for match in map(SHAPE_FACT.fullmatch, state.facts) if match)


def _shape(match: re.Match[str]) -> Thing:
    colour, kind, *edges = match.groups()
    left, top, right, bottom = (float(edge) for edge in edges)
    relations = {shape: float(shape == kind) for shape in SHAPES}
    relations |= {name: float(name == colour) for name in COLOURS}
    relations |= {"left": left, "top": top, "right": right, "bottom": bottom}
    return Thing("shape", ((left + right) / 2000, (top + bottom) / 2000), relations)


def _thing(element: Element, left: float) -> Thing:
    red, green, blue = (int(element.colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    size = {"width": float(element.width), "height": float(element.height)}
    return Thing(
        element.shape,
        (left + element.x / 200, element.y / 100),
        {
            **size,
            "filled": float(element.how == "filled"),
            "red": red,
            "green": green,
            "blue": blue,
        },
    )


def on_board(
    name: str,
    at: Position,
    size: tuple[int, int],
    *,
    beside: Mapping[str, Container[Position]],
    ways: Mapping[str, Position],
) -> Thing:
    """A thing in a cell of a board of (rows, columns).

    Args:
        name: of its kind.
        at: its cell.
        size: of the board.
        beside: cells by content; 1.0 for each side of the object that has it.
        ways: cells of what matters; it is so many rows below and columns to the right of the thing.
    """
    (row, column), (rows, columns) = at, size
    relations = {
        f"{what} {side}": float((row + down, column + right) in cells)
        for what, cells in beside.items()
        for side, (down, right) in SIDES.items()
    }
    for what, (there_row, there_column) in ways.items():
        relations |= {
            f"rows to {what}": float(there_row - row),
            f"columns to {what}": float(there_column - column),
        }
    return Thing(name, ((column + 0.5) / columns, (row + 0.5) / rows), relations)


def outside(rows: int, columns: int) -> frozenset[Position]:
    """The cells around a board, which its edge keeps one from."""
    sides = {(row, column) for row in range(rows) for column in (-1, columns)}
    return frozenset(sides | {(row, column) for row in (-1, rows) for column in range(columns)})


def nearest(at: Position, cells: tuple[Position, ...]) -> Position:
    """Of some cells the one with the fewest moves between, the first of several."""
    return min(cells, key=lambda cell: abs(cell[0] - at[0]) + abs(cell[1] - at[1]))
