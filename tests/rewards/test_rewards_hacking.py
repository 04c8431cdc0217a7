"""Measures against reward hacking."""

from __future__ import annotations

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_rewards import (
    ReasoningReward,
    RepetitionPenalty,
    RuleJudge,
    Score,
    Statement,
    VisualReasoningReward,
)
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.hacking import CAPACITY, distinct_responses, entropy, rewarded_sentences
from vagen_rewards.scores import Judge, TurnScores, score_turn

GIFT = "The player will be at the position of the gift."


def test_a_frequent_sentence_is_fined_only_where_it_is_wrong():
    penalty = RepetitionPenalty()
    assert [penalty.fine(GIFT, 0.0) for _ in range(8)] == [0.0] * 8  # not frequent yet
    assert penalty.fine(GIFT, 0.0) == -0.1
    assert penalty.fine(GIFT, 1.0) == 0.0
    assert penalty.fine(GIFT, 0.7) == 0.0  # the threshold itself is right
    assert penalty.fine("the PLAYER will be  at the position of the gift", 0.69) == -0.1
    assert penalty.fine("The player is above the gift.", 0.0) == 0.0


def test_only_the_top_sentences_are_frequent():
    penalty = RepetitionPenalty(top=2, at_least=2)
    for _ in range(50):
        penalty.fine("up. down.", 1.0)
    for _ in range(3):
        penalty.fine("left.", 1.0)
    for _ in range(64):
        penalty.fine("up. down.", 1.0)
    assert penalty.fine("left", 0.0) == 0.0
    assert penalty.fine("down", 0.0) == -0.1


def test_every_sentence_of_the_top_is_frequent():
    """The bar is the count of the last of the top sentences, not of the first."""
    penalty = RepetitionPenalty(top=3, at_least=2)
    for count, text in ((40, "up."), (20, "down."), (10, "left."), (5, "right.")):
        for _ in range(count):
            penalty.fine(text, 1.0)
    fined = {text: penalty.fine(text, 0.0) for text in ("up", "down", "left", "right")}
    assert fined == {"up": -0.1, "down": -0.1, "left": -0.1, "right": 0.0}


def test_ten_sentences_are_frequent_by_default():
    penalty = RepetitionPenalty()
    texts = [f"sentence {i}." for i in range(11)]
    for i, text in enumerate(texts):
        for _ in range(50 - i):
            penalty.fine(text, 1.0)
    assert [penalty.fine(text, 0.0) for text in texts] == [-0.1] * 10 + [0.0]


def test_memory_is_bounded():
    penalty = RepetitionPenalty()
    fines = []
    for i in range(3 * CAPACITY):
        fines.append(penalty.fine(f"sentence number {i}. {GIFT}", 0.0))
        assert len(penalty.counts) <= 2 * CAPACITY
    assert fines == [0.0] * 8 + [-0.1] * (3 * CAPACITY - 8)  # what is frequent is never forgotten


