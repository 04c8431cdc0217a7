"""The reader: claims of documented English, and abstention from everything else."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.navigation.state import NavigationState
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.seeding import HashStream
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import Element, SvgState
from vagen_rewards import RuleJudge
from vagen_rewards.reader import mark, read
from vagen_rewards.reader.words import phrases
from vagen_rewards.scores import Statement

LAKE = FrozenLakeState(4, (2, 0), (0, 3), ((3, 2),))
TWO_HOLES = FrozenLakeState(4, (1, 0), (3, 3), ((1, 2), (2, 0), (2, 1)))
BOARD = SokobanState(6, 6, (1 << 36) - 1, (3, 2), ((2, 3),), ((3, 1),))
ROOM = NavigationState("Vase", 2.8, "right", (("Laptop", "ahead", 1.6), ("Sofa", "left", 2.5)))
NAMES = NavigationState(
    "TVStand", 2.0, "ahead", (("SideTable", "left", 1.0), ("FloorLamp", "right", 1.2))
)
TABLE = PrimitiveSkillState(
    "place", {"red_cube": (-80, 150, 20), "green_cube": (-5, -154, 20)}, "", None
)
FALLEN = FrozenLakeState(4, (3, 2), (0, 2), ((3, 2),))
DRAWER = PrimitiveSkillState(
    "drawer", {"apple": (-241, -295, 52), "drawer": (-240, -300, 46)}, "", 146
)
PICTURE = SvgState((Element("circle", "filled", "#0000ff", 50, 50, 40, 40),))
TOWER = PrimitiveSkillState("stack", {"red_cube": (9, 50, 20), "green_cube": (8, 51, 60)}, "", None)
VIEW = NavigationState(
    "Mug", 2.0, "ahead", (("Mug", "ahead", 2.0), ("Desk", "right", 2.1)), 0, (-30, 55)
)
DRAWN = SvgState(PICTURE.target, (Element("line", "filled", "#00d26a", 30, 30, 4, 40),))
STATES = (LAKE, BOARD, ROOM, NAMES, TABLE, PICTURE)


def held(state, text, part="grounding"):
    return [claim.holds(state) for claim in read(state.kind, text, part).claims]


def direct(state, text, part="grounding"):
    return RuleJudge("direct").score(Statement(part, text, state)).value


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("form", ["natural_language", "structured", "symbolic"])
def test_the_states_own_descriptions_are_read_in_full(state, form):
    try:
        text = state.describe(form)
    except NotImplementedError:
        pytest.skip("this environment has no such form")
    for part in ("grounding", "world_modeling"):
        reading = read(state.kind, text, part)
        assert reading.unread == ()
        assert reading.claims
        assert RuleJudge().score(Statement("grounding", text, state)).value == 1.0


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (LAKE, "The goal is two rows above and three columns to the right of me."),
        (LAKE, "Goal: 2 up, 3 right."),
        (LAKE, "The flag is northeast of the agent, and there's a hole at my lower right."),
        (LAKE, "The goal is in row 0, column 3."),
        (LAKE, "Counting from 1, I am in row 3, column 1 and the goal is in row 1, column 4."),
        (LAKE, "The goal is up two and three to the right. There is one hole."),
        (LAKE, "The goal is at the top right of the map, above and to the right of me."),
        (LAKE, "There is no hole between me and the goal. The goal is above me and to my right."),
        (TWO_HOLES, "All holes are to the left of the goal. The goal is two rows below me."),
        (TWO_HOLES, "Holes: right, below, southeast. The goal is below me."),
        (
            BOARD,
            "The crate is one tile up and one tile to the right of me. The target is directly to my left.",
        ),
        (BOARD, "The player and the target are in the same row."),
        (BOARD, "box ↗ player"),
        (BOARD, "player: (3, 2), box: (2, 3), target: (3, 1)"),
        (BOARD, "Relative to the player, the box is up and right (1 row up, 1 column right)."),
        (BOARD, "The box is to the right of both the player and the target."),
        (
            ROOM,
            "To my right there is the vase, the laptop is in front of me and the couch is on the left.",
        ),
        (ROOM, "vase: right, ~2.8 m"),
        (TABLE, "- red cube: (-80, 150, 20)\n- green cube: (-5, -154, 20)"),
        (
            TABLE,
            "The green cube is on the left side, and the red cube is on the right of the green cube.",
        ),
        (
            TABLE,
            "From left to right: green, red. The red one is about 30 cm to the right of the green one.",
        ),
        (PICTURE, "A blue circle at (50, 50), 40 wide and 40 high."),
    ],
)
def test_plain_variations_are_read(state, text):
    assert direct(state, text) == 1.0
    assert False not in held(state, text)
    assert True in held(state, text)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (BOARD, "The box is two rows above the player."),
        (BOARD, "The player is to the left of the box and the target."),
        (BOARD, "The box is above me. It is to the left of me."),
        (BOARD, "From the box, the target is up."),
        (BOARD, "The box is between me and the target."),
        (LAKE, "The goal is in row 3, column 3."),
        (LAKE, "Counting from 1, I am in row 2, column 0 and the goal is in row 0, column 3."),
        (LAKE, "The goal is in the bottom left corner."),
        (TWO_HOLES, "Holes: right, left, above. The goal is below me."),
        (ROOM, "The vase is behind me."),
        (ROOM, "target_direction: right, target_distance: 9.7"),
        (TABLE, "The red cube is at (80, 100, 20)."),
        (TABLE, "The red cube is the leftmost cube."),
        (PICTURE, "A red triangle at (50, 50)."),
    ],
)
def test_false_statements_are_refused(state, text):
    assert direct(state, text) == 0.0
    assert False in held(state, text)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (LAKE, "The goal might be above the player."),
        (LAKE, "The goal is above or below the player."),
        (LAKE, "Going right would drop me into a hole above the player."),
        (LAKE, "The goal is not above the player."),
        (LAKE, "Is the goal above the player?"),
        (LAKE, "The goal is a third of the board above the player."),
        (LAKE, "A hole lies below the tile that is above the player."),
        (BOARD, "The target, which is near the box above the player, is left."),
        (BOARD, "Every box is above the player."),
        (BOARD, "Player → target: left, player → box: right."),
        (ROOM, "The vase is on my right in the mirror of the hall."),
        (TABLE, "The red cube was at (-80, 150, 20)."),
        (PICTURE, "Not a blue circle."),
        (PICTURE, "The balloon is blue."),
        (PICTURE, "All shapes are white."),
        (BOARD, "The box is above me. That is false."),
        (BOARD, "None of this is so: the box is above me."),
        (BOARD, "The box is horizontally above me."),
        (BOARD, "The box is above me." + " " * 8000 + "The target is above me."),
        (TABLE, "In cm, the red cube is at (6, 4, 2)."),
    ],
)
def test_what_isnt_surely_read_is_unscored(state, text):
    assert held(state, text) == []
    assert direct(state, text) is None
    assert RuleJudge().score(Statement("grounding", text, state)).value is None


@pytest.mark.parametrize(
    "beside",
    [
        "On me, there's a hole.",
        "The hole gapes where the sun is on the left.",
        "Going right would drop me into a hole.",
        "I go right to avoid the hole above me.",
        "Up is deadly.",
        "There are no holes.",
        "There are two holes.",
        "It is just one step away.",
        "I see open water just to my right.",
        "So is the hole.",
        "A hole is immediately below me.",
        "Two holes are in the bottom row.",
        "The hole is below me (correction: above me).",
    ],
)
def test_a_false_clause_that_wasnt_read_is_not_accepted_beside_a_true_one(beside):
    assert direct(LAKE, f"The goal is above me. {beside}") in (None, 0.0)


@pytest.mark.parametrize(
    "beside", ["The holes are below me.", "Left is a hole.", "The goal is 20 cm away."]
)
def test_all_of_several_and_cells_beside(beside):
    assert direct(TWO_HOLES, f"The goal is down and to the right of me. {beside}") in (None, 0.0)


def test_beside_and_above_is_undecided_for_what_is_diagonal():
    assert direct(BOARD, "The box is next to me and above me.") is None


def test_what_names_nothing_known_and_plans_dont_matter():
    assert direct(LAKE, "It is cold. So I need to go up. The goal is above me.") == 1.0


def test_clauses_are_read_one_by_one():
    text = "The goal is above me. Perhaps a hole is to the left."
    reading = read("frozen_lake", text, "grounding")
    assert [text[slice(*claim.span)] for claim in reading.claims] == ["The goal is above me"]
    assert [text[slice(*span)] for span in reading.unread] == ["Perhaps a hole is to the left"]


def test_holes_and_the_goal_may_be_related():
    lake = FrozenLakeState(4, (2, 0), (0, 3), ((3, 3),))
    assert held(lake, "The hole is below the goal.") == [True]
    assert held(lake, "The goal is below the hole.") == [False]


def test_several_holes_that_are_described_alike_must_all_be_there():
    two = FrozenLakeState(4, (2, 0), (0, 3), ((0, 0), (1, 0)))
    text = "A hole is above the player. Another hole is above the player."
    assert held(two, text) == [True, True]
    assert held(FrozenLakeState(4, (2, 0), (0, 3), ((0, 0),)), text) == [True, False]


def test_an_observation_doesnt_tell_the_future():
    assert held(LAKE, "The goal will be above the player.") == []
    assert held(LAKE, "The goal will be above the player.", "world_modeling") == [True]


SUBJECTS = {
    "box": ("The box", "the crate", "A box"),
    "target": ("The target", "the goal", "The destination"),
}
VERBS = ("is", "lies", "is located", "can be seen")
WAYS = {
    (-1, 0): ("above", "north of"),
    (1, 0): ("below", "beneath"),
    (0, -1): ("to the left of", "west of"),
    (0, 1): ("to the right of", "east of"),
}


def test_generated_sentences_are_as_true_as_their_geometry():
    """The oracle is the arithmetic of positions, not the reader."""
    stream = HashStream("reader", 0)
    cells = list(itertools.product(range(6), range(6)))
    for _ in range(400):
        player, box, target = stream.sample(cells, 3)
        state = SokobanState(6, 6, (1 << 36) - 1, player, (box,), (target,))
        kind = stream.choice(sorted(SUBJECTS))
        (down, right), words = stream.choice(sorted(WAYS.items()))
        text = f"{stream.choice(SUBJECTS[kind])} {stream.choice(VERBS)} {stream.choice(words)} the player."
        row, column = (
            (box if kind == "box" else target)[0] - player[0],
            (box if kind == "box" else target)[1] - player[1],
        )
        true = row * down + column * right > 0
        assert set(held(state, text)) == {true}, (text, state)


NOISE = [
    *"{}3:-[\n",
    "the box",
    "above",
    "(1",
    " 2)",
    "and",
    "player",
    "İ",
    "not",
    "is",
    "'s",
    "0.5",
]


@given(st.sampled_from(STATES), st.lists(st.sampled_from(NOISE) | st.text(max_size=5), max_size=30))
def test_no_text_breaks_the_reader(state, words):
    read(state.kind, " ".join(words), "grounding")


@pytest.mark.parametrize("state", STATES)
def test_words_in_any_order_are_no_error(state):
    """Such as "ahead corner of the grid", which raised a KeyError."""
    stream = HashStream("words", state.kind)
    words = [" ".join(phrase) for phrase in phrases(state.kind)]
    words += [
        "(",
        ")",
        ",",
        ".",
        ":",
        "one",
        "2",
        "the",
        "my",
        "is",
        "of the board",
        "(1, 2)",
        "blue circle",
    ] * 9
    texts = [
        " ".join(words[stream.below(len(words))] for _ in range(1 + stream.below(12)))
        for _ in range(1500)
    ]
    texts += [
        "The vase is in the front corner of the grid.",
        "Two holes: left, same row,",
        "a greyish shape",
    ]
    for text in texts:
        assert direct(state, text) in (None, 0.0, 1.0)


@pytest.mark.parametrize("form", ["natural_language", "structured"])
def test_of_a_target_out_of_sight_nothing_is_judged_and_nothing_is_owed(form):
    """No picture shows it: its direction through a wall is neither right nor wrong."""
    hidden = dataclasses.replace(ROOM, target_in_sight=False)
    marks = mark(hidden, read("navigation", hidden.describe(form), "observation"), "observation")
    assert marks.essential
    assert (marks.right, marks.wrong) == (2, 0)
    for text in ("The vase is to my right, 2.8 m away.", "The vase is to my left."):
        claims = read("navigation", text, "observation").claims
        assert [claim.holds(hidden) for claim in claims] == [None]
        assert [claim.holds(ROOM) for claim in claims] != [None]


TWO_BOXES = SokobanState(6, 6, (1 << 36) - 1, (2, 2), ((1, 2), (3, 2)), ((2, 1), (2, 4)))
"""Box 0 is above the player and box 1 below, target 0 to the left and target 1 to the right."""


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        ("Box0 is above the player. Box1 is below the player.", [True, True]),
        ("Box0 is below the player.", [False]),
        ("Box0 is below the player. Box1 is above the player.", [False, False]),
        ("The player is above box0.", [False]),
        ("Target0 is to the left of box0. Target1 is to the left of box1.", [True, False]),
        ("Box0 is directly below the player.", [False]),
        ("Box0 is at (3, 2).", [None]),  # (column, row) from 1
        ("Box0 is in row 1. Box1 is in row 1.", [True, False]),
        ("Target0 is in the fourth row.", [False]),
        ("Box1 is below the player. Box2 is above the player.", [None, None]),
        ("Box1 is above the player. Box2 is below the player.", [True, True]),
        ("Box1 is below the player.", [None]),
        ("Box1 is to the right of the player.", [False]),
        ("Box 7 is below the player.", [None]),
        ("Box0 is above the player. Box0 is above the player.", [True, True]),
    ],
)
def test_numbers_of_boxes_and_targets_are_the_states(text, verdicts):
    """Counted from 0 as the state does; otherwise what depends on the order isn't scored."""
    assert held(TWO_BOXES, text) == verdicts


@pytest.mark.parametrize("name", ["Box0", "Box1", "Box 1", "The box"])
def test_a_single_box_may_have_any_number(name):
    assert set(held(BOARD, f"{name} is above and to the right of the player.")) == {True}


@given(st.integers(0, 1), st.sampled_from(["above", "below", "left of", "right of"]))
def test_numbered_sentences_are_true_of_the_numbered_box_alone(number, side):
    alone = dataclasses.replace(TWO_BOXES, boxes=(TWO_BOXES.boxes[number],))
    expected = held(alone, f"The box is {side} the player.")
    text = f"Target0 is left of the player. Box{number} is {side} the player."
    assert held(TWO_BOXES, text)[-1:] == expected
