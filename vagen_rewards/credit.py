"""Which words of a reply are true, sentence by sentence, for trainers that credit words by
themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from vagen_envs.core import State, Turn
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.reader import Fact, Reading, read
from vagen_rewards.scores import Part, Score, Span, Statement


@dataclass(frozen=True, slots=True)
class FieldWords:
    """A field of a reply that a judge has read.

    Attributes:
        part: `"grounding"` or `"world_modeling"`.
        span: the field's text in the reply, first code point and the one after the last.
        truths: spans of the sentences in the reply that were read, and how true each is:
            from -1 (all its claims are false) to 1 (all hold). What a state can't tell counts for
            neither. A claim holds as often as the state's own description makes it, at least once.
            A further repetition is false: otherwise repeating a true claim would pay without end.
    """

    part: Part
    span: Span
    truths: tuple[tuple[Span, float], ...]


def words_of(
    turn: Turn, readings: Iterable[tuple[Statement, Reading | Score]]
) -> tuple[FieldWords, ...]:
    """The fields of a turn's reply with the truth of what they say.

    Args:
        turn: whose reply it is.
        readings: its statements, and what a judge read in each (`ReasoningReward.read`). Where the
            judge doesn't say in which words a claim stands, as a model asked for claims doesn't,
            the whole field is one sentence.
    """
    found = []
    for statement, reading in readings:
        # The first field of a reply is its observation, the last before the answer its prediction.
        find = turn.reply.find if statement.part == "grounding" else turn.reply.rfind
        begin = find(statement.text)
        if begin < 0 or not isinstance(reading, Reading):
            continue
        held: dict[Span, list[bool]] = {}
        keys = [claim.key for claim in reading.claims]
        often = (
            _told_by(statement.state, statement.part) if len(set(keys)) < len(keys) else Counter()
        )
        said = Counter[Fact]()
        for claim in reading.claims:
            holds = claim.holds(statement.state)
            if holds:
                said[claim.key] += 1
                holds = said[claim.key] <= max(1, often[claim.key])
            if holds is not None:
                held.setdefault(claim.span, []).append(holds)
        truths = tuple(
            ((begin + start, begin + end), 2 * sum(each) / len(each) - 1)
            for (start, end), each in held.items()
        )
        found.append(FieldWords(statement.part, (begin, begin + len(statement.text)), truths))
    return tuple(found)


def kept_out(turn: Turn) -> tuple[FieldWords, ...]:
    """A reply that a gate keeps out counts as false, every word of it.

    Else breaking the format is the way out where nothing true comes to mind: from 0.95 well-formed
    replies 0.60 were left after ten rollouts of FrozenLake.
    """
    whole = (0, len(turn.reply))
    return (FieldWords("grounding", whole, ((whole, -1.0),)),)


def _told_by(state: State, part: Part) -> Counter[Fact]:
    """How often a state's own description makes each claim: a lake has several holes above the
    player.
    """
    try:
        read_so = read(state.kind, state.natural_language(), part)
    except (
        NotImplementedError,
        JudgeConfigError,
    ):
        # No words of its own, or none that the rules read.
        return Counter()
    return Counter(claim.key for claim in read_so.claims)
