"""Wordings of which some were read wrongly once: what should be accepted, what mustn't be, and what mustn't be refused."""

from __future__ import annotations

import pytest

from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.navigation.state import NavigationState
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import Element, SvgState
from vagen_rewards import RuleJudge, Statement

FLOOR = (1 << 36) - 1
# goal two down and two right; holes right of the player and below
LAKE = FrozenLakeState(4, (1, 0), (3, 2), ((1, 1), (1, 2), (2, 0), (3, 0), (3, 1)))
CORNER = FrozenLakeState(4, (0, 0), (3, 3), ((1, 2),))  # a hole on the right side, but not in the row
ROW = FrozenLakeState(4, (2, 0), (2, 3), ((0, 3), (2, 2)))  # goal three to the right, a hole before it
BOX = SokobanState(6, 6, FLOOR, (3, 3), ((2, 3),), ((2, 2),))  # box above the player, target left of the box
ASIDE = SokobanState(6, 6, FLOOR, (3, 2), ((2, 3),), ((3, 4),))  # target in the player's row, box between and above
FAR = SokobanState(6, 6, FLOOR, (4, 4), ((1, 3),), ((1, 1),))  # box above, target left of it
ON = SokobanState(6, 6, FLOOR, (4, 4), ((3, 3),), ((4, 4),))  # player on the target
CUBES = PrimitiveSkillState(
    "stack", {"red_cube": (91, -131, 20), "green_cube": (-67, -24, 20), "yellow_cube": (28, 41, 20)}, "", None
)
DRAWER = PrimitiveSkillState("drawer", {"apple": (-245, 71, 32), "drawer": (-290, -293, 46), "handle": (-290, -171, 45)},
                             "", 160)  # fmt: skip
SQUARE = SvgState(
    (Element("rectangle", "filled", "#00a6ed", 50, 50, 88, 88), Element("shape", "filled", "#ffffff", 54, 50, 52, 46)),
    (Element("circle", "filled", "#3366cc", 50, 40, 60, 60),),
)
GREYS = SvgState(
    (
        Element("circle", "filled", "#cdc4d6", 52, 52, 72, 72),
        Element("circle", "filled", "#e1d8ec", 52, 52, 50, 50),
        Element("shape", "filled", "#998ea4", 50, 51, 87, 64),
    )
)
POT = NavigationState("Pot", 2.6, "left", (("Safe", "right", 1.7),))

