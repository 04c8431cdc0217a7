"""What doubts, denials and affirmations around a sentence do to it, and constructions of each environment."""

from __future__ import annotations

import pytest

from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.navigation.state import NavigationState
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import Element, SvgState
from vagen_rewards import RuleJudge, Statement

FLOOR = (1 << 64) - 1
BOARD = SokobanState(8, 8, FLOOR, (3, 3), ((2, 3),), ((1, 1),))  # box above the player, target up and left of both
ROW = SokobanState(8, 8, FLOOR, (3, 3), ((3, 5),), ((3, 1),))  # target, player, box
TWO = SokobanState(8, 8, FLOOR, (3, 3), ((1, 3), (3, 5)), ((5, 3), (3, 1)))
ON = SokobanState(8, 8, FLOOR, (3, 3), ((5, 5),), ((5, 5),))  # box on the target
LAKE = FrozenLakeState(4, (1, 1), (2, 3), ((1, 3), (3, 0)))
RIGHT = NavigationState("DeskLamp", 1.71, "right", (("Chair", "ahead", 1.08),))
AHEAD = NavigationState("CellPhone", 2.59, "ahead", ())
TABLE = PrimitiveSkillState("place", {"red_cube": (100, 50, 20), "green_cube": (-40, 95, 20)}, "", None)
HELD = PrimitiveSkillState("place", {"red_cube": (100, 50, 120), "green_cube": (-40, 95, 20)}, "red_cube", None)
STACK = PrimitiveSkillState("stack", {"red_cube": (100, 50, 60), "green_cube": (100, 50, 20)}, "", None)
DRAWER = PrimitiveSkillState("drawer", {"apple": (-127, 192, 36), "drawer": (-300, -20, 200)}, "", 150)
PICTURE = SvgState(
    (
        Element("circle", "filled", "#ff0000", 50, 40, 20, 20),
        Element("rectangle", "outlined", "#0000ff", 20, 80, 10, 10),
    )
)
FACTS = [
    (BOARD, "the box is above the player"),
    (LAKE, "the goal is below the player"),
    (RIGHT, "the lamp is on my right"),
    (TABLE, "the red cube is at (100, 50, 20)"),
    (PICTURE, "there is a red circle in the middle"),
]


def accepts(state, text, part="grounding"):
    return RuleJudge("direct").score(Statement(part, text, state)).value == 1.0


DENIED_OR_DOUBTED = [
    "It is not so that {}.",
    "It isn't that {}.",
    "I don't believe {}.",
    "I can't confirm that {}.",
    "I cannot confirm that {}.",
    "There is no indication that {}.",
    "No one would think {}.",
    "I no longer think {}.",
    "It can hardly be said that {}.",
    "It would be false to say {}.",
    "It would be incorrect to claim that {}.",
    "I was wrong to think that {}.",
    "Contrary to the claim that {}, it is elsewhere.",
    "Perhaps {}.",
    "I would guess {}.",
    "My guess is that {}.",
    "If {}, I act.",
    "Unless I err, {} or not.",
    "Suppose {}.",
    "What if {}?",
    "Is it true that {}?",
    "{}, or maybe not.",
    "{}, or the opposite.",
    "Possibly {}.",
    "It might be that {}.",
    "It is unlikely that {}.",
    "{}? No.",
    "Not true: {}.",
    "False: {}.",
    "It is a lie that {}.",
    "Someone claims that {}, but that is wrong.",
    "I doubt {}.",
    "{}, I think, or else not.",
    "It remains to be seen whether {}.",
    "There is a chance that {}.",
    "Chances are {}.",
    "In theory {}.",
    "It is unclear if {}.",
    "I am not convinced that {}.",
    "It seems unlikely that {}.",
    "I have no idea whether {}.",
    "{} is what I would say if I were guessing.",
    "The opposite of this is true: {}.",
    "It is anything but true that {}.",
    "It's never the case that {}.",
    "Neither is it true that {}.",
    "Don't think that {}.",
    "We cannot assume that {}.",
    "It has yet to happen that {}.",
    "{}, which is not true.",
    "{}, which is wrong.",
    "{} - not!",
]
AFFIRMED = [
    "I see that {}.",
    "As can be seen, {}.",
    "In this image, {}.",
    "Clearly, {}.",
    "So, {}.",
    "First, {}.",
    "I can confirm that {}.",
    "It is true that {}.",
    "It is clear that {}.",
    "There is no doubt that {}.",
    "Without a doubt, {}.",
    "No doubt {}.",
    "I have no doubt that {}.",
    "Undoubtedly, {}.",
    "I am certain that {}.",
    "I'm sure that {}.",
    "Not surprisingly, {}.",
    "{}, no question.",
    "It can be seen that {}.",
    "Now {}.",
    "At the moment {}.",
    "Next, {}.",
    "I notice that {}.",
    "{}, as shown.",
    "{}, so I act.",
    "Nothing else matters: {}.",
    "It isn't hard to see that {}.",
    "It cannot be denied that {}.",
    "You can't miss it: {}.",
    "As expected, {}.",
    "According to the image, {}.",
    "Okay, {}.",
    "Observation: {}.",
    "I observe the following. {}.",
    "Note: {}.",
    "{}; I must plan.",
    "From this view, {}.",
    "It turns out that {}.",
    "It is obvious that {}.",
    "{} at the moment.",
    "Looking at it, {}.",
]


