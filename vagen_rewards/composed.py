"""Several judges as one: the next reads what the one before left, or the many outvote the few."""

from __future__ import annotations

from collections.abc import Sequence

from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.reader import Reading
from vagen_rewards.scores import Judge, Score, Statement, wait_for


class FallbackJudge(Judge):
    """Asks the next judge only about what the one before left unscored or unread.

    What a judge read stays as it is; the next one reads the rest of the text alone. Of scores, which can't be put
    together, the next one's counts where it has one.

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
            left = [i for i, score in enumerate(scores) if _left(score)]
            if not left:
                break
            for i, later in zip(left, await judge.score_many([statements[i] for i in left]), strict=True):
                scores[i] = later if later.scored or not scores[i].scored else scores[i]
        return scores

    async def read_many(self, statements: Sequence[Statement]) -> list[Reading | Score]:
        found = await self.judges[0].read_many(statements)
        for judge in self.judges[1:]:
            left = [i for i, reading in enumerate(found) if isinstance(reading, Score) or reading.unread]
            if not left:
                break
            asked = [_rest(statements[i], found[i]) for i in left]
            for i, later in zip(left, await judge.read_many(asked), strict=True):
                found[i] = _joined(found[i], later)
        return found


def _left(score: Score) -> bool:
    return score.value is None or (bool(score.unread) and score.value < 1.0)


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
    claims = [claim._replace(span=where) for claim in later.claims]  # the model doesn't say where it read them
    return Reading((*first.claims, *claims), first.unread if later.unread else ())
