"""From an answer to the actions that execute, and the problems it has."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from vagen_envs.replies.actions import Action, ActionGrammar, Calls, Names, Refused
from vagen_envs.replies.answer import Found
from vagen_envs.replies.parsed import FORMAT_CODES, REFUSED_CODES, Problem
from vagen_envs.replies.table import names_action, read_table
from vagen_envs.replies.tags import Span, blanked, code_spans, in_ascii
from vagen_envs.replies.untagged import untagged_answers
from vagen_envs.replies.vocabulary import JUDGED

_WORD = re.compile(r"[\w-]+[.!]?")
_CALL = re.compile(r"[A-Za-z_]\w*\s*\([^()]*\)\s*\.?")

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
        if not found.answer:
            return self._execute_untagged(text, plain, found, problems, begin)
        if self.parsing == "strict" and any(problem.code in FORMAT_CODES for problem in problems):
            message = "nothing was executed because the format is broken"
            problems.append(Problem("withheld", message, *found.answer[-1]))
            return (), found.answer
        shown = plain if self.parsing == "lenient" else text
        actions: tuple[Action, ...] = ()
        for span in found.answer:
            actions += self.read(shown, span, problems, len(actions))
        unclear = any(problem.code == "unclear_answer" for problem in problems)
        return () if unclear else actions, found.answer

    def _execute_untagged(
        self, text: str, plain: str, found: Found, problems: list[Problem], begin: int
    ) -> tuple[tuple[Action, ...], Sequence[Span]]:
        """As `execute`, of a reply without an answer that counts between the format's tags."""
        if found.unclear is not None:
            problems.append(self._unclear(*found.unclear))
            return (), (found.unclear,)
        answer, actions = self._read_others(text, plain, found)
        if found.empty is None:
            message = f"there is no {self._tagged('…')}"
            problems.append(Problem("no_answer", message, begin, len(text)))
        elif not actions:
            problems.append(Problem("no_action", "the answer has no action", *found.empty))
            return (), (found.empty,)
        if answer and not actions:
            problems.append(self._unclear(*answer[-1]))
        return self._limited(actions, answer[-1][1], problems) if actions else (), answer

    def _read_others(
        self, text: str, plain: str, found: Found
    ) -> tuple[Sequence[Span], list[Action]]:
        """The answer that a reply gives in another form, with its actions; without any where it
        isn't clear.
        """
        if self.parsing != "lenient" or found.thinking.open_from is not None:
            return (), []
        said = blanked(in_ascii(text[: found.end]), found.hidden)
        plain = blanked(plain[: found.end], found.hidden)
        whole, parts, lines = untagged_answers(said, code_spans(said))
        if whole is not None and (actions := self._read_loosely(plain, whole.spans)):
            return whole.spans, actions
        read = [(part.spans, self._read_loosely(plain, part.spans)) for part in parts]
        read = [(spans, actions) for spans, actions in read if actions]
        bare = [self._read_loosely(plain, line.spans) for line in lines]
        said_by = [*filter(None, bare), *(actions for _, actions in read)]
        texts = {tuple(action.text for action in actions) for actions in said_by}
        if read and len(texts) == 1:
            return read[-1]
        unclear = [spans for spans, _ in read] or [
            part.spans
            for part in parts
            if self._is_lenient and self._names_action(plain, part.spans[-1])
        ]
        return unclear[-1] if unclear else (), []

    def read(
        self, text: str, span: Span, problems: list[Problem], before: int = 0
    ) -> tuple[Action, ...]:
        """The actions of an answer, after `before` others; adds to the problems."""
        start, end = span
        actions: list[Action] = []
        for piece, left, right in self._pieces(text, start, end):
            read = self.grammar.read(piece, left, right)
            if isinstance(read, Refused):
                meant = self._read_table(text, span)
                if meant:
                    return self._limited(meant, end, problems, before, in_markdown=True)
                if meant is None and self._argues(text, span):
                    problems.append(self._unclear(start, end))
                    return ()
                if meant is not None:
                    actions = []
                full = before + len(actions) >= self.max_actions
                refused = Problem(read.code, read.message, left, right)
                problems.append(self._too_many(left, end) if full else refused)
                break
            actions.append(read)
        if self.parsing != "released" and self._is_echo(actions):
            message = "the answer repeats the list of all actions"
            problems.append(Problem("no_action", message, start, end))
            return ()
        if before + len(actions) > self.max_actions:
            problems.append(self._too_many(actions[self.max_actions - before].start, end))
            actions = actions[: self.max_actions - before]
        last = problems[-1].code if problems else ""
        if not actions and not before and last not in {*REFUSED_CODES, "too_many_actions"}:
            problems.append(Problem("no_action", "the answer has no action", start, end))
        return tuple(actions)

    @functools.cached_property
    def _is_lenient(self) -> bool:
        """Whether answers are read in other forms too; a grammar of texts knows no others."""
        return self.parsing == "lenient" and isinstance(self.grammar, Names | Calls)

    def _read_table(self, text: str, span: Span) -> list[Action] | None:
        return read_table(text, *span, self.separator, self.grammar) if self._is_lenient else None

    def _argues(self, text: str, span: Span) -> bool:
        """Whether an answer names actions among other words, and isn't a list in which one is
        unknown.
        """
        if not self._is_lenient:
            return False
        pieces = [piece for piece, *_ in self._pieces(text, *span)]
        item = _CALL if isinstance(self.grammar, Calls) else _WORD
        listed = all(map(item.fullmatch, pieces))
        if listed and JUDGED.isdisjoint(piece.casefold().strip(".!") for piece in pieces):
            return False
        return self._names_action(text, span)

    def _names_action(self, text: str, span: Span) -> bool:
        return names_action(text[slice(*span)], self.grammar)

    def _unclear(self, start: int, end: int) -> Problem:
        message = (
            "the answer says more than which actions to execute; write only "
            f"{self._tagged(self.grammar.summary())}"
        )
        return Problem("unclear_answer", message, start, end)

    def _read_loosely(self, text: str, spans: Sequence[Span]) -> list[Action]:
        """The actions of an answer that isn't between the format's tags; none if it isn't clear."""
        actions: list[Action] = []
        for start, end in spans:
            if isinstance(self.grammar, Names | Calls):
                actions += self._read_table(text, (start, end)) or ()
            elif self._is_selective and (piece := text[start:end].strip()):
                read = self.grammar.read(piece, start, end)
                actions += [] if isinstance(read, Refused) else [read]
        return actions

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
