"""RuleJudge on Navigation, PrimitiveSkill and SVG."""

from __future__ import annotations

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_envs.errors import VagenError
from vagen_envs.navigation.state import NavigationState
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.svg.state import Element, SvgState
from vagen_rewards import RuleJudge, Statement, VisualReasoningReward

HOME = NavigationState("DeskLamp", 1.71, "right", (("Chair", "ahead", 1.08), ("Laptop", "ahead", 1.19)))
AHEAD = NavigationState("CellPhone", 2.59, "ahead", ())
TABLE = PrimitiveSkillState("place", {"red_cube": (100, 50, 20), "green_cube": (-40, 95, 20)}, "", None)
PICTURE = SvgState(
    (
        Element("circle", "filled", "#ff0000", 50, 40, 20, 20),
        Element("rectangle", "outlined", "#0000ff", 20, 80, 10, 10),
    )
)


def value(text, state, part="grounding", grading="direct"):
    return RuleJudge(grading).score(Statement(part, text, state)).value


@pytest.mark.parametrize("state", [HOME, AHEAD, TABLE, PICTURE])
@pytest.mark.parametrize("part", ["grounding", "world_modeling"])
def test_the_truth_scores_one(state, part):
    for text in (state.natural_language(), state.structured()):
        assert value(text, state, part, "f1") == 1.0


@pytest.mark.parametrize(
    ("text", "state", "part", "expected"),
    [
        ("The lamp is on my right.", HOME, "grounding", 1),
        ("I will move forward-right to reach the lamp.", HOME, "world_modeling", 1),
        ("The lamp is on my left.", HOME, "grounding", 0),
        ("The chair is ahead.", HOME, "grounding", 0),  # the target is missing
        ("The lamp is to the left or to the right.", HOME, "grounding", 0),
        ("The lamp is ahead, to my left, to my right and behind me.", HOME, "grounding", 0),
        ("I will move closer to the lamp.", HOME, "world_modeling", 0),
        ("The lamp is not on the right.", HOME, "grounding", 0),
        ("The lamp is to the right of the chair.", HOME, "grounding", 0),  # not seen from the agent
        ("I go slightly left to the phone.", AHEAD, "world_modeling", 1),
        ("The phone is in front of me.", AHEAD, "grounding", 1),
        ("Straight ahead of me, there is a phone.", AHEAD, "grounding", 1),
        ("The phone isn't right in front of me.", AHEAD, "grounding", 0),
        ("I don't see the lamp on my right.", HOME, "grounding", 0),
        ("It is false that the lamp is on the agent's right.", HOME, "grounding", 0),
        ("Probably the lamp is on my right.", HOME, "grounding", 0),
        ("The phone will be in front of me.", AHEAD, "world_modeling", 0),  # no direction word, appendix D.1
    ],
)
def test_navigation(text, state, part, expected):
    assert (value(text, state, part) or 0) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The red cube is at (110, 40, 30).", 1),
        ("The red cube is at (111, 50, 20).", 0),
        ("red_cube: (100, 50, 20), green_cube: (-40, 95, 20)", 1),
        ("red_cube: (100, 50, 20), green_cube: (-40, 75, 20)", 0),
        ("The red cube is at (100, 50, 20) or (0, 0, 0).", 0),
        ("The red cube is on top of the green cube.", 0),
        ("The red cube is at (100, 50, 20) and the gripper holds the red cube.", 0),
        ("There are two cubes.", 0),
        ("I don't see the red cube at (100, 50, 20).", 0),
        ("Perhaps the red cube is at (100, 50, 20).", 0),
        ("The green cube isn't held. The red cube is at (100, 50, 20).", 1),
        ("{red_cube: (100, 50, 20), red_cube: (0, 0, 0), red_cube: (50, 50, 50)}", 0),
    ],
)
def test_primitive_skill(text, expected):
    assert (value(text, TABLE) or 0) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("There is a red circle in the middle and a blue square in the lower left.", 1.0),
        ("A red circle.", 2 / 3),
        ("A green circle.", 0.0),
        ("A red or blue circle.", 0.0),
        ("A circle in the top right.", 0.0),
        ("A nice picture.", 0.0),
        ("A circle painted red.", 2 / 3),
        ("A circle, red, in the middle.", 2 / 3),
        ("A blue circle in the middle.", 0.0),
        ("A circle painted blue in the middle.", 0.0),
        ("There isn't any red circle.", 0.0),
        ("I don't think there is a red circle.", 0.0),
        ("There might be a red circle.", 0.0),
        ("A flat, red circle.", 2 / 3),
    ],
)
def test_svg(text, expected):
    assert (value(text, PICTURE, grading="f1") or 0) == pytest.approx(expected)