@pytest.mark.parametrize("frame", DENIED_OR_DOUBTED)
def test_a_true_sentence_denied_or_doubted_is_refused(frame):
    for state, fact in FACTS:
        text = frame.format(fact)
        assert not accepts(state, text[0].upper() + text[1:]), state.kind


@pytest.mark.parametrize("frame", AFFIRMED)
def test_a_true_sentence_affirmed_is_accepted(frame):
    for state, fact in FACTS:
        text = frame.format(fact)
        assert accepts(state, text[0].upper() + text[1:]), state.kind


TRUE = [
    (BOARD, "The box lies one cell to the north of the player."),
    (BOARD, "Above the player are both the box and the target."),
    (BOARD, "The box shares a column with the player."),
    (BOARD, "The box is above the player rather than below it."),
    (BOARD, "The box isn't not above the player."),
    (BOARD, "The player has the box directly overhead."),
    (BOARD, "The target is two rows up and two columns left of the player."),
    (BOARD, "Relative to the player's position, the box is above and the target is to the upper left."),
    (BOARD, "The player, who is below the box, is to the right of the target."),
    (BOARD, "The red spot that is the target is up and left of the box with the X on it."),
    (ROW, "The player is between the target on the left and the box on the right."),
    (ROW, "To the player's right is a box, to the player's left is the target."),
    (ROW, "The player has a box on its right and the target on its left."),
    (TWO, "One box is above the player and the other is to its right."),
    (TWO, "There are two boxes: one above the player and one to the right of the player."),
    (ON, "The target is covered by the box."),
    (ON, "The box is exactly where the target is."),
    (LAKE, "The goal is below the player and there aren't any holes above the player."),
    (
        LAKE,
        "The goal is to the lower right of the player. There are two holes, one to the right of the player, the other to the lower left.",
    ),
    (RIGHT, "The desk lamp is at my three o'clock."),
    (RIGHT, "The target object is on the right."),
    (RIGHT, "On my right I see a desk, and the lamp is on it."),
    (RIGHT, "The lamp is about 90 degrees to my right."),
    (AHEAD, "I am facing the phone."),
    (AHEAD, "The phone is in the center of my view."),
    (AHEAD, "The phone is in front of me, slightly to the left."),
    (AHEAD, "In front of me is a table with a cell phone on it."),
    (TABLE, "The red cube is at (10 cm, 5 cm, 2 cm)."),
    (TABLE, "At (100, 50, 20) is the red cube and at (-40, 95, 20) is the green cube."),
    (TABLE, "The red cube and the green cube are at (100, 50, 20) and (-40, 95, 20) respectively."),
    (TABLE, "There is a red cube at (100,50,20) and a green one at (-40,95,20)."),
    (TABLE, "The red cube's x is 100, its y is 50 and its z is 20."),
    (TABLE, "The red cube was at (0, 0, 20) and is now at (100, 50, 20)."),
    (HELD, "The red cube is held by the gripper at (100, 50, 120)."),
    (STACK, "The red cube is on the green cube, at (100, 50, 60)."),
    (STACK, "The green cube is under the red cube, at (100, 50, 20)."),
    (DRAWER, "The drawer is open by 15 cm; the apple is at (-127, 192, 36)."),
    (PICTURE, "In the lower-left corner, a blue rectangle can be seen."),
    (PICTURE, "A circular red shape."),
    (PICTURE, "The circle's fill is red."),
    (PICTURE, "A #ff0000 circle."),
    (PICTURE, "The circle is not green but red."),
    (PICTURE, "The blue rectangle is in the bottom-left, not in the top-right."),
    (BOARD, "Using (row, col) from the top-left starting at 0: player (3, 3), box (2, 3), target (1, 1)."),
    (BOARD, "Player on D4, box on D3, goal on B2."),
    (BOARD, '{"box_relative_to_player": "above", "target_relative_to_player": "above and to the left of"}'),
    (BOARD, "The box, which has to be pushed onto the target, is above the player."),
    (BOARD, "the bxo is above the palyer"),
    (LAKE, "goal: ↘, hole: →"),
    (RIGHT, '{"target_obj_type": "desk lamp", "target_direction_to_player": "right"}'),
    (STACK, "The green cube has the red cube on top of it."),
    (STACK, "On top of the green cube is the red cube."),
    (TABLE, "Green cube: right of red cube"),
    (TABLE, "Compared to the green cube, the red cube is further left."),
    (TABLE, "The green cube has the red cube on its left."),
    (TABLE, "Right of the red cube is the green cube."),
    (TABLE, "The green cube can be seen on the right-hand side of the red cube."),
    (TABLE, "The red cube is more to the left than the green cube."),
    (DRAWER, "drawer: open"),
    (DRAWER, "The drawer stands open."),
    (
        PICTURE,
        "| shape | color | center |\n|---|---|---|\n| circle | red | (50, 40) |\n| rectangle | blue | (20, 80) |",
    ),
    (PICTURE, "1. Circle – red – position (50, 40)\n2. Rectangle – blue – position (20, 80)"),
    (PICTURE, "circle filled with #ff0000, rectangle filled with #0000ff"),
    (PICTURE, "a circle (#ff0000) at (50%, 40%)"),
    (BOARD, "Rather than being below the player, the box is above the player."),
    (BOARD, "There is a box that sits above the player, and a target that sits above and to the left of the player."),
    (BOARD, "The target, which is the thing I have to reach, is above and to the left of the player."),
    (BOARD, "I'm standing right next to the box: it is immediately above me."),
    (BOARD, "To get there the player needs to go up, so the box is above the player."),
    (BOARD, "| Object | Row | Column |\n|---|---|---|\n| Player | 3 | 3 |\n| Box | 2 | 3 |"),
    (LAKE, '```json\n{\n  "player": {"row": 1, "col": 1},\n  "goal": {"row": 2, "col": 3}\n}\n```'),
    (LAKE, "洞在玩家的左下方，目标在玩家的下方。"),
    (RIGHT, "从图中可以看到，目标物体在机器人的右边，大约1.7米远。"),
    (RIGHT, "Das Zielobjekt befindet sich rechts von mir, etwa 1.7 Meter entfernt."),
    (RIGHT, "The desk lamp is on my right, and a floor lamp is on my left."),
    (TABLE, "The list maps as follows: (100, 50, 20) is the red cube, (-40, 95, 20) is the green cube."),
    (TABLE, "The red cube has an x of 100, a y of 50 and a z of 20."),
    (TABLE, "The red cube has a smaller y than the green cube."),
    (TABLE, "The green cube, which is to the right of the red cube, is easy to see."),
    (TABLE, "The green cube lies deeper in the scene than the red cube."),
    (DRAWER, "Drawer state: open"),
    (PICTURE, "A red circle sits at 50% from the left and 40% from the top."),
    (PICTURE, "*   **Shape:** circle\n*   **Color:** red\n*   **Center:** (50, 40)"),
    (BOARD, "From my perspective, the box is 1 step up and the target is 2 steps up and 2 steps left."),
    (BOARD, "Both the box and the target are above the player."),
    (
        BOARD,
        "Object | Relative position\n--- | ---\nbox | above the player\ntarget | above and to the left of the player",
    ),
    (BOARD, '{"player_pos": [3, 3], "target_pos": [1, 1], "box_pos": [2, 3]}'),
    (BOARD, "I moved last turn. Now the box is above the player."),
    (RIGHT, "I turned last time, and now the desk lamp is on my right."),
    (RIGHT, "The desk lamp is still on my right, as it was before."),
    (TABLE, "I map (100, 50, 20) to the red cube, (-40, 95, 20) to the green cube."),
    (TABLE, "The coordinates (100, 50, 20) belong to the red cube."),
    (TABLE, "the red cube is 100 mm in x, 50 mm in y and 20 mm in z"),
    (STACK, "The red cube rests atop the green cube."),
    (DRAWER, "The drawer's open."),
    (PICTURE, "Target contains: circle [red] at (50, 40)."),
    (PICTURE, "Element | Colour | Position\n--- | --- | ---\ncircle | red | (50, 40)"),
    (
        BOARD,
        "There is one box, 1 step up from the player, and one target, 2 steps up and 2 steps left from the player.",
    ),
    (BOARD, "Player: (3, 3)\nBox: (2, 3)\nTarget: (1, 1)\nBox needs to move 1 step up and 2 steps left."),
    (LAKE, "The character must not step into the holes that are to the right. The goal is below the character."),
    (RIGHT, "Ich sehe das Ziel rechts von mir."),
    (TABLE, "red cube: 100 / 50 / 20"),
    (TABLE, "The red cube is more to the left compared to the green cube."),
    (TABLE, "The green cube is the one on the right of the red cube."),
    (BOARD, "Following these actions, the box will lie above the player."),
    (LAKE, "From the new position, the goal is below the player and there's a hole to the right of the player."),
    (TABLE, "Positions: (100, 50, 20) for the red cube, (-40, 95, 20) for the green cube."),
    (TABLE, "(100, 50, 20): red cube. (-40, 95, 20): green cube."),
    (TABLE, "The green cube is on the red cube's right."),
    (TABLE, "(100, 50, 20) - red cube\n(-40, 95, 20) - green cube"),
    (BOARD, "The goal of the game is to push the box onto the target. The box is above the player."),
]
FALSE = [
    (BOARD, "The box is almost on the player."),
    (BOARD, "The final thing is above the player and the box is below the player."),
    (BOARD, "If the box is above the player, I push it."),
    (BOARD, "The box is above/below the player."),
    (BOARD, "The player wants to be below the box or above it."),
    (TWO, "One box is left of the player and the other is to its right."),
    (ON, "The box is nearly at the target."),
    (LAKE, "The player will try to reach the goal."),
    (RIGHT, "The lamp is all right."),
    (RIGHT, "The right lamp is here."),
    (RIGHT, "The desk lamp is at nine o'clock."),
    (RIGHT, "On my left I see a desk, and the lamp is on it."),
    (TABLE, "The red cube is at (100 cm, 50 cm, 20 cm)."),
    (TABLE, "At (0, 0, 20) there is the red cube."),
    (TABLE, "The red cube needs to go to (100, 50, 20)."),
    (TABLE, "The red one is at (-40, 95, 20) and the green one is at (100, 50, 20)."),
    (HELD, "The red cube is at (100, 50, 120) and isn't held."),
    (HELD, "The red cube is at (100, 50, 120). Nothing is in the gripper."),
    (STACK, "The red cube is under the green cube at (100, 50, 60)."),
    (DRAWER, "The apple is at (-127, 192, 36) and the drawer is closed."),
    (PICTURE, "Two red circles."),
    (PICTURE, "At the bottom left is a red circle."),
    (PICTURE, "A rectangular red shape."),
    (PICTURE, "A red circle was not found."),
    (PICTURE, "A red circle cannot be seen."),
    (PICTURE, "A red circle can't be seen in it."),
    (BOARD, '{"box_relative_to_player": "below"}'),
    (LAKE, "goal: ↑, hole: →"),
    (RIGHT, '{"target_obj_type": "floor lamp", "target_direction_to_player": "right"}'),
    (STACK, "The red cube has the green cube on top of it."),
    (STACK, "On top of the red cube is the green cube."),
    (TABLE, "Green cube: left of red cube"),
    (TABLE, "Compared to the red cube, the green cube is further left."),
    (TABLE, "The red cube has the green cube on its left."),
    (TABLE, "Right of the green cube is the red cube."),
    (DRAWER, "drawer: closed"),
    (DRAWER, "The drawer hasn't been opened."),
    (PICTURE, "circle filled with #00ff00, rectangle filled with #0000ff"),
    (PICTURE, "a circle (#00ff00) at (50%, 40%)"),
    (BOARD, "Rather than being above the player, the box is below the player."),
    (BOARD, "| Object | Row | Column |\n|---|---|---|\n| Player | 3 | 3 |\n| Box | 3 | 2 |"),
    (RIGHT, "The floor lamp is on my right."),
    (TABLE, "The list maps as follows: (100, 50, 20) is the green cube, (-40, 95, 20) is the red cube."),
    (TABLE, "The red cube has a larger y than the green cube."),
    (DRAWER, "The drawer is pushed in."),
    (DRAWER, "The apple should be put in the drawer."),
    (PICTURE, "A red circle sits at 10% from the left and 90% from the top."),
    (BOARD, "From my perspective, the box is 1 step down and the target is 2 steps up and 2 steps left."),
    (BOARD, "I moved last turn. Now the box is below the player."),
    (RIGHT, "The desk lamp was on my right last turn, as it was before."),
    (TABLE, "I map (-40, 95, 20) to the red cube, (100, 50, 20) to the green cube."),
    (DRAWER, "The drawer's shut."),
    (PICTURE, "Target contains: circle [blue] at (50, 40)."),
    (
        BOARD,
        "There is one box, 1 step down from the player, and one target, 2 steps up and 2 steps left from the player.",
    ),
    (TABLE, "On the left there is the green cube, on the right the red cube."),
    (BOARD, "Following these actions, the box will lie below the player."),
    (TABLE, "The red cube is on the green cube's right."),
    (PICTURE, "Green is the colour of the circle at (50, 40)."),
]


