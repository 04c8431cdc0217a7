"""From an answer to the actions that execute, and the problems it has."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from vagen_envs.replies.actions import Action, ActionGrammar, Calls, Names, Refused
from vagen_envs.replies.answer import Found
from vagen_envs.replies.markdown import read_markdown
from vagen_envs.replies.parsed import FORMAT_CODES, REFUSED_CODES, Problem
from vagen_envs.replies.thinking import Span
from vagen_envs.replies.vocabulary import CROSSES, TICKS, is_doubtful, is_rejected

Parsing = Literal["strict", "lenient", "released"]


@dataclass(frozen=True)
class AnswerReader:
    """Reads the actions of answers; its attributes are those of `Grammar`, `tag` the answer's."""

    grammar: ActionGrammar
    separator: str
    max_actions: int
    parsing: Parsing
    tag: str

    def execute(
        self, text: str, plain: str, found: Found, problems: list[Problem], begin: int
    ) -> tuple[tuple[Action, ...], Sequence[Span]]:
        """The actions, and the answer they stand in; adds to the problems."""
        if found.differ:
            message = "the reply has answers that differ; the last one after the thoughts counts"
            problems.append(Problem("answers_differ", message, 0, found.end))
        if not found.tagged:
            if found.empty is None:
                problems.append(
                    Problem("no_answer", f"there is no {self._tagged('…')}", begin, len(text))
                )
            for group in found.choices:
                actions = self._read_loosely(plain, group, problems)
                if actions:
                    return actions, group
            if found.empty is not None:
                problems.append(Problem("no_action", "the answer has no action", *found.empty))
                return (), (found.empty,)
            return (), ()
        if self.parsing == "strict" and any(problem.code in FORMAT_CODES for problem in problems):
            last = found.choices[0][-1]
            problems.append(
                Problem("withheld", "nothing was executed because the format is broken", *last)
            )
            return (), found.choices[0]
        readings: list[tuple[tuple[Action, ...], Sequence[Span], list[Problem]]] = []
        for group in found.choices:
            amiss: list[Problem] = []
            actions = ()
            for span in group:
                actions += self.read(
                    plain if self.parsing == "lenient" else text, span, amiss, len(actions)
                )
            readings.append((actions, group, amiss))
        actions, answer, amiss = next((reading for reading in readings if reading[0]), readings[0])
        problems += amiss
        return actions, answer

    def read(
        self, text: str, span: Span, problems: list[Problem], before: int = 0
    ) -> tuple[Action, ...]:
        """The actions of an answer, after `before` others; adds to the problems."""
        start, end = span
        actions: list[Action] = []
        lenient = self.parsing == "lenient" and isinstance(self.grammar, Names | Calls)
        for piece, left, right in self._pieces(text, start, end):
            read = self.grammar.read(piece, left, right)
            if isinstance(read, Refused):
                meant = (
                    read_markdown(text, start, end, self.separator, self.grammar)
                    if lenient
                    else None
                )
                if meant:
                    return self._limited(meant, end, problems, before, in_markdown=True)
                if meant is not None:
                    actions = []
                    problems.append(Problem(read.code, read.message, left, right))
                    break
                full = before + len(actions) >= self.max_actions
                problems.append(
                    self._too_many(left, end)
                    if full
                    else Problem(read.code, read.message, left, right)
                )
                marked = not {*CROSSES, *TICKS}.isdisjoint(text[start:end])
                if lenient and (marked or (is_doubtful if full else is_rejected)(text[start:end])):
                    actions = []
                break
            actions.append(read)
        if self.parsing != "released" and self._is_echo(actions):
            message = "the answer repeats the list of all actions"
            problems.append(Problem("no_action", message, start, end))
            return ()
        if before + len(actions) > self.max_actions:
            problems.append(self._too_many(actions[self.max_actions - before].start, end))
            actions = actions[: self.max_actions - before]
        if (
            not actions
            and not before
            and not (problems and problems[-1].code in {*REFUSED_CODES, "too_many_actions"})
        ):
            problems.append(Problem("no_action", "the answer has no action", start, end))
        return tuple(actions)

    def _read_loosely(
        self, text: str, group: Sequence[Span], problems: list[Problem]
    ) -> tuple[Action, ...]:
        """The actions of an answer that isn't between the format's tags; none if it isn't clear."""
        actions: list[Action] = []
        for start, end in group:
            if isinstance(self.grammar, Names | Calls):
                actions += read_markdown(text, start, end, self.separator, self.grammar) or ()
            elif self._is_selective and (piece := text[start:end].strip()):
                read = self.grammar.read(piece, start, end)
                actions += [] if isinstance(read, Refused) else [read]
        return self._limited(actions, group[-1][1], problems) if actions else ()

    @functools.cached_property
    def _is_selective(self) -> bool:
        """Whether the grammar finds its action among other text, and refuses a text without one."""
        return isinstance(self.grammar.read("-", 0, 1), Refused)

    def _is_echo(self, actions: Sequence[Action]) -> bool:
        return isinstance(self.grammar, Names) and self.grammar.echoed(
            [action.name for action in actions]
        )

    def _limited(
        self,
        actions: list[Action],
        end: int,
        problems: list[Problem],
        before: int = 0,
        *,
        in_markdown: bool = False,
    ) -> tuple[Action, ...]:
        """Actions among markdown, at most as many as count."""
        if in_markdown:
            example = self._tagged(self.separator.join([action.text for action in actions[:2]]))
            message = f"an answer is only actions, such as {example}"
            problems.append(Problem("markdown_answer", message, actions[0].start, end))
        if before + len(actions) > self.max_actions:
            problems.append(self._too_many(min(actions[-1].start, end), end))
        return tuple(actions[: self.max_actions - before])

    def _too_many(self, start: int, end: int) -> Problem:
        return Problem(
            "too_many_actions", f"only the first {self.max_actions} action(s) count", start, end
        )

    def _pieces(self, text: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """The non-empty pieces between separators, stripped, with their spans."""
        left = start
        # An action that can contain the separator, as an SVG can, finds it itself.
        find = getattr(self.grammar, "find_separator", str.find)
        while left <= end:
            right = find(text, self.separator, left, end)
            if right < 0:
                right = end
            piece = text[left:right].replace("<image>", "").strip()
            if piece:
                yield piece, left, right
            left = right + len(self.separator)

    def _tagged(self, text: str) -> str:
        return f"<{self.tag}>{text}</{self.tag}>"
