"""Judges by name, as options of commands, recipes and adapters give them, and several judges as
one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.reader import Reading
from vagen_rewards.rule_judge import RuleJudge
from vagen_rewards.scores import Judge, Score, Statement, wait_for


def make_judge(name: str, **llm_options: Any) -> Judge:
    """The judge of this name.

    Args:
        name: `rule`, `rule-direct`, `llm:MODEL` or `llm-structured:MODEL`. Of several with commas
            between, each is asked about what the one before left unscored or unread
            (`FallbackJudge`).
        llm_options: of `LLMJudge`, for those that are one.

    Raises:
        JudgeConfigError: there is no such judge, or its endpoint has no key.
        MissingExtraError: its extra isn't installed.
    """
    kind, _, model = name.partition(":")
    if "," in name:
        return FallbackJudge(*[make_judge(each.strip(), **llm_options) for each in name.split(",")])
    if name == "rule":
        return RuleJudge()
    if name == "rule-direct":
        return RuleJudge("direct")
    if kind in ("llm", "llm-structured") and model:
        return _llm_judge(kind, model, **llm_options)
    known = (
        "rule, rule-direct, llm:MODEL, llm-structured:MODEL, or several of them with commas between"
    )
    raise JudgeConfigError(f"unknown judge {name!r}; use {known}")


def _llm_judge(kind: str, model: str, **options: Any) -> Judge:
    from vagen_rewards.llm import LLMJudge

    if options.get("max_dollars") is not None and options.get("price") is None:
        raise JudgeConfigError("max_dollars needs --price IN OUT, the dollars per million tokens")
    given = ("api_key", "base_url", "key_from")
    if not any(options.get(name) for name in given) and not os.environ.get("OPENAI_API_KEY"):
        raise JudgeConfigError(
            f"the judge {kind}:{model} needs a key: set the environment variable OPENAI_API_KEY "
            "(any word for a server of your own, which OPENAI_BASE_URL names)"
        )
    return LLMJudge(model, "direct" if kind == "llm" else "structured", **options)


class FallbackJudge(Judge):
    """Asks the next judge only about what the one before left unscored or unread.

    What a judge read stays as it is; the next one reads the rest of the text alone. Of scores,
    which can't be put together, the next one's counts where it has one.

    Args:
        judges: the first one first, such as `RuleJudge(), LLMJudge(…)`.
    """

    def __init__(self, *judges: Judge) -> None:
        if len(judges) < 2:
            raise JudgeConfigError(f"{len(judges)} judges can't be put together; give at least two")
        self.judges = judges
        self.name = f"fallback({','.join(judge.name for judge in judges)})"
        self.needs_pictures = any(judge.needs_pictures for judge in judges)
        self.reads = all(judge.reads for judge in judges)

    def score(self, statement: Statement) -> Score:
        return wait_for(self.score_many([statement]))[0]

    async def score_many(self, statements: Sequence[Statement]) -> list[Score]:
        scores = await self.judges[0].score_many(statements)
        for judge in self.judges[1:]:
            left = [
                i
                for i, score in enumerate(scores)
                if score.value is None or (score.unread and score.value < 1.0)
            ]
            if not left:
                break
            for i, later in zip(
                left, await judge.score_many([statements[i] for i in left]), strict=True
            ):
                scores[i] = later if later.scored or not scores[i].scored else scores[i]
        return scores

    async def read_many(self, statements: Sequence[Statement]) -> list[Reading | Score]:
        found = await self.judges[0].read_many(statements)
        for judge in self.judges[1:]:
            left = [
                i for i, reading in enumerate(found) if isinstance(reading, Score) or reading.unread
            ]
            if not left:
                break
            asked = [_rest(statements[i], found[i]) for i in left]
            for i, later in zip(left, await judge.read_many(asked), strict=True):
                found[i] = _joined(found[i], later)
        return found


def _rest(statement: Statement, reading: Reading | Score) -> Statement:
    """What of a statement is still to be read."""
    if isinstance(reading, Score):
        return statement
    rest = "\n".join(statement.text[start:end] for start, end in reading.unread)
    return Statement(statement.part, rest, statement.state, statement.env_id, statement.picture)


def _joined(first: Reading | Score, later: Reading | Score) -> Reading | Score:
    if isinstance(later, Score):
        return first
    if isinstance(first, Score):
        return later
    if not later.claims:  # the next one could make nothing of it either
        return first
    where = (first.unread[0][0], first.unread[-1][1])
    claims = [
        claim._replace(span=where) for claim in later.claims
    ]  # the model doesn't say where it read them
    return Reading((*first.claims, *claims), first.unread if later.unread else ())