READ_BY_HALF = [
    (TABLE, "On the left there is the red cube, on the right the green cube."),
    (SokobanState(8, 8, FLOOR, (3, 3), ((1, 3), (5, 3)), ((3, 1), (3, 6))), "Boxes: top and bottom of the player."),
    (LAKE, "A hole is to the right of the player. De vlag is onder de speler."),
    (LAKE, "I notice that to the right of the player there is a hole and that below the player there is the goal."),
]


@pytest.mark.parametrize(("state", "text"), READ_BY_HALF)
def test_what_is_true_and_read_by_half_is_not_refused(state, text):
    assert RuleJudge("direct").score(Statement("grounding", text, state)).value != 0.0


@pytest.mark.parametrize(("state", "text"), TRUE)
def test_what_is_true_is_understood(state, text):
    assert accepts(state, text)


@pytest.mark.parametrize(("state", "text"), FALSE)
def test_what_is_not_true_is_refused(state, text):
    assert not accepts(state, text)


AWAY = FrozenLakeState(4, (1, 1), (3, 3), ((0, 3),))
NEXT_TO_HOLE = FrozenLakeState(4, (1, 1), (3, 3), ((2, 1),))
DISCS = PrimitiveSkillState("place", {"red_cube": (0, 0, 20), "green_cube": (-40, 95, 20), "left_target": (80, -100, 0),
                                      "right_target": (80, 100, 0)}, "", None)  # fmt: skip
