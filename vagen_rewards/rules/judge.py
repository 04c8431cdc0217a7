"""The judge that reads by rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.rules.marks import Marks, comparison_for
from vagen_rewards.rules.readings import BUILT_IN, MAX_TEXT, Reading, read
from vagen_rewards.rules.strict import unsure_of
from vagen_rewards.scores import Judge, Score, Span, Statement


class RuleJudge(Judge):
    """Reads the agent's words into relations, coordinates or elements, and compares them with the truth.

    English sentences, and the symbolic and structured forms where the paper has them. Words that can't
    be read earn nothing; places on the board ("the gift is at the bottom right") are no relations; what
    is hedged ("above or below") or contradicts itself is wrong. Text can't talk this judge into anything.

    Args:
        grading: `"f1"` (default), as in VAGEN, appendix D.1.2: F1 of the stated facts. `"direct"`, as in
            D.1.1: 1 when something that matters is stated and nothing is wrong, else 0. The free pass of
            D.1.1 for states that are already solved is not given: it rewards any sentence. `"claims"`: 1
            when something is said and all of it is true, whether or not it matters; for reports.
    """

    reads = True

    def __init__(self, grading: Literal["f1", "direct", "claims"] = "f1") -> None:
        if grading not in ("f1", "direct", "claims"):
            raise JudgeConfigError(f"grading {grading!r} is not known; use 'f1', 'direct' or 'claims'")
        self.grading = grading
        self.name = f"rule:{grading}:1"

    def score(self, statement: Statement) -> Score:
        """Score one statement. Raises JudgeConfigError for a state of unknown kind."""
        text = statement.text
        if not text or text.isspace():
            return Score(0.0, "nothing is said")
        marks = comparison_for(statement.state.kind)(statement.state, text[:MAX_TEXT], statement.part)
        unsure = () if marks.essential and not marks.wrong else _unsure(statement)
        if marks.wrong and unsure and not _surely_wrong(statement, unsure):
            where = " … ".join(text[a:b].strip() for a, b in unsure)[:200]
            return Score.unscored(f"what seems wrong ({'; '.join(marks.notes)}) may be misread: {where}", unsure)
        if unsure and not marks.wrong:  # what matters most may stand in what was misread
            marks = replace(marks, matters=True, unread=tuple(sorted({*marks.unread, *unsure})))
        said = marks.right + marks.wrong
        missed = "; not read: " + " … ".join(text[a:b].strip() for a, b in marks.unread)[:200] if marks.unread else ""
        if not said:
            if any(letter.isalpha() for letter in text):
                return Score.unscored(
                    f"nothing that could be checked was read{missed}", marks.unread or ((0, len(text)),)
                )
            return Score(0.0, "nothing is said")
        reason = f"{marks.right} of {said} claims are right, {marks.found} of {marks.wanted} facts are stated"
        if marks.notes:
            reason += "; wrong: " + "; ".join(marks.notes)
        reason += missed
        return self._graded(marks, reason)

    def _graded(self, marks: Marks, reason: str) -> Score:
        untold = bool(marks.unread) and not marks.essential  # it may stand in what wasn't read
        matters = marks.matters or (untold and self.grading == "direct")
        if not marks.wrong and matters and (not marks.essential or self.grading != "f1"):
            return Score.unscored(f"what was read is right, but not all was read ({reason})", marks.unread)
        if self.grading != "claims" and not marks.essential:
            return Score(0.0, f"what matters most is not said rightly ({reason})", marks.unread)
        if self.grading != "f1":
            return Score(1.0 if marks.right and not marks.wrong else 0.0, reason, marks.unread)
        return Score(marks.f1, reason, marks.unread)

    async def read_many(self, statements: Sequence[Statement]) -> list[Reading | Score]:
        return [self.read(statement) for statement in statements]

    def read(self, statement: Statement) -> Reading | Score:
        """What a statement claims, whatever the state."""
        return read(statement.state.kind, statement.text, statement.part)


def _surely_wrong(statement: Statement, unsure: tuple[Span, ...]) -> bool:
    """Whether something is wrong also without the sentences that may have been misread.

    What such a sentence seems to say is confirmed where it holds: by chance few misread sentences do. Where it doesn't
    hold, to have misread it is as likely as that it is wrong.
    """
    text = statement.text[:MAX_TEXT]
    for start, end in unsure:
        text = text[:start] + " " * (end - start) + text[end:]
    return not text.isspace() and comparison_for(statement.state.kind)(statement.state, text, statement.part).wrong > 0


def _unsure(statement: Statement) -> tuple[Span, ...]:
    """The sentences that may have been misread; none of a grid, a dictionary, or what somebody else's reader reads."""
    kind, text = statement.state.kind, statement.text[:MAX_TEXT]
    if kind not in BUILT_IN or (
        ("{" in text or "\n" in text)
        and any(span == (0, len(text)) for span, _ in read(kind, text, statement.part).claims)
    ):
        return ()
    return unsure_of(kind, text, statement.part)
