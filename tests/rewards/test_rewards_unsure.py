"""Where the reader isn't sure it abstains; styles and notations that models use are read as they are meant."""

from __future__ import annotations

import pytest

from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.navigation.state import NavigationState
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import Element, SvgState
from vagen_rewards import RuleJudge, Statement

EVERYWHERE = (1 << 36) - 1
ROOM = SokobanState(6, 6, EVERYWHERE, (4, 1), ((2, 3),), ((2, 1),))  # box up and right, target straight up
LAKE = FrozenLakeState(4, (1, 2), (3, 0), ((1, 0), (2, 2)))  # goal down and left; holes left and below
HOUSE = NavigationState("Safe", 2.0, "back", (("Chair", "ahead", 1.1),))
TABLE = PrimitiveSkillState("place", {"red_cube": (15, 135, 20), "green_cube": (89, -124, 20)}, "", None)
ICON = SvgState((Element("rectangle", "filled", "#0000ff", 50, 20, 20, 20), Element("circle", "filled", "#ff0000", 50, 70, 20, 20)))  # fmt: skip


def verdict(state, text, part="grounding"):
    return RuleJudge("direct").score(Statement(part, text, state)).value


@pytest.mark.parametrize(
    ("state", "right", "wrong"),
    [
        (ROOM, "player → box: up-right, player → target: up", "player → box: down-left, player → target: up"),
        (ROOM, "Box → upper right of player; Target → top of player.", "Box → lower right of player."),
        (ROOM, "box (northeast), target (north) as seen from the player", "box (southwest) as seen from the player"),
        (ROOM, "Player at r4c1, box at r2c3, target at r2c1.", "Player at r4c1, box at r3c3, target at r2c1."),
        (ROOM, "The box is at x=3, y=2.", "The box is at x=1, y=4."),
        (ROOM, "The player stands at (5, 2) counting from 1, the box at (3, 4).", "Counting from 1, the box is at (2, 3)."),
        (ROOM, "| object | where |\n|---|---|\n| box | above and to the right |", "| box | below the player |"),
        (ROOM, "The target is directly above the player.", "The box is directly above the player."),
        (ROOM, "The goal? It is directly above the player.", "The goal? It is below the player."),
        (LAKE, "goal: 2 south, 2 west | hole: 1 south", "goal: 2 north, 2 east | hole: 1 south"),
        (LAKE, "I expect to be above and to the right of the goal.", "I expect to be below the goal."),
        (HOUSE, "**Target:** safe\n**Direction:** behind", "**Target:** safe\n**Direction:** left"),
        (HOUSE, "My target, the safe, can be found behind me.", "The safe can be found on my left."),
        (TABLE, "red cube at x=15, y=135", "red cube at x=15, y=-135"),
        (TABLE, "The green cube's x-coordinate is 89 and its y-coordinate is -124.", "x: 0, y: 50 for the green cube"),
        (TABLE, "In millimetres: red cube 15/135/20, green cube 89/-124/20.", "red cube 75/135/20"),
        (TABLE, "The red cube is to the right of the green cube, at (15, 135, 20).", "red_cube → (89, -124, 20)"),
        (TABLE, "The red cube is further right than the green cube.", "The red cube is further left than the green cube."),
        (ICON, '{"shape": "circle", "color": "red", "center": [50, 70]}', '{"shape": "circle", "color": "blue", "center": [50, 70]}'),
        (ICON, "The rectangle at the top is blue.", "The rectangle at the top is green."),
    ],
)  # fmt: skip
def test_other_notations_are_read(state, right, wrong):
    assert verdict(state, right) == 1
    assert verdict(state, wrong) != 1


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (ROOM, "The box is below the flarn of the player."),
        (ROOM, "Anyone mirroring the picture finds the box below the player."),
        (LAKE, "There are two holes: one to the left, one above the other one of the player."),
        (LAKE, "The goal, below and to the left of the player, and the hole, to the right of it, are near."),
        (ROOM, "The target is not above, and to the left of, the player."),
        (ROOM, "The box is three squares from the left wall and above the player."),
        (ROOM, "The box is at (3, 2)."),  # which of the two comes first isn't said
        (ROOM, "The box is below me, as seen in a mirror."),
        (ROOM, "The target is above me. It is also below the box."),
        (TABLE, "Of the red and the green cube, the first is at (89, -124, 20)."),
        (HOUSE, "The safe would be ahead of me if I turned."),
        (HOUSE, "The safe is left of the chair, which is ahead."),
        (ICON, "My sketch is rough. A green circle at the top."),
        (ICON, "The target has a red circle on the right."),  # or the target is what is shown there
        (ROOM, "The box will be below the player."),  # which is no observation
        (ROOM, "The targets are below the boxes."),
        (TABLE, "The red cube is above the green cube."),
    ],
)
def test_what_may_have_been_misread_is_not_rejected(state, text):
    assert verdict(state, text) is None


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (ROOM, "The box is below the player and the target is to the right of the box."),
        (ROOM, "There is a box to the left of me."),
        (ROOM, "I do not see the target above me."),
        (LAKE, "- Goal: to the right of the player"),
        (HOUSE, "In front of me there is the safe, 2.0 m away."),
        (TABLE, "The red cube is on top of the green cube."),
        (TABLE, "red_cube at [89, -124, 20]; green_cube at [89, -124, 20]"),
        (ICON, "The target has a filled green circle at (50, 70) and a filled blue rectangle at (50, 20)."),
    ],
)
def test_what_is_simply_wrong_is_rejected(state, text):
    assert verdict(state, text) == 0


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (ROOM, "The box is above and to the right of the player, the target in another column."),
        (ROOM, "The box is above and to the right of me and the target three cells further on."),
        (LAKE, "The goal is below and to the left of me, and there are no holes."),
        (LAKE, "The goal is below and to the left of me. Between us to the right are two holes."),
        (TABLE, "The red cube is at (15, 135, 20), the other one has come to rest at (0, 0, 20)."),
        (ICON, "A red circle at (50, 70), of a radius of 40."),
    ],
)
def test_what_was_only_half_read_is_not_accepted(state, text):
    assert verdict(state, text) != 1


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (ROOM, "I will push the box until it is above and to the right of the player."),
        (ROOM, "Instead of being above the player, the box is elsewhere."),
        (ROOM, "The box has to end up above the player."),
        (TABLE, "I will put the red cube at (15, 135, 20)."),
        (ICON, "I will add a red circle."),
        (ICON, "The red circle will be removed."),
        (HOUSE, "It is safe behind me."),
        (ICON, "The red circle has been removed."),
        (ICON, "The circle, which shines at the bottom, glows green somehow."),
    ],
)
def test_plans_and_what_is_gone_are_not_accepted(state, text):
    assert verdict(state, text) != 1
