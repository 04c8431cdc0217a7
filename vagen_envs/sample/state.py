"""The true state of a sample: the known content of its pictures, and the given answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vagen_envs.core import State


@dataclass(frozen=True, slots=True)
class SampleState(State):
    """The pictures' facts and the answer.

    Attributes:
        question: the question's text.
        facts: what is known of the pictures, one sentence each; none where the data set says
            nothing.
        truth: the right answer. Never shown.
        given: the answer that was given; `None` before.
    """

    kind: ClassVar[str] = "sample"

    question: str
    facts: tuple[str, ...]
    truth: str
    given: str | None = None

    def sentences(self) -> tuple[str, ...]:
        """The facts, and the answer."""
        if self.given is None:
            return (*self.facts, "no answer has been given")
        return (*self.facts, f"the answer given is {self.given}")

    def structured(self) -> str:
        """A dictionary of the facts and the answer."""
        return f"{{facts: [{'; '.join(self.facts)}], answer: {self.given}}}"
