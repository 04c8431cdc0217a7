"""ReasoningReward: which turns are paid, for what, and what is fined."""

from __future__ import annotations

import dataclasses
import pickle

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_rewards import ReasoningReward, VisualReasoningReward
from vagen_rewards.credit import words_of
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.scores import Judge, Score
from vagen_rewards.wrapper import with_reasoning

ID = "vagen/FrozenLake-v0"


@pytest.fixture
def env():
    with gym.make(ID, observation="text", is_slippery=False) as made:
        made.reset(seed=3)
        yield made


def turn_of(env, reply=None):
    return env.step(env.unwrapped.oracle_reply() if reply is None else reply)[4]["turn"]


def terms(reward, turn):
    return {term.name: term.value for term in reward(turn)}


def of(env, **options):
    return ReasoningReward(**options).of(env)


def said(env, observation, prediction, actions=("Up",)):
    return env.unwrapped.grammar.render(
        list(actions), observation=observation, reasoning="-", prediction=prediction
    )


class Yes(Judge):
    name = "yes"

    def __init__(self):
        self.asked = 0

    def score(self, statement):
        self.asked += 1
        return Score(1.0, "yes")


WITHOUT = [
    "lorem <observation>TRUE</observation> ipsum <prediction>SAME</prediction> no answer",
    "<think><observation>TRUE</observation><reasoning>-</reasoning><prediction>SAME</prediction></think>",
    "<think><observation>TRUE</observation><reasoning>-</reasoning><prediction>SAME</prediction></think>"
    "<answer>fly</answer>",
]


@pytest.mark.parametrize("weighting", ["contrast", "plain"])
@pytest.mark.parametrize("reply", WITHOUT)
def test_reasoning_is_paid_in_turns_that_act_in_the_right_format(env, reply, weighting):
    reply = reply.replace("TRUE", env.unwrapped.true_state.describe("natural_language"))
    reply = reply.replace("SAME", env.unwrapped.true_state.describe("natural_language"))
    turn = turn_of(env, reply)
    assert terms(of(env, weighting=weighting), turn) == {}
    paid, scores = of(env, weighting=weighting).paid(turn)
    assert paid.metrics["reasoning_gated"] is True
    assert scores.by_part() == ()


def test_without_the_gate_such_turns_are_paid_too_and_with_it_the_judge_isnt_asked(env):
    turn = turn_of(env, WITHOUT[0])
    closed, opened = Yes(), Yes()
    assert terms(ReasoningReward(closed, weighting="plain"), turn) == {}
    assert closed.asked == 0
    assert terms(ReasoningReward(opened, weighting="plain", gate=False), turn) == {
        "grounding": 0.5,
        "world_modeling": 0.5,
    }


@pytest.mark.parametrize("weighting", ["contrast", "plain"])
def test_the_oracle_is_paid(env, weighting):
    paid = terms(of(env, weighting=weighting), turn_of(env))
    assert paid["grounding"] == pytest.approx(0.5, abs=0.2)  # 0.5 is the mean over states
    assert paid["world_modeling"] > 0.2


def test_what_is_false_costs_by_information_and_earns_nothing_plainly(env):
    board = env.unwrapped.true_state
    side = "below" if board.target[0] < board.player[0] else "above"
    turn = turn_of(env, said(env, f"The target is {side} the player.", "It is cold."))
    assert terms(of(env), turn)["grounding"] < 0
    assert terms(of(env, weighting="plain"), turn)["grounding"] == 0


def test_a_prediction_is_paid_for_what_it_says_beyond_the_observation(env):
    state = env.unwrapped.true_state.describe("natural_language")
    turn = turn_of(env, said(env, state, state))
    still = [
        claim for claim in _claims(turn) if claim.holds(turn.before) and claim.holds(turn.after)
    ]
    assert still, "something stays as it was"
    again = (
        ". ".join(turn.parsed.observation[slice(*claim.span)].strip(" .") for claim in still) + "."
    )
    repeated = _with_prediction(turn, again)
    assert terms(of(env), repeated)["world_modeling"] <= 0
    true = _with_prediction(turn, turn.after.describe("natural_language"))
    assert terms(of(env), true)["world_modeling"] > 0.1


def _claims(turn):
    from vagen_rewards.reader import read

    return read("frozen_lake", turn.parsed.observation, "grounding").claims


def _with_prediction(turn, text):
    return dataclasses.replace(turn, parsed=dataclasses.replace(turn.parsed, prediction=text))


def test_what_isnt_understood_is_unscored_and_adds_nothing(env):
    turn = turn_of(env, said(env, "Zarf gleeb wibbles.", "Zarf gleeb wibbles."))
    paid, scores = of(env).paid(turn)
    assert scores.grounding.value is None
    assert scores.grounding.unread
    assert paid.metrics["grounding_unscored"] is True
    assert paid.metrics["grounding_unread"] == pytest.approx(1.0, abs=0.1)
    assert paid.reward == turn.reward


def test_a_part_without_weight_isnt_judged(env):
    judge = Yes()
    reward = ReasoningReward(judge, 1.0, 0.0, weighting="plain")
    assert terms(reward, turn_of(env)) == {"grounding": 1.0}
    assert judge.asked == 1


def test_paid_again_takes_the_place_of_what_was_paid(env):
    reward = of(env)
    once = reward.paid(turn_of(env))[0]
    assert reward.paid(once)[0] == pickle.loads(pickle.dumps(reward)).paid(once)[0] == once


# -- options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"weighting": "some"}, "weighting"),
        ({"penalty": "hard"}, "penalty"),
        ({"judge": "nobody"}, "nobody"),
        ({"gates": False}, "gate"),
        ({"weighting": "contrast", "judge": Yes()}, "plain"),
    ],
)
def test_wrong_options_are_refused(options, named):
    with pytest.raises(JudgeConfigError, match=named):
        ReasoningReward.from_options(options)


