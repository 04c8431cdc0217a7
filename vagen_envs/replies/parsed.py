"""The result of parsing a reply: its fields, its actions and its problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vagen_envs.replies.actions import Action

FORMAT_CODES = frozenset(
    {
        "no_answer",
        "missing_tag",
        "unclosed_tag",
        "repeated_tag",
        "unexpected_tag",
        "tag_order",
        "tag_form",
        "text_outside",
        "empty_field",
        "native_thinking",
        "too_long",
        "markdown_answer",
    }
)
"""Problems that break the format. The other codes are about actions: `no_action`, `unknown_action`,
`bad_argument`, `too_many_actions`, `withheld`, `unclear_answer` (it says more than the actions to
execute), and `answers_differ`, which alone is no fault: the reply has several complete answers,
drafts included, and they aren't the same."""


REFUSED_CODES = frozenset({"unknown_action", "bad_argument"})
"""Problems of a piece of an answer that can't be executed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a reply.

    Attributes:
        code: one of `FORMAT_CODES` or of the action codes.
        message: what is wrong, in words a model can act on.
        start, end: half-open span of code points in the reply.
    """

    code: str
    message: str
    start: int
    end: int

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary."""
        return {"code": self.code, "message": self.message, "start": self.start, "end": self.end}


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """What a reply says.

    Attributes:
        observation, reasoning, prediction, think: stripped text of the fields, `None` where absent.
            `think` is the free text of `free_think`.
        answer: stripped text of the answer that was read, `None` where there is none.
        native_thinking: what a thinking model wrote before its reply proper, else `None`.
        actions: what will be executed, at most the maximum; ends before the first refused piece.
        well_formed: the tags are exactly those of the format, in order, with nothing outside.
        problems: everything found wrong, in the order of the reply.
    """

    observation: str | None
    reasoning: str | None
    prediction: str | None
    think: str | None
    answer: str | None
    native_thinking: str | None
    actions: tuple[Action, ...]
    well_formed: bool
    problems: tuple[Problem, ...]

    @property
    def cut(self) -> bool:
        """Whether actions beyond the maximum were dropped."""
        return self._has("too_many_actions")

    @property
    def answers_differ(self) -> bool:
        """Whether complete answers, drafts in the thoughts included, aren't the same."""
        return self._has("answers_differ")

    @property
    def unclear(self) -> bool:
        """Whether an answer in a form that isn't read names actions, so that none was executed."""
        return self._has("unclear_answer")

    @property
    def refused(self) -> bool:
        """Whether a piece of the answer isn't an action of this environment."""
        return self._has(*REFUSED_CODES)

    def _has(self, *codes: str) -> bool:
        return any(problem.code in codes for problem in self.problems)

    @property
    def format_correct(self) -> bool:
        """What earns the format reward: well formed, at least one action, every action valid."""
        return self.well_formed and bool(self.actions) and not self.refused

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary. By hand, since it is made each turn: `dataclasses.asdict` takes
        ten times as long.
        """
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "actions": [action.to_json() for action in self.actions],
            "problems": [problem.to_json() for problem in self.problems],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ParsedTurn:
        """Read back what `to_json` gave."""
        actions = tuple(
            Action(**{**action, "args": tuple(action["args"])}) for action in data["actions"]
        )
        problems = tuple(Problem(**problem) for problem in data["problems"])
        return cls(**{**data, "actions": actions, "problems": problems})
