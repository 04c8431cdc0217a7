"""The truth of a reply's sentences one by one, for trainers that credit words by themselves."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.svg.state import SvgState
from vagen_rewards import RuleJudge
from vagen_rewards.credit import kept_out, words_of
from vagen_rewards.scores import Score, Statement, statements_of

LAKE = ("SFFF", "FFHF", "FFFH", "FFFG")


@pytest.fixture(scope="module")
def env():
    made = gym.make("vagen/FrozenLake-v0", desc=LAKE, disable_env_checker=True).unwrapped
    yield made
    made.close()


def said(env, observation, prediction="-"):
    """The turn of a reply on the same lake, and its fields by part."""
    env.reset(seed=0)
    reply = env.grammar.render(
        ["Down"], observation=observation, reasoning="-", prediction=prediction
    )
    turn = env.step(reply)[4]["turn"]
    judge = RuleJudge()
    found = words_of(turn, [(each, judge.read(each)) for each in statements_of(turn)])
    return turn, {each.part: each for each in found}


TRUE = "The target is below the player."
FALSE = "The target is above the player."


def truths(env, text):
    return [value for _, value in said(env, text)[1]["grounding"].truths]


def test_sentences_are_true_or_false_each_for_itself(env):
    turn, found = said(env, f"{TRUE} {FALSE}")
    field = found["grounding"]
    assert [value for _, value in field.truths] == [1.0, -1.0]
    assert turn.reply[slice(*field.span)] == f"{TRUE} {FALSE}"
    words = [turn.reply[slice(*span)].strip().rstrip(".") for span, _ in field.truths]
    assert words == [TRUE.rstrip("."), FALSE.rstrip(".")]


@given(st.integers(2, 12))
@settings(max_examples=8)
def test_a_true_claim_holds_as_often_as_the_states_own_description_makes_it(env, times):
    """The target's place is told once: every further repetition is false, so that repeating costs."""
    assert truths(env, " ".join([TRUE] * times)) == [1.0] + [-1.0] * (times - 1)


def test_what_is_there_twice_may_be_told_twice(env):
    """Two holes lie below the player on the right."""
    hole = "A hole is below and on the right side of the player."
    values = truths(env, " ".join([hole] * 4))
    told = env.true_state.natural_language().lower().count("below and on the right side")
    assert values.count(1.0) == 2 <= told
    assert values[2:] == [-1.0, -1.0]


def circles(count):
    """A picture with so many equal red circles beside a blue square."""
    circle = ("circle", "filled", "#ff0000", 20, 20, 10, 10)
    return SvgState((*[circle] * count, ("rectangle", "filled", "#0000ff", 70, 70, 20, 20)))


@pytest.mark.parametrize("part", ["grounding", "world_modeling"])
@pytest.mark.parametrize("told", [1, 3])
def test_what_a_state_tells_several_times_holds_as_often(env, part, told):
    """Equal circles are told one by one; one more than there are is false."""
    circle = "The target has a filled red circle at (20, 20), 10 wide and 10 high."
    text = " ".join([circle] * (told + 1))
    turn, _ = said(env, text, text)
    statement = Statement(part, text, circles(told))
    (field,) = words_of(turn, [(statement, RuleJudge().read(statement))])
    assert [value for _, value in field.truths] == [1.0] * told + [-1.0]


def test_a_sentence_is_as_true_as_the_share_of_its_claims_that_hold(env):
    """One of two, all of two, none of two."""
    assert truths(env, "The target is above and to the right of the player.") == [0.0]
    assert truths(env, "The target is below and to the right of the player.") == [1.0]
    assert truths(env, "The target is above and to the left of the player.") == [-1.0]


def test_a_false_claim_is_false_however_often(env):
    assert truths(env, " ".join([FALSE] * 3)) == [-1.0] * 3


def test_each_field_stands_where_the_reply_has_it(env):
    turn, found = said(env, TRUE, TRUE)
    assert found["grounding"].span[1] <= found["world_modeling"].span[0]
    for field in found.values():
        assert turn.reply[slice(*field.span)] == TRUE
        ((span, _),) = field.truths
        assert field.span[0] <= span[0] < span[1] <= field.span[1]


def test_a_reply_kept_out_is_false_as_a_whole(env):
    turn, _ = said(env, TRUE)
    (field,) = kept_out(turn)
    assert (field.part, field.span) == ("grounding", (0, len(turn.reply)))
    assert field.truths == (((0, len(turn.reply)), -1.0),)


def test_words_that_the_reply_does_not_hold_have_no_credit(env):
    turn, _ = said(env, TRUE)
    state = FrozenLakeState(4, (0, 0), (3, 3), ())
    statement = Statement("grounding", "Words of another reply.", state)
    theirs = statement, RuleJudge().read(statement)
    own = statements_of(turn)[0]
    assert words_of(turn, [theirs]) == ()
    assert len(words_of(turn, [theirs, (own, RuleJudge().read(own))])) == 1


def test_an_unscored_field_has_no_credit_and_the_others_have(env):
    turn, _ = said(env, TRUE, TRUE)
    one, other = statements_of(turn)
    readings = [(one, Score.unscored("no answer")), (other, RuleJudge().read(other))]
    assert [field.part for field in words_of(turn, readings)] == ["world_modeling"]


def test_words_with_which_a_reply_begins_have_credit(env):
    turn, _ = said(env, TRUE)
    turn = dataclasses.replace(turn, reply=f"{TRUE} {FALSE}")
    statement = Statement("grounding", TRUE, turn.before)
    (field,) = words_of(turn, [(statement, RuleJudge().read(statement))])
    assert field.span == (0, len(TRUE))
    assert [value for _, value in field.truths] == [1.0]