STATES = [HOME, AHEAD, TABLE, PICTURE]
WORDS = ["the", "lamp", "phone", "chair", "left", "right", "ahead", "in front of", "me", "not", "no", "or", "and", "is", ",", ".",
         "red cube", "(1, 2, 3)", "at", "on top of", "green cube", "red", "blue", "circle", "square", "drawing", "target", "{", "(50, 40)"]  # fmt: skip


@pytest.mark.parametrize("shape", ["", " ", "filled "])
def test_a_dictionary_without_a_name_is_read(shape):
    text = f"{{target: [{{shape: {shape}, color: #ff0000, center: (50, 40), size: (20, 20)}}]}}"
    assert value(text, PICTURE) in (None, 0, 1)
    assert value(text.replace("#ff0000", " "), PICTURE) in (None, 0, 1)


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)))
def test_any_text_is_scored(text):
    for state in STATES:
        for part in ("grounding", "world_modeling"):
            assert 0 <= (value(text, state, part, "f1") or 0) <= 1


@pytest.mark.parametrize("text", ["the lamp is left. ", "red cube at (1, 2, 3) ", "a red circle and ", "{", "no ", "("])
def test_a_megabyte_is_scored(text):
    for state in STATES:
        assert (value(text * (1_000_000 // len(text)), state) or 0) in (0, 1)


@pytest.mark.sim
@pytest.mark.parametrize(
    "env_id", ["vagen/Navigation-v0", "vagen/PrimitiveSkillPlace-v0", "vagen/SVGReconstruction-v0"]
)
def test_the_wrapper_pays_an_oracle_in_full(env_id):
    try:
        env = VisualReasoningReward(gym.make(env_id, observation="text"), weighting="plain")
        env.reset(seed=0)
    except VagenError as error:
        pytest.skip(str(error))
    _, reward, *_, info = env.step(env.unwrapped.oracle_reply())
    terms = {term.name: term.value for term in info["turn"].rewards}
    assert terms["grounding"] == terms["world_modeling"] == 0.5
    assert reward == pytest.approx(sum(terms.values()))
    env.close()


STACK = PrimitiveSkillState(
    "stack", {"red_cube": (0, 69, 60), "yellow_cube": (0, 69, 20), "green_cube": (9, 121, 20)}, "", None
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The red cube rests on the yellow one, which rests on the green one.", None),
        ("The red cube rests on the yellow one.", 1.0),
        ("The green cube is to the right of both the red and the yellow cube.", 1.0),
        ("Red is on top of yellow. Green is right of red.", 1.0),
        ("The red cube is on top of the green cube.", 0.0),
        ("Red has been stacked on top of the yellow cube.", 1.0),
    ],
)
def test_a_second_thing_of_a_sentence_is_held_against_the_table(text, expected):
    assert value(text, STACK) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The phone is in front of me, a bit to the back of the room.", 1.0),
        ("The phone is in front of me, about 3 m away.", 1.0),
        ("The phone is in front of me, about 0.3 m away.", None),
        ("The phone is on my left, about 0.3 m away.", 0.0),
        ("After moving 0.25 m ahead the phone is still in front of me.", 1.0),
    ],
)
def test_half_of_what_is_said_is_not_accepted_where_the_distance_is_far_off(text, expected):
    assert value(text, AHEAD) == expected
