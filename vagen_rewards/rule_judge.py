"""The judge that reads by rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.reader import Marks, Reading, mark, read
from vagen_rewards.scores import Judge, Score, Statement


class RuleJudge(Judge):
    """Reads claims by the grammar of `vagen_rewards.reader` and compares them with the true state.

    Clauses that aren't surely read are left out, as if they weren't there: they earn nothing and
    cost nothing.

    Args:
        grading: `"f1"` (default): F1 of the stated facts, as in VAGEN, appendix D.1.2. `"direct"`,
            as in D.1.1: 1 if everything is true and something that matters is stated, 0 if anything
            is false; unscored if nothing is false but a part that may matter wasn't read.
            `"claims"`: 1 if all claims are true, 0 if any is false.
    """

    reads = True

    def __init__(self, grading: Literal["f1", "direct", "claims"] = "f1") -> None:
        if grading not in ("f1", "direct", "claims"):
            raise JudgeConfigError(
                f"grading {grading!r} is not known; use 'f1', 'direct' or 'claims'"
            )
        self.grading = grading
        self.name = f"rule:{grading}:4"

    def score(self, statement: Statement) -> Score:
        """Score one statement. Raises JudgeConfigError for a state of unknown kind."""
        if not statement.text or statement.text.isspace():
            return Score(0.0, "the statement is empty")
        reading = self.read(statement)
        return self.graded(reading, mark(statement.state, reading, statement.part))

    def graded(self, reading: Reading, marks: Marks) -> Score:
        """The score of a reading. Claims that the state doesn't decide count as unread."""
        unread = (*reading.unread, *marks.undecided)
        count = marks.right + marks.wrong
        if not count:
            return Score.unscored("no claim that can be checked was read", unread or ((0, 1),))
        reason = f"{marks.right} of {count} claims are right, "
        reason += f"{marks.found} of {marks.wanted} facts are stated"
        if marks.notes:
            reason += f"; wrong: {'; '.join(marks.notes)}"
        if self.grading == "claims":
            return Score(float(not marks.wrong), reason, unread)
        if self.grading == "f1":
            return Score(marks.f1 if marks.essential else 0.0, reason, unread)
        if marks.wrong:
            return Score(0.0, reason, unread)
        if reading.matters or marks.undecided:
            return Score.unscored(
                f"all that was read is right, but not all was read ({reason})", unread
            )
        if not marks.essential:
            return Score.unscored(f"what a description must have isn't stated ({reason})")
        return Score(1.0, reason, unread)

    async def read_many(self, statements: Sequence[Statement]) -> list[Reading | Score]:
        return [self.read(statement) for statement in statements]

    def read(self, statement: Statement) -> Reading:
        """The claims of a statement, whatever the state."""
        return read(statement.state.kind, statement.text, statement.part)
