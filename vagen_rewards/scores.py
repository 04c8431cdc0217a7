"""What a judge is asked, what it answers, and the scores of a turn (VAGEN, section 5.1).

`<observation>` is held against the state before the turn's actions, `<prediction>` against the
state after them. A judge that failed gives an unscored `Score`, which is neither right nor wrong.
"""

from __future__ import annotations

import asyncio
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from vagen_envs.core import State, Turn
from vagen_envs.errors import VagenError
from vagen_rewards.errors import JudgeConfigError, TooManyUnscoredError
from vagen_rewards.reader.claims import PARTS as PARTS
from vagen_rewards.reader.claims import Part as Part
from vagen_rewards.reader.claims import Reading
from vagen_rewards.reader.claims import Span as Span

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Score:
    """A verdict on one statement.

    Attributes:
        value: 0 (wrong, or says nothing) to 1 (right and complete); `None` when unscored. Weighed
            by information, from -1 (as much is wrong).
        reason: why, in words for a person.
        unread: the pieces of the text that weren't understood; the rest is what was judged.
    """

    value: float | None
    reason: str
    unread: tuple[Span, ...] = ()

    @classmethod
    def unscored(cls, reason: str, unread: tuple[Span, ...] = ()) -> Score:
        """No verdict: the judge failed, or didn't understand. Adds nothing to a reward and is
        counted.
        """
        return cls(None, reason, unread)

    @property
    def scored(self) -> bool:
        """Whether there is a verdict."""
        return self.value is not None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement to judge: the agent's words and the state that they describe.

    Attributes:
        part: `"grounding"` for a description of what is, `"world_modeling"` for a prediction.
        text: the agent's words.
        state: the truth at the time the words speak of.
        env_id: the environment's id.
        picture: PNG bytes of what was to be seen then, for a judge that `needs_pictures`.
    """

    part: Part
    text: str
    state: State
    env_id: str = ""
    picture: bytes | None = None


@dataclass(frozen=True, slots=True)
class TurnScores:
    """The scores of a turn. `None` where the reply has no such field."""

    grounding: Score | None = None
    world_modeling: Score | None = None

    def by_part(self) -> tuple[tuple[Part, Score], ...]:
        """The scores there are."""
        both = zip(PARTS, (self.grounding, self.world_modeling), strict=True)
        return tuple([(part, score) for part, score in both if score is not None])


class Judge(ABC):
    """Scores statements. `name` stands in reports; it tells judges and their settings apart.

    A judge that also `reads` gives the claims of a text, which can be weighed by what they tell.
    """

    name: str
    needs_pictures = False
    reads = False

    @abstractmethod
    def score(self, statement: Statement) -> Score:
        """Score one statement. Blocks; never raises because of the statement's text."""

    async def score_many(self, statements: Sequence[Statement]) -> list[Score]:
        """Score a batch, in order. Judges that wait for something override this."""
        return [self.score(statement) for statement in statements]

    def read(self, statement: Statement) -> Reading | Score:
        """What a statement claims, or an unscored score if that couldn't be found out. Blocks."""
        return wait_for(self.read_many([statement]))[0]

    async def read_many(self, statements: Sequence[Statement]) -> list[Reading | Score]:
        """What statements claim, in order. Raises JudgeConfigError for a judge that doesn't
        read.
        """
        raise JudgeConfigError(
            f"the judge {self.name} gives verdicts, not claims, so they can't be weighed by what "
            "they tell; use weighting='plain', or a judge that reads: rule or "
            "llm-structured:MODEL"
        )


def statements_of(turn: Turn, pictures: bool = False) -> list[Statement]:
    """The statements that a turn's reply makes, at most one a part; none for a field that isn't
    there.
    """
    parsed = turn.parsed
    made = []
    if parsed.observation is not None:
        png = turn.observed.picture.png if pictures and turn.observed.picture else None
        made.append(Statement("grounding", parsed.observation, turn.before, turn.env_id, png))
    if parsed.prediction is not None:
        png = turn.result.picture.png if pictures and turn.result.picture else None
        made.append(Statement("world_modeling", parsed.prediction, turn.after, turn.env_id, png))
    return made


def score_turn(turn: Turn, judge: Judge) -> TurnScores:
    """Score what a turn's reply says. Blocks."""
    made = statements_of(turn, judge.needs_pictures)
    return TurnScores(**{statement.part: judge.score(statement) for statement in made})


async def each_or_unscored(
    ask: Callable[[Sequence[Statement]], Awaitable[list[Any]]], made: Sequence[Statement]
) -> list[Any]:
    """What a judge answers to statements. Where it raises, each is asked alone, and those that fail
    are unscored.

    What this package raises on purpose (a budget that is spent, a wrong option) goes through.
    """
    if not made:
        return []
    try:
        return await ask(made)
    except VagenError:
        raise
    except Exception as error:  # a judge of somebody's own may raise anything
        if len(made) > 1:
            return [answer for each in made for answer in await each_or_unscored(ask, [each])]
        failure = f"the judge raised {type(error).__name__}: {error}"
        # Once for each text, as Python's filter does by default.
        warnings.warn(f"{failure}; its statements are unscored", RuntimeWarning, stacklevel=2)
        return [Score.unscored(failure)]


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, with or without a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def passes(turn: Turn) -> bool:
    """The gate: whether the reply's format is correct, and an action of it was executed."""
    return turn.parsed.format_correct and bool(turn.executed)


def share_unread(text: str, score: Score) -> float:
    """The share of a text's characters that its judge didn't understand."""
    return min(1.0, sum(end - start for start, end in score.unread) / len(text)) if text else 0.0


class Tally:
    """Counts statements: those scored, those that a judge failed at, and those that it merely
    didn't understand.

    Args:
        max_unscored: share of statements that a judge failed at above which `check` raises; `None`
            never raises. An agent whose words can't be read is no broken judge, and doesn't count.
        at_least: statements to wait for before `check` may raise.
    """

    def __init__(self, max_unscored: float | None = None, at_least: int = 1) -> None:
        self.max_unscored = max_unscored
        self.at_least = at_least
        self.scored = 0
        self.unscored = 0
        self.unread = 0
        self.last_reason = ""

    def add(self, *scores: Score) -> None:
        """Count scores."""
        for score in scores:
            if score.scored:
                self.scored += 1
            elif score.unread:
                self.unread += 1
            else:
                self.unscored += 1
                self.last_reason = score.reason

    def check(self) -> None:
        """Raise TooManyUnscoredError if a judge failed at too large a share."""
        seen = self.scored + self.unscored + self.unread
        if (
            self.max_unscored is None
            or seen < max(self.at_least, 1)
            or self.unscored <= self.max_unscored * seen
        ):
            return
        raise TooManyUnscoredError(
            f"{self.unscored} of {seen} statements are unscored, more than the "
            f"{self.max_unscored:.0%} allowed; the last for this reason: {self.last_reason}. Fix "
            "the judge, or raise max_unscored"
        )
