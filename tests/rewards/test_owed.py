"""The questions that descriptions answer, in each kind of state, and what texts answer to them."""

from __future__ import annotations

import dataclasses

import pytest

from vagen_envs.core import State
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.navigation.state import NavigationState
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import SvgState
from vagen_rewards.owed import Answer, Answers, answers, owed
from vagen_rewards.owed import told as described_by
from vagen_rewards.reader import Claim, Reading, read, register_reader

RED = ("circle", "filled", "#ff0000", 20, 20, 10, 10)
BLUE = ("rectangle", "filled", "#0000ff", 70, 70, 30, 30)
STATES = {
    "lake": FrozenLakeState(4, (1, 1), (3, 2), ((0, 1), (2, 0))),
    "boxes": SokobanState(6, 6, 0, (2, 2), ((3, 3),), ((4, 4),)),
    "search": NavigationState(
        "DeskLamp",
        2.5,
        "ahead",
        (("DeskLamp", "ahead", 2.5), ("TVStand", "right", 1.25), ("Chair", "left", 2.0)),
    ),
    "drawer": PrimitiveSkillState(
        "drawer", {"apple": (-20, 57, 32), "handle": (0, -67, 45)}, "", 40
    ),
    "cube": PrimitiveSkillState("place", {"red_cube": (100, 50, 20)}, "red_cube", None),
    "picture": SvgState((RED, BLUE), (BLUE,)),
}


def said(state, text, part="grounding"):
    """For each question the answers as words with their truth; and what answers none."""
    reading = read(state.kind, text, part)
    assert not reading.unread, text
    found = answers(state, [claim.key for claim in reading.claims])
    to = {
        question: [(str(each.fact), each.held) for each in given]
        for question, given in found.to.items()
    }
    return to, [str(fact) for fact in found.others]


def told(state, text):
    """The answers of a text by their words; and what answers none."""
    to, others = said(state, text)
    return {words: held for given in to.values() for words, held in given}, others


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("form", ["natural_language", "structured"])
def test_a_states_own_description_answers_what_it_owes(name, form):
    """Each question once, truly, and nothing else; what is held isn't in the dictionary."""
    state = STATES[name]
    to, others = said(state, state.describe(form))
    expected = owed(state, "grounding")
    if name == "picture":
        expected |= owed(state, "world_modeling")
    if state.kind == "primitive_skill" and form == "structured":
        del expected["gripper"]
    assert to.keys() == expected.keys()
    assert [held for given in to.values() for _, held in given] == [True] * len(expected)
    assert others == []


def owes(name, part="grounding"):
    return [str(fact) for fact in owed(STATES[name], part).values()]


def test_boards_owe_a_relation_for_each_axis_and_for_each_direction_with_a_hole():
    assert owes("lake") == [
        "target below player",
        "target right of player",
        "hole above and in the column of player",
        "hole below and left of player",
    ]
    assert owes("boxes") == [
        f"{one} {way} {other}"
        for one, other in (("box", "player"), ("target", "player"), ("target", "box"))
        for way in ("below", "right of")
    ]
    level = FrozenLakeState(4, (1, 1), (1, 3), ((3, 3), (2, 2)))
    found = [str(fact) for fact in owed(level, "grounding").values()]
    assert found == [
        "target in the row of player",
        "target right of player",
        "hole below and right of player",
    ]


def test_other_worlds_owe_what_is_asked_of_each_thing():
    assert owed(STATES["search"], "grounding").keys() == {
        (name, of)
        for name in ("target", "TV stand".lower(), "chair")
        for of in ("direction", "distance")
    }
    assert owes("search")[:2] == ["target ahead", "target somewhere, 2.5 m"]
    assert owed(STATES["drawer"], "grounding").keys() == {
        ("apple", "place"),
        ("handle", "place"),
        ("drawer", "open"),
        "gripper",
    }
    assert owes("drawer")[-2:] == ["drawer open 40", "gripper empty"]
    assert owes("cube") == ["red_cube at (100.0, 50.0, 20.0)", "red_cube held"]


def test_of_several_things_of_a_type_the_nearest_is_asked_for_and_the_target_first():
    seen = (("DeskLamp", "left", 3.0), ("Chair", "left", 1.0), ("Chair", "right", 2.0))
    state = NavigationState("DeskLamp", 2.5, "ahead", seen)
    assert [str(fact) for fact in owed(state, "grounding").values()] == [
        "target ahead",
        "target somewhere, 2.5 m",
        "chair left",
        "chair somewhere, 1.0 m",
    ]