ONE_THERE = PrimitiveSkillState("place", {**DISCS.positions, "red_cube": (80, 95, 20)}, "", None)


@pytest.mark.parametrize(
    ("state", "text", "expected"),
    [
        (BOARD, "The box is somewhere above me, and the target is somewhere off to the upper left of me.", 1),
        (BOARD, "The box is somewhere below me, and the target is above the player.", None),
        (NEXT_TO_HOLE, "The tile directly below is a hole. The goal is below and to the right of me.", 1),
        (NEXT_TO_HOLE, "To the left is a hole. The goal is below and to the right of me.", 0),
        (AWAY, "The cell to the right is a hole. The goal is below and to the right of me.", 0),
        (AWAY, "There is a hole to the right of me. The goal is below and to the right of me.", 1),
        (NEXT_TO_HOLE, "Moving down would put me in a hole. The goal is below and to the right of me.", None),
        (DISCS, "There are two cubes: red at (0, 0, 20) and green at (-40, 95, 20).", 1),
        (DISCS, "There are two cubes: red at (-40, 95, 20) and green at (0, 0, 20).", None),
        (DISCS, "Neither cube is on its target yet; the red cube is at (0, 0, 20).", 1),
        (ONE_THERE, "No cube is on a target; the green cube is at (-40, 95, 20).", None),
        (ONE_THERE, "Neither cube is on its target yet; the green cube is at (-40, 95, 20).", 1),
        (DISCS, "Neither cube is on a target.", None),
    ],
)
def test_wordings_of_a_sixth_batch(state, text, expected):
    assert RuleJudge("direct").score(Statement("grounding", text, state)).value == expected


