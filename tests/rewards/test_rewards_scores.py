"""What a judge is asked of a turn, and how its answers are gathered and counted."""

from __future__ import annotations

import asyncio

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_rewards import (
    Judge,
    ReasoningReward,
    Score,
    Statement,
    Tally,
    TurnScores,
    VisualReasoningReward,
    score_turn,
    statements_of,
)
from vagen_rewards.errors import TooManyUnscoredError


class Lengths(Judge):
    """Remembers what it is asked, and scores a text by its length; words that begin with ? it can't judge."""

    name = "lengths"

    def __init__(self, needs_pictures=False):
        self.needs_pictures = needs_pictures
        self.asked: list[Statement] = []
        self.batches: list[int] = []

    def score(self, statement):
        self.asked.append(statement)
        if statement.text.startswith("?"):
            return Score.unscored(f"no idea of {statement.text}")
        return Score(len(statement.text) / 10, statement.text)

    async def score_many(self, statements):
        self.batches.append(len(statements))
        return await super().score_many(statements)


def reply(observation="ab", prediction="abcd", answer="Up"):
    return (
        f"<think><observation>{observation}</observation><prediction>{prediction}</prediction></think>"
        f"<answer>{answer}</answer>"
    )


def a_turn(*replies, env_id="vagen/FrozenLake-v0", **options):
    env = gym.make(env_id, **options)
    env.reset(seed=3)
    for text in replies:
        turn = env.step(text)[4]["turn"]
    return turn


@pytest.mark.parametrize("pictures", [False, True])
def test_an_observation_is_held_against_before_and_a_prediction_against_after(pictures):
    turn = a_turn(reply(answer="Up"))
    assert turn.before != turn.after
    judge = Lengths(needs_pictures=pictures)
    scores = score_turn(turn, judge)
    env_id = "vagen/FrozenLake-v0"
    assert judge.asked == [
        Statement(
            "grounding", "ab", turn.before, env_id, turn.observed.picture.png if pictures else None
        ),
        Statement(
            "world_modeling",
            "abcd",
            turn.after,
            env_id,
            turn.result.picture.png if pictures else None,
        ),
    ]
    assert statements_of(turn, pictures) == judge.asked
    assert [each.picture for each in statements_of(turn)] == [None, None]
    unseen = a_turn(reply(), observation="text")
    assert [each.picture for each in statements_of(unseen, pictures=True)] == [None, None]
    assert scores == TurnScores(Score(0.2, "ab"), Score(0.4, "abcd"))
    assert scores.by_part() == (
        ("grounding", scores.grounding),
        ("world_modeling", scores.world_modeling),
    )


def test_a_batch_is_asked_at_once_and_answered_in_order():
    turns = [a_turn(reply("a")), a_turn("no tags"), a_turn(reply("abc", "?"))]
    judge = Lengths()
    reward = ReasoningReward(judge, weighting="plain", gate=False)
    scores = [scored for _, scored in asyncio.run(reward.paid_all(turns))]
    assert scores == [score_turn(turn, Lengths()) for turn in turns]
    assert scores[1] == TurnScores()
    assert judge.batches == [4]
    assert asyncio.run(reward.paid_all([])) == []


def test_a_tally_doesnt_take_words_that_arent_understood_for_a_broken_judge():
    tally = Tally(0.25)
    tally.add(*[Score.unscored("nothing of it was understood", ((0, 9),))] * 9)
    tally.check()
    assert (tally.scored, tally.unscored, tally.unread) == (0, 0, 9)
    tally.add(*[Score.unscored("the server is down")] * 3)
    tally.check()  # 3 of 12
    tally.add(Score.unscored("the server is down"))
    with pytest.raises(
        TooManyUnscoredError, match=r"4 of 13 .* more than the 25% allowed; .* the server is down"
    ):
        tally.check()
    tally.add(*[Score(1.0, "fine")] * 3)
    tally.check()  # a quarter again


def test_scores_become_terms_and_metrics_and_take_the_place_of_earlier_ones():
    turn = a_turn(reply())
    task = list(turn.rewards)
    reward = ReasoningReward(beta_grounding=2.0, beta_world_modeling=3.0)
    first = reward.with_scores(
        turn, TurnScores(Score(0.5, "half"), Score.unscored("down", ((0, 1),)))
    )
    assert [(term.name, term.value) for term in first.rewards[len(task) :]] == [("grounding", 1.0)]
    assert {**first.metrics} == {
        **turn.metrics,
        "reasoning_gated": False,
        "grounding_reason": "half",
        "grounding_unread": 0.0,
        "grounding": 0.5,
        "world_modeling_reason": "down",
        "world_modeling_unread": 0.25,
        "world_modeling_unscored": True,
    }
    second = reward.with_scores(first, TurnScores(None, Score(0.25, "poor")))
    assert [(term.name, term.value) for term in second.rewards[len(task) :]] == [
        ("world_modeling", 0.75)
    ]
    assert {
        name: value
        for name, value in second.metrics.items()
        if name.startswith(("grounding", "world"))
    } == {
        "world_modeling_reason": "poor",
        "world_modeling_unread": 0.0,
        "world_modeling": 0.25,
    }
    assert list(second.rewards[: len(task)]) == task


def test_the_wrapper_counts_what_is_unscored_and_gives_up_after_twenty_statements():
    env = VisualReasoningReward(
        gym.make("vagen/FrozenLake-v0", max_turns=30, max_steps=100),
        Lengths(),
        max_unscored=0.5,
        weighting="plain",
        gate=False,
    )
    env.reset(seed=3)
    stay = reply("?", "?", answer="Sideways")
    for count in range(1, 10):
        info = env.step(stay)[4]
        assert (env.tally.scored, env.tally.unscored) == (0, 2 * count)
        assert info["scores"].grounding.value is None
    with pytest.raises(TooManyUnscoredError, match="20 of 20"):
        env.step(stay)