def test_a_drawing_is_owed_by_a_prediction_and_the_target_by_an_observation():
    assert owed(STATES["picture"], "grounding").keys() == {("target", 0), ("target", 1)}
    assert owed(STATES["picture"], "world_modeling").keys() == {("drawing", 0)}
    circle = owed(STATES["picture"], "grounding")["target", 0]
    assert (circle.where, circle.shape, circle.tone, circle.colour) == (
        "target",
        "circle",
        "",
        "red",
    )
    assert (circle.at, circle.size) == ((20, 20), (10, 10))
    assert owed(SvgState((RED,)), "world_modeling") == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The target is 2 rows below the player.", {"target below player": True}),
        ("The target is 3 rows below the player.", {"target below player": False}),
        ("The target is 1 column to the right of the player.", {"target right of player": True}),
        ("The target is 3 columns to the right of the player.", {"target right of player": False}),
        ("The player is above the target.", {"target below player": True}),
        ("The player is to the left of the target.", {"target right of player": True}),
        ("The player is to the right of the target.", {"target left of player": False}),
        (
            "The target is 3 rows below and 1 column to the right of the player.",
            {"target below player": False, "target right of player": True},
        ),
        (
            "The target is directly below the player.",
            {"target below player": True, "target in the column of player": False},
        ),
        (
            "A hole is below and to the left of the player.",
            {"hole below and left of player": True},
        ),
        (
            "A hole is below and to the right of the player.",
            {"hole below and right of player": False},
        ),
        (
            "The player is above and to the right of a hole.",
            {"hole below and left of player": True},
        ),
        (
            "The player is at (1, 1). The target is at (3, 2).",
            {"target below player": True, "target right of player": True},
        ),
        (
            "The player is at (2, 2). The target is at (4, 3).",
            {"target below player": True, "target right of player": True},
        ),
        (
            "The player is at (1, 1). The target is at (3, 3).",
            {"target below player": True, "target right of player": False},
        ),
        (
            "The player is at (1, 1). A hole is in row 2 and column 0.",
            {"hole below and left of player": True},
        ),
        (
            "A hole is directly to the right of the player.",
            {"hole in the row of and right of player": False},
        ),
        (
            "The player is at (1, 1). A hole is at (2, 0). A hole is at (2, 2).",
            {"hole below and left of player": True, "hole below and right of player": False},
        ),
    ],
)
def test_what_a_sentence_answers_on_a_lake(text, expected):
    assert told(STATES["lake"], text) == (expected, [])


@pytest.mark.parametrize(
    "text",
    [
        "A hole is to the left of the player.",
        "There are 2 holes.",
        "The target is right next to the player.",
        "The target is at (3, 2).",
        "The target is above the hole.",
    ],
)
def test_what_answers_no_question_of_a_lake(text):
    answered, others = told(STATES["lake"], text)
    assert answered == {}
    assert len(others) == 1


@pytest.mark.parametrize(
    ("text", "cell"),
    [("The target is at (3, 2).", "(3, 2)"), ("The target is at (4, 4).", "(3, 3)")],
)
def test_the_cell_of_one_thing_alone_is_told_as_the_state_counts(text, cell):
    assert told(STATES["lake"], text) == ({}, [f"target at {cell}"])


def test_boards_with_equal_facts_share_what_a_full_description_tells():
    lake, *others = (FrozenLakeState(4, (1, 1), (3, column), ()) for column in (2, 2, 3, 1))
    assert described_by(lake) == frozenset(owed(lake, "grounding").values())
    assert described_by(lake) is described_by(others[0]) is described_by(others[1])
    assert described_by(lake) != described_by(others[2])


@dataclasses.dataclass(frozen=True)
class Weather(State):
    """A kind of state of somebody's own."""

    kind = "weather_of_this_test"
    wet: bool

    def natural_language(self):
        return "rain" if self.wet else "sun"

    def sentences(self):
        return (self.natural_language(),)


@dataclasses.dataclass(frozen=True)
class Falls:
    what: str
    part: str

    def holds(self, state):
        return state.wet is (self.what == "rain")


def test_a_state_of_ones_own_owes_the_true_claims_of_its_description():
    """Each is a question, and its answer."""

    def read_weather(text, part):
        return Reading((Claim((0, len(text)), Falls(text, part)), Claim((0, 0), Falls("snow", ""))))

    register_reader(Weather.kind, read_weather)
    for part in ("grounding", "world_modeling"):
        own = Falls("rain", part)
        assert owed(Weather(True), part) == {own: own}
    dry, wet = Falls("sun", "grounding"), Falls("rain", "grounding")
    assert answers(Weather(False), [dry, wet, dry]) == Answers(
        {dry: (Answer(dry, dry, True),), wet: (Answer(wet, wet, False),)}, ()
    )


def test_a_fact_that_is_repeated_answers_once():
    text = "The target is below the player. The player is above the target."
    to, _ = said(STATES["lake"], text)
    ((question, given),) = to.items()
    assert str(question) == "target below player"
    assert set(given) == {("target below player", True)}


@pytest.mark.parametrize(
    ("name", "text", "expected", "others"),
    [
        ("search", "The target is ahead.", {"target ahead": True}, 0),
        ("search", "The desk lamp is 2.5 m away.", {"target somewhere, 2.5 m": True}, 0),
        ("search", "The TV stand is on the left.", {"tv stand left": False}, 0),
        ("search", "The sofa is on the left.", {"sofa left": None}, 0),
        ("drawer", "The drawer is closed.", {"drawer shut": None}, 0),
        ("drawer", "The drawer is 200 mm open.", {"drawer open 200.0": False}, 0),
        ("drawer", "The gripper holds the apple.", {"apple held": False}, 0),
        ("drawer", "The apple is at (0, 0, 0).", {"apple at (0.0, 0.0, 0.0)": False}, 0),
        ("cube", "The green cube is at (0, 0, 20).", {}, 1),
    ],
)
def test_what_a_sentence_answers_elsewhere(name, text, expected, others):
    answered, left = told(STATES[name], text)
    assert (answered, len(left)) == (expected, others)


def test_equal_elements_of_a_picture_are_told_one_by_one():
    """The first that fits and of which nothing was said; one too many tells of the first again."""
    state = SvgState((RED, BLUE, RED))
    circle = "The target has a filled red circle at (20, 20), 10 wide and 10 high."
    reading = read("svg", circle, "grounding").claims[0].key
    other = reading._replace(size=(None, None))
    third = reading._replace(tone="", at=None)
    found = answers(state, [reading, other, third])
    assert {question: len(given) for question, given in found.to.items()} == {
        ("target", 0): 2,
        ("target", 2): 1,
    }
    missing = reading._replace(colour="green")
    assert answers(state, [missing]).to[missing][0].held is False


def test_empty_pictures_are_no_elements():
    to, others = said(STATES["picture"], "There is no drawing yet.")
    assert to == {}
    assert len(others) == 1
