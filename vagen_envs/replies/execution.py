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
from vagen_envs.replies.answers import Reply, end_of_reply, is_taken_back, words_of
from vagen_envs.replies.parsed import FORMAT_CODES, Problem
from vagen_envs.replies.table import names_action, read_table
from vagen_envs.replies.tags import Span, blanked, in_ascii
from vagen_envs.replies.tool_calls import json_spans, tool_call_spans
from vagen_envs.replies.vocabulary import ANSWER_TAGS, JUDGED, PARTS

Parsing = Literal["strict", "lenient", "released"]
Spans = Sequence[Span]
"""An answer, to be read one span after the other."""

_WORD = re.compile(r"[\w-]+[.!]?")
_CALL = re.compile(r"[A-Za-z_]\w*\s*\([^()]*\)\s*\.?")
_OTHER_PAIRS = re.compile(
    r"<\s?(final_answer|final|answers|actions?|moves?|response|output|result|command|decision|conclusion)"
    r"(?:\s[^<>]{0,200})?>(?P<tag>.*?)(?:<\s?[/\\]\s?\1\s?>|\Z)"
    r"|\[answer\](?P<bracket>.*?)(?:\[/answer\]|\Z)"
    r"|\\boxed\s*\{(?P<boxed>(?:[^{}]|\{[^{}]*\})*)\}",
    re.IGNORECASE | re.DOTALL,
)
_LABEL = re.compile(
    r"(?:^|(?<=[.!?;])[ ])[ \t\f>#*_-]*+(?P<lead>(?:[\w'’]+[ ]){0,5}?)"
    rf"(?:(?:answer|action|move|decision|output|choice|final|{'|'.join(ANSWER_TAGS)})(?:s|\(s\))?)"
    r"[ \t\f*_`\"]*+(?:[:=]|\b(?:is|are)\b:?|\n)[\s*_`]*+(?P<text>[^\n]+)",
    re.IGNORECASE | re.MULTILINE,
)
_LONE_LINE = re.compile(r"(?<![^\n]\n)^[^\S\n]*+\S[^\n]*+(?!\n[^\n])", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!。][^\w\[\]?:,;]{0,20}\Z")  # markup and emoji may follow


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
        unclear = any(problem.code == "unclear_answer" for problem in problems)
        return () if unclear else actions, reply.answer

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
        whole, parts, lines = _other_answers(text, reply)
        if actions := self._read_loosely(said, whole):
            return whole, actions
        read = [(spans, self._read_loosely(said, spans)) for spans in parts]
        read = [(spans, actions) for spans, actions in read if actions]
        bare = [self._read_loosely(said, spans) for spans in lines]
        said_by = [*filter(None, bare), *(actions for _, actions in read)]
        texts = {tuple(action.text for action in actions) for actions in said_by}
        if read and len(texts) == 1:
            return read[-1]
        unclear = [spans for spans, _ in read]
        if not unclear:
            unclear = [spans for spans in parts if self._names_action(said, spans[-1])]
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
    def _lenient(self) -> Names | Calls | None:
        """The grammar of answers that are read in other forms too; texts have no others."""
        if self.parsing == "lenient" and isinstance(self.grammar, Names | Calls):
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
            if isinstance(self.grammar, Names | Calls):
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


def _other_answers(text: str, reply: Reply) -> tuple[Spans, list[Spans], list[Spans]]:
    """The whole reply, unless it has several calls; its answers in a form of their own; its lines
    of bare actions, which don't execute, but may differ from the answers.
    """
    said = reply.said
    labels = list(_labels(said))
    calls = _calls(said)
    pairs = (match.span(str(match.lastgroup)) for match in _OTHER_PAIRS.finditer(said))
    alone = itertools.chain(pairs, json_spans(said))
    parts: list[Spans] = [*([span] for span in alone), *calls, *labels]
    answered = min((spans[-1][1] for spans in parts), default=len(said))
    end = end_of_reply(in_ascii(text), answered, reply.hidden)
    parts = [spans for spans in parts if spans[-1][1] <= end]
    lines = [match.span() for match in _LONE_LINE.finditer(said, 0, end)]
    if lines and not labels and end == len(said) and not said[lines[-1][1] :].strip():
        before = said[: lines[-1][0]].rstrip()
        if _SENTENCE_END.search(before, max(0, len(before) - 24)):
            parts.append(lines[-1:])
    whole = [(len(said) - len(said.lstrip()), end)] if len(calls) < 2 else []
    return whole, parts, [[line] for line in lines if _is_bare(said[slice(*line)])]


def _calls(text: str) -> list[list[Span]]:
    """Tool calls; those with nothing between them are parts of one answer."""
    found: list[list[Span]] = []
    for start, end in tool_call_spans(text):
        gap = text[found[-1][-1][1] : start] if found else "?"
        if re.sub(r"<[^<>]*>", "", gap).strip():
            found.append([(start, end)])
        else:
            found[-1].append((start, end))
    return found


def _labels(text: str) -> Iterator[list[Span]]:
    """What stands after a label such as "Answer:", with nothing but words that lead to it before
    the label.
    """
    for match in _LABEL.finditer(text):
        leads = all(PARTS.get(word, "?") in "LQXB" for word in words_of(match["lead"]))
        if leads and not is_taken_back(text, *match.span("text")):
            yield [match.span("text")]


def _is_bare(line: str) -> bool:
    """Whether a line has no word that leads to an action or gives a reason for one."""
    return all(PARTS.get(word, "M") in "MXN" for word in words_of(line))
