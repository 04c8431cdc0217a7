"""Judges by name, and several as one."""

from __future__ import annotations

import asyncio

import pytest

import vagen_envs  # noqa: F401
from vagen_envs.sokoban.state import SokobanState
from vagen_rewards import RuleJudge, Score, Statement
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.judges import FallbackJudge, make_judge
from vagen_rewards.reader import read
from vagen_rewards.scores import Judge

BOARD = SokobanState(8, 8, (1 << 64) - 1, (3, 3), ((2, 3),), ((1, 1),))
TRUE, FALSE, OTHER = (
    "The box is above the player.",
    "The box is below the player.",
    "The target is above the box.",
)


def statement(text=TRUE):
    return Statement("grounding", text, BOARD)


class Says(Judge):
    """Gives a fixed score, or reads fixed words, and keeps what it was asked."""

    def __init__(self, score=None, words=None, reads=True):
        self.name, self.reads, self.asked = "says", reads, []
        self.answer = score or Score.unscored("down")
        self.words = words

    def score(self, statement):
        self.asked.append(statement.text)
        return self.answer

    async def read_many(self, statements):
        self.asked += [each.text for each in statements]
        return [self.answer if self.words is None else self.reading() for _ in statements]

    def reading(self):
        return read("sokoban", self.words, "grounding")


def keys(reading):
    return [claim.key for claim in reading.claims]


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        (Score(1.0, "all read"), False),
        (Score(0.0, "wrong"), False),
        (Score(1.0, "right, though not all is read", ((0, 3),)), False),
        (Score(0.5, "read in part", ((0, 3),)), True),
        (Score.unscored("not read", ((0, 3),)), True),
        (Score.unscored("the server is down"), True),
    ],
)
def test_the_next_judge_is_asked_only_about_what_is_left(first, asked):
    later = Says(Score(0.25, "later"))
    score = FallbackJudge(Says(first), later).score(statement())
    assert bool(later.asked) == asked
    assert score.value == (0.25 if asked else first.value)
    if asked:
        assert (
            FallbackJudge(Says(first), Says()).score(statement()).value == first.value
        )  # where the next one fails


def test_the_next_judge_reads_only_the_rest_of_the_text():
    rest = "Zarf gleeb is wibbling the crate northways."
    later = Says(words=OTHER)
    judge = FallbackJudge(RuleJudge(), later)
    reading = judge.read(statement(f"{TRUE} {rest}"))
    assert [each.strip() for each in later.asked] == [rest.strip(".")]
    assert keys(reading) == [
        *keys(read("sokoban", TRUE, "grounding")),
        *keys(read("sokoban", OTHER, "grounding")),
    ]
    assert reading.unread == ()
    later.asked.clear()
    assert keys(judge.read(statement())) == keys(read("sokoban", TRUE, "grounding"))
    assert later.asked == []


def test_what_no_judge_reads_stays_unread():
    text = f"{TRUE} Zarf gleeb is wibbling the crate northways."
    alone = RuleJudge().read(statement(text))
    for later in (Says(), Says(words="Zarf gleeb.")):
        assert FallbackJudge(RuleJudge(), later).read(statement(text)) == alone
    assert isinstance(FallbackJudge(Says(), Says()).read(statement()), Score)
    assert keys(FallbackJudge(Says(), RuleJudge()).read(statement())) == keys(
        read("sokoban", TRUE, "grounding")
    )


def test_one_judge_is_no_composition():
    with pytest.raises(JudgeConfigError, match="at least two"):
        FallbackJudge(RuleJudge())
    assert FallbackJudge(RuleJudge(), Says()).reads
    assert not FallbackJudge(RuleJudge(), Says(reads=False)).reads
    assert "rule:f1:4" in FallbackJudge(RuleJudge(), Says()).name
    batch = asyncio.run(
        FallbackJudge(RuleJudge(), RuleJudge()).score_many([statement(), statement(FALSE)])
    )
    assert [score.value for score in batch] == [
        RuleJudge().score(statement(each)).value for each in (TRUE, FALSE)
    ]
    assert asyncio.run(FallbackJudge(RuleJudge(), RuleJudge()).read_many([])) == []


def test_judges_by_name(monkeypatch):
    assert make_judge("rule").name == RuleJudge().name
    assert make_judge("rule-direct").name == RuleJudge("direct").name
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    several = make_judge("rule, llm-structured:m")
    assert isinstance(several, FallbackJudge)
    assert several.reads
    assert not make_judge("rule,llm:m").reads
    assert make_judge("llm:m", concurrency=3).endpoint.concurrency == 3


@pytest.mark.parametrize("name", ["", "rules", "llm", "llm:", "rule,", "rule,nobody", "RULE"])
def test_an_unknown_judge_is_refused_with_what_there_is(name):
    with pytest.raises(JudgeConfigError, match="rule-direct"):
        make_judge(name)


def test_a_judge_without_its_key_or_price_is_refused(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(JudgeConfigError, match="OPENAI_API_KEY"):
        make_judge("llm:m")
    with pytest.raises(JudgeConfigError, match="price"):
        make_judge("llm:m", api_key="none", max_dollars=1.0)