CORNER = FrozenLakeState(4, (3, 1), (0, 1), ((1, 0),))


@pytest.mark.parametrize(
    ("state", "text", "expected"),
    [
        (CORNER, "With x to the right and y down: player (1, 3), goal (1, 0). The goal is directly above me.", 1),
        (CORNER, "With x to the right and y down: player (3, 1), goal (0, 1). The goal is directly above me.", None),
        (CORNER, "The player's relative position to the goal: directly below it.", 1),
        (CORNER, "The player's relative position to the goal: directly above it.", None),
        (CORNER, "Below is what I see: goal directly above me, hole above and to the left of me.", 1),
        (CORNER, "The gift I'm after is due north of me.", 1),
        (CORNER, "The gift I'm after is due south of me.", None),
        (RIGHT, "My task is to get to the lamp, and it lies on my right.", 1),
        (RIGHT, "My task is to get to the lamp, and it lies on my left.", 0),
        (
            TABLE,
            "The red cube has coordinates (100, 50, 20), so it is closer to the camera than the green cube,"
            " whose coordinates are (-40, 95, 20).",
            1,
        ),
        (
            TABLE,
            "The red cube has coordinates (-40, 95, 20), so it is further from the camera than the green cube,"
            " whose coordinates are (100, 50, 20).",
            None,
        ),
        (TABLE, "Let me list the coordinates (in mm): red cube (100, 50, 20), green cube (-40, 95, 20).", 1),
        (PICTURE, "A red circle, centre x 50 and centre y 40, plus a blue rectangle (center 20, 80).", 1),
        (PICTURE, "We have a red circle at [90, 90] of size [20, 20].", None),
        (PICTURE, "A red circle, centre x 10 and centre y 90, plus a blue rectangle (center 70, 20).", None),
    ],
)
def test_wordings_of_a_seventh_batch(state, text, expected):
    assert RuleJudge("direct").score(Statement("grounding", text, state)).value == expected
