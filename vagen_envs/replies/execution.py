"""From an answer to the actions that execute, and the problems it has.

Without an answer between the format's tags, the answers in other forms count: other tags, tool
calls, JSON, a label, the bare actions. All that can be read have to agree.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from vagen_envs.replies.actions import Action, ActionGrammar, Calls, Names, Refused
from vagen_envs.replies.answers import Reply
from vagen_envs.replies.other_forms import Spans, other_answers
from vagen_envs.replies.parsed import FORMAT_CODES, Problem
from vagen_envs.replies.table import Dressed, names_action, read_table
from vagen_envs.replies.tags import Span, blanked
from vagen_envs.replies.vocabulary import JUDGED

Parsing = Literal["strict", "lenient", "released"]

_LINE = re.compile(r"[^\n\f]+")
_MOST_LINES = 16  # after an answer that are read, so that time stays linear
_WORD = re.compile(r"[\w-]+[.!]?")
_CALL = re.compile(r"[A-Za-z_]\w*\s*\([^()]*\)\s*\.?")


@dataclass(frozen=True)
class AnswerReader:
    """Reads the actions of answers; its attributes are those of `Grammar`, `tag` the answer's."""

    grammar: ActionGrammar
    separator: str
    max_actions: int
    parsing: Parsing
    tag: str

    def execute(
        self, text: str, reply: Reply, problems: list[Problem], begin: int
    ) -> tuple[tuple[Action, ...], Spans]:
        """The actions, and the answer they stand in; adds to the problems.

        Args:
            text: the reply as its actions are read from it.
            reply: its parts.
            problems: of its format.
            begin: where it begins, after a thinking model's own text.
        """
        if reply.answers_differ:
            message = "the reply has answers that differ; the last one after the thoughts counts"
            problems.append(Problem("answers_differ", message, 0, len(reply.plain)))
        if reply.unclear is not None:
            problems.append(self._unclear(*reply.unclear))
            return (), (reply.unclear,)
        if not reply.answer:
            return self._execute_untagged(text, reply, problems, begin)
        if self.parsing == "strict" and any(problem.code in FORMAT_CODES for problem in problems):
            message = "nothing was executed because the format is broken"
            problems.append(Problem("withheld", message, *reply.answer[-1]))
            return (), reply.answer
        actions: tuple[Action, ...] = ()
        for span in reply.answer:
            actions += self.read(text, span, problems, len(actions))
        if any(problem.code == "unclear_answer" for problem in problems):
            return (), reply.answer
        if actions and self._is_revised(reply, actions):
            problems.append(self._unclear(*reply.answer[-1]))
            return (), reply.answer
        return actions, reply.answer

    def _is_revised(self, reply: Reply, actions: Sequence[Action]) -> bool:
        """Whether a line after the answer has other actions and nothing else: "Correction: Up"."""
        if self._lenient is None:
            return False
        texts = [action.text for action in actions]
        for line in itertools.islice(_LINE.finditer(reply.said, *reply.after), _MOST_LINES):
            found = self._read_loosely(reply.said, [line.span()])[: self.max_actions]
            if found and [action.text for action in found] != texts:
                return True
        return False

    def _execute_untagged(
        self, text: str, reply: Reply, problems: list[Problem], begin: int
    ) -> tuple[tuple[Action, ...], Spans]:
        """As `execute`, of a reply without an answer that counts between the format's tags."""
        answer: Spans = ()
        actions: list[Action] = []
        if self.parsing == "lenient" and reply.thinking.open_from is None:
            answer, actions = self._read_others(text, reply)
        if reply.empty is None:
            message = f"there is no {self._tagged('…')}"
            problems.append(Problem("no_answer", message, begin, len(text)))
        elif not actions:
            problems.append(Problem("no_action", "the answer has no action", *reply.empty))
            return (), (reply.empty,)
        if actions:
            return self._limited(actions, answer[-1][1], problems), answer
        if answer:
            problems.append(self._unclear(*answer[-1]))
        return (), answer

    def _read_others(self, text: str, reply: Reply) -> tuple[Spans, list[Action]]:
        """The answer that a reply gives in another form, with its actions; without any where it
        isn't clear.
        """
        said = blanked(text, reply.hidden)
        whole, parts, lines = other_answers(reply)
        if actions := self._read_loosely(said, [whole]):
            return [whole], actions
        read = [(part, self._read_loosely(said, part.spans)) for part in parts]
        read = [(part, actions) for part, actions in read if actions]
        all_read = [actions for _, actions in read]
        all_read += filter(None, [self._read_loosely(said, [line]) for line in lines])
        texts = {tuple(action.text for action in actions) for actions in all_read}
        meant = [(part.spans, actions) for part, actions in read if part.is_meant]
        if meant and len(texts) == 1:
            return meant[-1]
        unclear = [part.spans for part, _ in read]
        if not unclear:
            unclear = [part.spans for part in parts if self._names_action(said, part.spans[-1])]
        return unclear[-1] if unclear else (), []

    def read(
        self, text: str, span: Span, problems: list[Problem], before: int = 0
    ) -> tuple[Action, ...]:
        """The actions of an answer, after `before` others; adds to the problems."""
        start, end = span
        actions, refused = self._read_pieces(text, span)
        if refused is not None:
            meant = self._read_table(text, span)
            if meant:
                example = self._tagged(self.separator.join([action.text for action in meant[:2]]))
                message = f"an answer is only actions, such as {example}"
                problems.append(Problem("markdown_answer", message, meant[0].start, end))
                return self._limited(meant, end, problems, before)
            if meant is None and self._argues(text, span):
                problems.append(self._unclear(start, end))
                return ()
            if meant is not None:
                actions = []
            is_beyond = before + len(actions) >= self.max_actions
            problems.append(self._too_many(refused.start, end) if is_beyond else refused)
        elif not actions and not before:
            problems.append(Problem("no_action", "the answer has no action", start, end))
        if self.parsing != "released" and self._is_echo(actions):
            message = "the answer repeats the list of all actions"
            problems.append(Problem("no_action", message, start, end))
            return ()
        return self._limited(actions, end, problems, before)

    def _read_pieces(self, text: str, span: Span) -> tuple[list[Action], Problem | None]:
        """The actions between separators up to the first piece that is none, and why it isn't."""
        actions: list[Action] = []
        for piece, start, end in self._pieces(text, *span):
            read = self.grammar.read(piece, start, end)
            if isinstance(read, Refused):
                return actions, Problem(read.code, read.message, start, end)
            actions.append(read)
        return actions, None

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

    @property
    def _lenient(self) -> Dressed | None:
        """The grammar of answers that are read in other forms too; texts have no others."""
        if self.parsing == "lenient" and isinstance(self.grammar, Dressed):
            return self.grammar
        return None

    def _read_table(self, text: str, span: Span) -> list[Action] | None:
        grammar = self._lenient
        return read_table(text, *span, self.separator, grammar) if grammar else None

    def _names_action(self, text: str, span: Span) -> bool:
        grammar = self._lenient
        return grammar is not None and names_action(text[slice(*span)], grammar)

    def _argues(self, text: str, span: Span) -> bool:
        """Whether an answer names actions among other words, and isn't a list in which one is
        unknown.
        """
        pieces = [piece for piece, *_ in self._pieces(text, *span)]
        item = _CALL if isinstance(self.grammar, Calls) else _WORD
        listed = all(map(item.fullmatch, pieces))
        if listed and JUDGED.isdisjoint(piece.casefold().strip(".!") for piece in pieces):
            return False
        return self._names_action(text, span)

    def _read_loosely(self, text: str, spans: Spans) -> list[Action]:
        """The actions of an answer that isn't between the format's tags; none if it isn't clear."""
        actions: list[Action] = []
        for start, end in spans:
            if isinstance(self.grammar, Dressed):
                actions += self._read_table(text, (start, end)) or ()
            elif isinstance(self.grammar.read("-", 0, 1), Refused):  # it knows its own in a text
                actions += self._read_pieces(text, (start, end))[0]
        return actions

    def _is_echo(self, actions: Sequence[Action]) -> bool:
        return isinstance(self.grammar, Names) and self.grammar.echoed(
            [action.name for action in actions]
        )

    def _limited(
        self, actions: list[Action], end: int, problems: list[Problem], before: int = 0
    ) -> tuple[Action, ...]:
        """At most as many actions as count, after `before` others."""
        most = self.max_actions - before
        if len(actions) > most:
            problems.append(self._too_many(min(actions[most].start, end), end))
        return tuple(actions[:most])

    def _too_many(self, start: int, end: int) -> Problem:
        return Problem(
            "too_many_actions", f"only the first {self.max_actions} action(s) count", start, end
        )

    def _unclear(self, start: int, end: int) -> Problem:
        message = (
            "the answer says more than which actions to execute; write only "
            f"{self._tagged(self.grammar.summary())}"
        )
        return Problem("unclear_answer", message, start, end)

    def _tagged(self, text: str) -> str:
        return f"<{self.tag}>{text}</{self.tag}>"
