"""What a turn owes, and how right an answer is before and after it."""

from __future__ import annotations

import pytest

from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.svg.state import SvgState
from vagen_rewards.reader import read
from vagen_rewards.transitions import Step, combined, owed_by, value_of, were_true


def lake(player):
    return FrozenLakeState(4, player, (2, 2), ())


STEP = Step(lake((0, 2)), lake((1, 1)))
"""Down and to the left: the target is still below, and now on the right side, too."""
BELOW, ABOVE = "The target is below the player.", "The target is above the player."
RIGHT, LEFT = (f"The target is to the {side} of the player." for side in ("right", "left"))


def facts(*sentences):
    claims = read("frozen_lake", " ".join(sentences), "grounding").claims
    assert len(claims) == len(sentences)
    return [claim.key for claim in claims]


def told(found):
    return {str(fact) for fact in found.values()}


def test_an_observation_owes_what_is_there_before_the_turn():
    assert told(owed_by("grounding", STEP)) == {
        "target below player",
        "target in the column of player",
    }


def test_a_prediction_owes_what_the_turn_has_changed():
    assert told(owed_by("world_modeling", STEP)) == {"target right of player"}
    assert owed_by("world_modeling", Step(STEP.before, STEP.before)) == {}


def test_of_a_drawing_an_observation_owes_the_target_and_a_prediction_the_drawing():
    red, blue = (("circle", "filled", colour, 20, 20, 10, 10) for colour in ("#ff0000", "#0000ff"))
    step = Step(SvgState((red,)), SvgState((red,), (blue,)))
    assert [fact.where for fact in owed_by("grounding", step).values()] == ["target"]
    (drawn,) = owed_by("world_modeling", step).values()
    assert (drawn.where, drawn.colour) == ("drawing", "blue")


@pytest.mark.parametrize(
    ("part", "said", "value"),
    [
        ("grounding", [BELOW], 1),
        ("grounding", [ABOVE], -1),
        ("grounding", [RIGHT], -1),
        ("grounding", [BELOW, ABOVE], -1),
        ("world_modeling", [BELOW], None),
        ("world_modeling", [RIGHT], 1),
        ("world_modeling", [LEFT], -1),
        ("world_modeling", [ABOVE], -1),
        ("world_modeling", [RIGHT, LEFT], -1),
        ("world_modeling", [BELOW, RIGHT], 1),
    ],
)
def test_an_answer_is_as_right_as_its_worst_and_what_was_true_has_none(part, said, value):
    assert value_of(part, facts(*said), STEP) == value


def test_answers_were_true_if_all_of_them_were():
    assert were_true(facts(BELOW), STEP)
    assert not were_true(facts(RIGHT), STEP)
    assert not were_true(facts(BELOW, RIGHT), STEP)


@pytest.mark.parametrize(
    ("verdicts", "value"),
    [
        ([], 0),
        ([None], 0),
        ([True], 1),
        ([False], -1),
        ([None, True], 1),
        ([True, None, False], -1),
    ],
)
def test_what_a_state_cannot_tell_is_no_answer(verdicts, value):
    assert combined(verdicts) == value