def test_nothing_is_forgotten_below_the_capacity():
    penalty = RepetitionPenalty(top=2 * CAPACITY, at_least=1)
    for _ in range(2):
        fines = [penalty.fine(f"sentence number {i}", 0.0) for i in range(2 * CAPACITY)]
    assert set(fines) == {-0.1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"amount": 0.1}, "amount 0.1 must not be above 0"),
        ({"threshold": 2}, "threshold 2 be from 0 to 1"),
        ({"threshold": -0.1}, "threshold -0.1 be from 0 to 1"),
        ({"top": 0}, "top 0 at least 1"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(JudgeConfigError, match=said):
        RepetitionPenalty(**options)


def test_options_at_their_bounds():
    """No fine at all; every repeated statement; none but the most frequent sentence."""
    free = RepetitionPenalty(amount=0, at_least=1)
    assert [free.fine(GIFT, 0.0) for _ in range(2)] == [0.0, 0.0]
    lenient = RepetitionPenalty(threshold=0, at_least=1)
    assert [lenient.fine(GIFT, value) for value in (0.0, 0.0, -0.1)] == [0.0, 0.0, -0.1]
    strict = RepetitionPenalty(threshold=1, top=1, at_least=1)
    assert [strict.fine(GIFT, value) for value in (0.99, 0.99, 1.0)] == [0.0, -0.1, 0.0]
    assert strict.fine("Once.", 0.0) == strict.fine("Once.", 0.0) == 0.0


@pytest.mark.parametrize("option", [None, False, ""])
def test_there_is_no_penalty_unless_asked_for(option):
    assert ReasoningReward(penalty=option).penalty is None


@pytest.mark.parametrize("option", [True, "paper"])
def test_the_papers_penalty_by_name(option):
    penalty = ReasoningReward(penalty=option).penalty
    assert (penalty.amount, penalty.threshold) == (-0.1, 0.7)


def test_a_penalty_of_ones_own_is_taken_as_it_is():
    own = RepetitionPenalty(top=3)
    assert ReasoningReward(penalty=own).penalty is own
    with pytest.raises(JudgeConfigError, match="'papr' is not known; use 'paper'"):
        ReasoningReward(penalty="papr")


def test_the_fine_stands_in_the_turn():
    penalty = RepetitionPenalty(at_least=1)
    env = VisualReasoningReward(gym.make("vagen/FrozenLake-v0"), penalty=penalty)
    reply = f"<think><observation>The goal is above the player. The goal is below the player.</observation><prediction>{GIFT}</prediction></think><answer>Up</answer>"
    for seed in range(3):
        env.reset(seed=seed)
        _, reward, _, _, info = env.step(reply)
    terms = {term.name: term.value for term in info["turn"].rewards}
    assert terms["repetition"] == pytest.approx(-0.2)
    assert reward == pytest.approx(sum(terms.values()))


def test_variety():
    assert entropy([]) == 0.0
    assert entropy(["a b c d"]) == pytest.approx(2.0)
    assert entropy(["a a", "A"]) == 0.0
    assert entropy(["a a a", "b"]) == pytest.approx(0.8112781244591328)  # of shares 3/4 and 1/4
    assert distinct_responses([]) == 0.0
    assert distinct_responses(["A b", "a  b", "c"]) == pytest.approx(2 / 3)


def test_the_report_tells_catch_alls_from_descriptions():
    class Lenient(Judge):
        """Accepts what mentions the gift: the kind of judge that is hacked."""

        name = "lenient"

        def score(self, statement):
            return Score(float("gift" in statement.text), "")

    env = gym.make("vagen/FrozenLake-v0")
    turns = []
    for seed in range(20):
        env.reset(seed=seed)
        truth = env.unwrapped.true_state.natural_language()
        reply = f"<think><observation>{truth}</observation><prediction>{GIFT}</prediction></think><answer>Up</answer>"
        turns.append(env.step(reply)[4]["turn"])
    hacked = rewarded_sentences(turns, [score_turn(turn, Lenient()) for turn in turns], Lenient())
    assert hacked[0].sentence == "the player will be at the position of the gift"
    assert hacked[0].truth_rate == 1.0
    honest = rewarded_sentences(
        turns, [score_turn(turn, RuleJudge()) for turn in turns], RuleJudge()
    )
    assert honest[0].truth_rate < 0.5


class Counted(Judge):
    """Finds every sentence as right as `value` says, and keeps what it was asked."""

    name = "counted"

    def __init__(self, value):
        self.value, self.asked = value, []

    def score(self, statement):
        self.asked.append(statement)
        return Score(self.value, "")


def turns_saying(observation, prediction, count):
    """First turns of so many levels, whose replies say this."""
    env = gym.make("vagen/FrozenLake-v0", observation="text")
    reply = (
        f"<think><observation>{observation}</observation><reasoning>-</reasoning>"
        f"<prediction>{prediction}</prediction></think><answer>Up</answer>"
    )
    turns = []
    for seed in range(count):
        env.reset(seed=seed)
        turns.append(env.step(reply)[4]["turn"])
    return turns


def test_the_report_counts_statements_and_adds_their_scores():
    """A sentence counts once in a statement, and where its score is unknown for nothing."""
    turns = turns_saying("One. One. Both.", "Other. Both.", 3)
    scores = [
        TurnScores(Score(1.0, ""), Score(0.5, "")),
        TurnScores(Score(0.25, ""), Score.unscored("no answer")),
        TurnScores(None, Score(0.25, "")),
    ]
    rows = rewarded_sentences(turns, scores, Counted(0.7))
    found = {row.sentence: (row.count, row.value, row.truth_rate) for row in rows}
    assert found == {"both": (5, 2.0, 1.0), "one": (2, 1.25, 1.0), "other": (3, 0.75, 1.0)}
    assert [row.sentence for row in rows] == ["both", "one", "other"]
    assert all(row.kinds == {"frozen_lake"} for row in rows)
    for value in (0.69, None):
        assert rewarded_sentences(turns, scores, Counted(value))[0].truth_rate == 0.0


def test_a_statement_that_is_missing_has_no_sentences():
    env = gym.make("vagen/FrozenLake-v0", observation="text")
    env.reset(seed=0)
    turn = env.step("<think>Up.</think><answer>Up</answer>")[4]["turn"]
    assert turn.parsed.observation is None
    scores = [TurnScores(Score.unscored("nothing was said"))]
    assert rewarded_sentences([turn], scores, Counted(1.0)) == []


def test_the_report_asks_of_states_spread_over_the_turns():
    turns = turns_saying("One.", "-", 11)
    scores = [TurnScores(Score(1.0, "")) for _ in turns]
    judge = Counted(1.0)
    rewarded_sentences(turns, scores, judge, probes=3)
    assert [each.state for each in judge.asked] == [turns[i].before for i in (0, 3, 6)]
    assert {(each.part, each.text) for each in judge.asked} == {("grounding", "one")}
    judge = Counted(1.0)
    rewarded_sentences(turns, scores, judge)
    assert [each.state for each in judge.asked] == [turn.before for turn in turns]
    judge = Counted(1.0)
    rewarded_sentences(turns * 10, scores * 10, judge)
    assert len(judge.asked) == 50


def test_the_report_has_the_twenty_sentences_that_earned_most():
    turns = turns_saying(" ".join(f"Sentence {i}." for i in range(25)), "-", 1)
    scores = [TurnScores(Score(1.0, ""))]
    assert len(rewarded_sentences(turns, scores, Counted(1.0))) == 20
    assert len(rewarded_sentences(turns, scores, Counted(1.0), n=2)) == 2


def test_in_vector_environments():
    for mode in ("sync", "async"):
        envs = gym.make_vec(
            "vagen/Sokoban-v0", 2, vectorization_mode=mode, wrappers=[VisualReasoningReward]
        )
        envs.reset(seed=[1, 2])
        _, rewards, *_ = envs.step(
            [
                "<think><observation>The box is above the player. The box is below the player"
                "</observation></think><answer>Up</answer>"
            ]
            * 2
        )
        assert rewards.shape == (2,)
        envs.close()


HACKS = {
    # VAGEN, appendix E.3: the four responses printed as hacks, with boards of the printed relations
    "world modelling, at the gift": (GIFT, FrozenLakeState(4, (0, 2), (0, 2), ((3, 3),))),
    "world modelling, elsewhere": (GIFT, FrozenLakeState(4, (2, 0), (0, 2), ())),
    "grounding, corners": (
        "The player is at the top left, the gift is at the bottom right, and there are holes at the top and bottom"
        " right corners.",
        FrozenLakeState(4, (1, 1), (3, 3), ((0, 2), (2, 3))),
    ),
    "grounding, center": (
        "The player is in the center of the grid, the gift is on the left side, and there is a hole on the right side.",
        FrozenLakeState(4, (1, 3), (1, 0), ()),
    ),
}


@pytest.mark.parametrize("name", HACKS)
def test_words_earn_only_where_they_are_true(name):
    """The gift's sentence is true on the first board; the descriptions name places on the board, and not all hold."""
    text, state = HACKS[name]
    part = "world_modeling" if name.startswith("world") else "grounding"
    true = name == "world modelling, at the gift"
    assert (RuleJudge("direct").score(Statement(part, text, state)).value or 0) == float(true)
    f1 = RuleJudge().score(Statement(part, text, state)).value or 0
    assert f1 == pytest.approx(2 / 3) if true else f1 < 2 / 3  # no hole


@pytest.mark.parametrize("name", HACKS)
def test_repeated_where_it_is_wrong_it_is_fined(name):
    text, _ = HACKS[name]
    penalty, judge = RepetitionPenalty(), RuleJudge()
    boards = [
        FrozenLakeState(4, (row, column), (0, 3), ((3, 0),))
        for row in range(1, 4)
        for column in range(4)
    ]
    values = [
        judge.score(Statement("world_modeling", text, board)).value or 0.0 for board in boards
    ]
    fines = [penalty.fine(text, value) for value in values]
    assert max(values) < 0.7
    assert fines == [0.0] * 8 + [-0.1] * 4