ACCEPTED = [
    (LAKE, "The goal is near the bottom edge, i.e. two rows down and two columns to the right of the player."),
    (LAKE, "The goal can be reached by moving two steps down and two steps to the right."),
    (LAKE, "The goal lies to the lower right. The square above the player is ice, not a hole."),
    (LAKE, "The goal is down and to the right of the player, to the right is another hole."),
    (LAKE, "- Up: ice\n- Right: hole\n- Down: hole\n- Goal: down-right"),
    (LAKE, "| direction | content |\n|---|---|\n| right | hole |\n| down | hole |\n\nThe goal is to the lower right."),
    (LAKE, "Player: (2, 1), goal: (4, 3), holes: (2, 2) and (2, 3), counting rows and columns from 1."),
    (LAKE, "The goal is to the lower right. I could go up and then right, right, right to avoid the holes."),
    (LAKE, "Das Ziel liegt zwei Zeilen tiefer und zwei Spalten weiter rechts als der Spieler."),
    (LAKE, "Das Ziel befindet sich unten rechts von der Spielfigur."),
    (LAKE, "目标位于玩家右下方。"),
    (LAKE, "旗子在我的右下方，我的右边有一个洞。"),
    (ROW, "Die Flagge ist rechts von mir in derselben Zeile, rechts von mir ist auch ein Loch."),
    (ROW, "终点在玩家的正右方，玩家右侧有一个洞。"),
    (ROW, "The goal is in the player's row, three cells to the right."),
    (BOX, "I am beneath the box. To push it onto the target I must get to the right side of the box and push left."),
    (BOX, "箱子在玩家正上方，目标在箱子左侧。"),
    (BOX, "P=(3,3), B=(2,3), T=(2,2)"),
    (BOX, "object | row | col\nplayer | 3 | 3\nbox | 2 | 3\ntarget | 2 | 2"),
    (ASIDE, "The box is up-right of the player, and the target is in the player's row, two cells to the right."),
    (FAR, "The box is at the top, three rows above the player. The target is in the top-left, left of the box."),
    (CUBES, "The leftmost cube is the red one."),
    (CUBES, "In left-to-right order: red, green, yellow."),
    (CUBES, "All three cubes remain where they are: red (91, -131, 20), green (-67, -24, 20), yellow (28, 41, 20)."),
    (CUBES, "red: 91, -131, 20 | green: -67, -24, 20 | yellow: 28, 41, 20"),
    (CUBES, "I'd identify (91, -131, 20) as the red cube and (-67, -24, 20) as the green cube."),
    (CUBES, "Roter Würfel (91, -131, 20), grüner Würfel (-67, -24, 20), gelber Würfel (28, 41, 20)."),
    (CUBES, "绿色方块在红色方块的右边。"),
    (DRAWER, "The apple is on the table to the right of the drawer's handle."),
    (SQUARE, "A bright blue square with a white symbol in it, slightly right of the center."),
    (SQUARE, "bg: blue rect (6,6)-(94,94); fg: white glyph"),
    (SQUARE, "blue rect x=6 y=6 w=88 h=88; white shape near (54, 50), about 52 by 46"),
    (SQUARE, "Blue square background. White symbol on top."),
    (SQUARE, "Left: blue square with a white symbol. Right (mine): just a blue circle."),
    (SQUARE, "The target shows a blue square with a white shape; my current SVG shows a blue circle instead."),
    (SQUARE, "Ziel: blaues Quadrat mit weißer Form. Zeichnung: blauer Kreis."),
    (SQUARE, "一个蓝色正方形，中间有白色图案。"),
    (GREYS, "Two pale purple circles with a darker grayish purple shape around them."),
]
NOT_ACCEPTED = [
    (LAKE, "The goal can be reached by moving two steps down and two steps to the left."),
    (LAKE, "There's no hole next to me. The goal is down and to the right."),
    (LAKE, "Goal: 1 down, 1 right."),
    (LAKE, "The goal is two rows below and three columns to the right of the player."),
    (ROW, "The goal is one cell to the right of me."),
    (ROW, "There is a hole immediately to the right of the player, and the goal is to the right as well."),
    (ROW, "- Right: hole\n- Goal: right"),
    (SQUARE, "A white square with a blue symbol inside."),
    (SQUARE, "The drawing already matches the target: a blue square with a white symbol."),
    (LAKE, "The goal is down one and right one from me."),
    (LAKE, "Up and left of me is safe ice. The goal is to the lower right of me."),
    (CORNER, "To my right is a hole, and the goal is to the lower right."),
    (POT, "After turning left I'll be facing the pot."),
]
NOT_REFUSED = [
    (ROW, "A hole sits in the third row, left of the goal. The goal itself is to the right of the player."),
    (LAKE, "To my right is a hole, and the goal is to the lower right, two columns over."),
    (LAKE, "goal_rel: down 2, right 2\nhole_rel: right 1, down 0"),
    (BOX, "box ↑ (adjacent), target ↖ (adjacent)"),
    (BOX, "The box is directly on top of where I am; the target is to its left."),
    (ON, "The box is up and to the left of the player; the target is under the player."),
    (DRAWER, "The apple is on the table, on the right side."),
    (LAKE, "Das Geschenk liegt rechts unterhalb des Spielers, rechts in der gleichen Reihe ist ein Loch."),
]


def _value(state: object, text: str) -> float | None:
    return RuleJudge("direct").score(Statement("grounding", text, state)).value  # type: ignore[arg-type]


@pytest.mark.parametrize(("state", "text"), ACCEPTED, ids=[text[:60] for _, text in ACCEPTED])
def test_true_statements_in_other_words_are_accepted(state: object, text: str) -> None:
    assert _value(state, text) == 1.0


@pytest.mark.parametrize(("state", "text"), NOT_ACCEPTED, ids=[text[:60] for _, text in NOT_ACCEPTED])
def test_what_is_wrong_in_a_part_that_is_hard_to_read_is_not_accepted(state: object, text: str) -> None:
    assert _value(state, text) != 1.0


@pytest.mark.parametrize(("state", "text"), NOT_REFUSED, ids=[text[:60] for _, text in NOT_REFUSED])
def test_true_statements_that_are_hard_to_read_are_not_refused(state: object, text: str) -> None:
    assert _value(state, text) != 0.0