def test_options_as_files_give_them():
    reward = ReasoningReward.from_options(
        {"judge": "rule-direct", "weighting": "plain", "penalty": "paper"}
    )
    assert reward.describe() == {
        "judge": "rule:direct:4",
        "betas": {"grounding": 0.5, "world_modeling": 0.5},
        "gate": True,
        "weighting": "plain",
        "penalty": "paper",
        "per_turn": False,
    }
    assert ReasoningReward.from_options({"grounding": 0.3}).betas == {
        "grounding": 0.3,
        "world_modeling": 0.0,
    }


# -- as an option of environments --------------------------------------------------------------------


def test_gymnasium_environments_with_and_without_it():
    plain = gym.make(ID, observation="text")
    assert with_reasoning(plain, None) is plain
    options = {"weighting": "plain", "judge": "rule"}
    for asked in (options, ReasoningReward.from_options(options)):
        env = with_reasoning(gym.make(ID, observation="text"), asked)
        assert isinstance(env, VisualReasoningReward)
        env.reset(seed=3)
        _, reward, _, _, info = env.step(env.unwrapped.oracle_reply())
        paid = {term.name: term.value for term in info["turn"].rewards}
        assert paid["grounding"] == 0.5
        assert reward == pytest.approx(sum(paid.values()))
        env.reset(seed=3)
        assert not {"grounding", "world_modeling"} & {
            term.name for term in env.step("no reasoning at all")[4]["turn"].rewards
        }
    one, two = (with_reasoning(gym.make(ID), options) for _ in range(2))
    assert (
        one.reward.judge is two.reward.judge
    )  # the memory of wordings is one for all episodes of a process
    with pytest.raises(JudgeConfigError):
        with_reasoning(gym.make(ID), {"gates": True})


# -- credit for single words ---------------------------------------------------------------------


def test_repeating_a_true_claim_is_false_from_then_on(env):
    board = env.unwrapped.true_state
    side = "above" if board.target[0] < board.player[0] else "below"
    if board.target[0] == board.player[0]:
        side = "in the same row as"
    text = " ".join([f"The target is {side} the player."] * 4)
    turn = turn_of(env, said(env, text, "It is cold."))
    reward = of(env)
    (observation, *_) = words_of(turn, reward.read(turn))
    truths = [truth for _, truth in observation.truths]
    assert truths[0] == 1.0
    assert truths[1:] == [-1.0] * 3


# -- judges that fail ----------------------------------------------------------------------------


class Broken(Judge):
    name = "broken"

    def score(self, statement):
        if "below" in statement.text:
            raise ZeroDivisionError("a judge of one's own")
        return Score(1.0, "right")


def test_a_judge_that_raises_leaves_its_statement_unscored(env):
    env.reset(seed=3)
    reward = VisualReasoningReward(env, Broken(), weighting="plain")
    reward.reset(seed=3)
    with pytest.warns(RuntimeWarning, match="a judge of one's own"):
        info = reward.step(said(env, "It is below.", "It is above."))[4]
    assert info["scores"].grounding.value is None
    assert "ZeroDivisionError" in info["scores"].grounding.reason
    assert info["scores"].world_modeling.value == 1.0
    assert (reward.tally.scored, reward.tally.unscored) == (1, 1)


# -- what an episode adds up to ------------------------------------------------------------------


def play(reward, waits, **options):
    """The terms of an episode that is solved after so many turns that change nothing."""
    env = with_reasoning(gym.make(ID, observation="text", is_slippery=False, **options), reward)
    env.reset(seed=3)
    core = env.unwrapped
    state = core.true_state
    pairs = (("Up", "Down"), ("Down", "Up"), ("Left", "Right"), ("Right", "Left"))
    idle = next(pair for pair in pairs if core.imagine(pair) == state)
    found, over = [], False
    while not over:
        reply = core.oracle_reply()
        if len(found) < waits:
            text = state.natural_language()
            reply = said(env, text, text, idle)
        *_, terminated, truncated, info = env.step(reply)
        found.append({term.name: term.value for term in info["turn"].rewards})
        over = terminated or truncated
    return found


BONUSES = ("format", "grounding", "world_modeling", "remaining_format", "remaining_reasoning")


def bonuses(found):
    return sum(value for terms in found for name, value in terms.items() if name in BONUSES)


def test_success_earns_the_turns_that_are_left_at_the_mean_so_far():
    found = play({}, 0, max_turns=12)
    last = found[-1]
    left = 12 - len(found)
    paid = sum(each.get("grounding", 0) + each.get("world_modeling", 0) for each in found)
    assert last["remaining_reasoning"] == pytest.approx(paid / len(found) * left)
    assert last["remaining_format"] == pytest.approx(0.5 * 3 / 12 * left)
    assert not any("remaining_format" in each for each in found[:-1])


def test_a_longer_budget_and_a_late_success_earn_no_more():
    at_once = bonuses(play({}, 0, max_turns=12))
    assert bonuses(play({}, 8, max_turns=12)) <= 1.01 * at_once
    assert bonuses(play({}, 0, max_turns=20)) == pytest.approx(at_once, rel=0.01)
    assert bonuses(play({}, 0)) == pytest.approx(at_once, rel=0.01)


def test_the_papers_rule_pays_each_turn_the_same():
    options = {"max_turns": 12, "format_per_turn": True}
    found = play({"per_turn": True}, 4, **options)
    assert {each["format"] for each in found} == {0.5}
    assert not any(name.startswith("remaining") for each in found for name in each)
    assert bonuses(play({"per_turn": True}, 8, **options)) > bonuses(found)
