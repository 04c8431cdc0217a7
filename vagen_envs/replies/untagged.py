"""Answers in other forms than between the format's tags: other tags, tool calls, JSON, a label, the
bare actions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from vagen_envs.replies.tags import Span, within, without_tokens
from vagen_envs.replies.tool_calls import json_spans, tool_call_spans
from vagen_envs.replies.turns import end_of_reply, is_taken_back
from vagen_envs.replies.vocabulary import ANSWER_TAGS, PARTS, words_of

_OTHER_PAIRS = re.compile(
    r"<\s?(final_answer|final|answers|actions?|moves?|response|output|result|command|decision|conclusion)"
    r"(?:\s[^<>]{0,200})?>(?P<tag>.*?)(?:<\s?[/\\]\s?\1\s?>|\Z)"
    r"|<\|begin_of_(?:box|solution)\|>(?P<box>.*?)(?:<\|end_of_(?:box|solution)\|>|\Z)"
    r"|\[answer\](?P<bracket>.*?)(?:\[/answer\]|\Z)"
    r"|\\boxed\s*\{(?P<boxed>(?:[^{}]|\{[^{}]*\})*)\}",
    re.IGNORECASE | re.DOTALL,
)
_LABEL = re.compile(
    r"(?:^|(?<=[.!?;])[ ])[ \t>#*_-]*(?P<lead>(?:[\w'’]+[ ]){0,5}?)"
    rf"(?:(?:answer|action|move|decision|output|choice|final|{'|'.join(ANSWER_TAGS)})(?:s|\(s\))?)"
    r"(?:[ ](?P<number>\d{1,2}))?[\s*_`\"]*(?:[:=]|\b(?:is|are)\b:?|\n)[\s*_`]*(?P<text>[^\n]+)",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE_END = re.compile(r"[.!。][^\w\[\]?:,;]*\Z")  # markup and emoji may follow
_LONGEST_END = 20  # characters
_EMPTY_LINES = re.compile(r"\n\s*\n")
_LEADS = frozenset("LQXB")
"""Parts of words that may stand before a label."""


class Candidate(NamedTuple):
    """What may be an answer: its text, to be read one span after the other, and where it begins
    with its label or tag.
    """

    begin: int
    spans: Sequence[Span]

    @property
    def end(self) -> int:
        """Where its text ends."""
        return self.spans[-1][1]


class Candidates(NamedTuple):
    """The answers that a reply may have without the format's tags.

    Attributes:
        whole: the whole reply, unless it has several calls with other words between them.
        parts: answers in a form of their own: all that can be read have to agree.
        lines: lines of bare actions, which don't execute, but may differ from the parts.
    """

    whole: Candidate | None
    parts: Sequence[Candidate]
    lines: Sequence[Candidate]


def untagged_answers(said: str, code: Sequence[Span]) -> Candidates:
    """Other tags, calls, JSON, labels and the last line of a reply with blanks for its thoughts."""
    plain = without_tokens(said)
    calls = _calls(said)
    labels = list(_labels(plain))
    objects = [Candidate(start, [(start, end)]) for start, end in json_spans(plain)]
    forms = (list(_other_pairs(said, code)), calls, objects, labels)
    answered = min((each.end for each in itertools.chain(*forms)), default=len(said))
    end = end_of_reply(said, answered, ())
    lines = [line for line in _lines(plain) if line.end <= end]
    parts = [part for part in _apart(forms) if part.end <= end]
    if not labels and end == len(plain) and _ends_a_text(plain, lines[-1:]):
        parts.append(lines[-1])
    whole = Candidate(0, [(len(plain) - len(plain.lstrip()), end)])
    bare = [line for line in lines if _is_bare(plain[slice(*line.spans[0])])]
    return Candidates(whole if len(calls) < 2 else None, parts, bare)


def _apart(forms: Iterable[Sequence[Candidate]]) -> list[Candidate]:
    """Those that don't begin within one of a surer form, the surest form first."""
    found: list[Candidate] = []
    for form in forms:
        surer = sorted((each.begin, each.end) for each in found)
        found += [each for each in form if not within(each.begin, surer)]
    return found


def _other_pairs(text: str, code: Sequence[Span]) -> Iterator[Candidate]:
    for match in _OTHER_PAIRS.finditer(text):
        if not within(match.start(), code):
            yield Candidate(match.start(), [match.span(str(match.lastgroup))])


def _calls(text: str) -> list[Candidate]:
    """Calls; those with nothing between them are parts of one answer."""
    found: list[Candidate] = []
    for start, end in tool_call_spans(text):
        gap = text[found[-1].end : start] if found else "?"
        if re.sub(r"<[^<>]*>", "", gap).strip():
            found.append(Candidate(start, [(start, end)]))
        else:
            found[-1] = Candidate(found[-1].begin, [*found[-1].spans, (start, end)])
    return found


def _labels(text: str) -> Iterator[Candidate]:
    """What stands after a label such as "Answer:", with nothing but words that lead to it before
    the label.
    """
    for match in _LABEL.finditer(text):
        leads = all(PARTS.get(word) in _LEADS for word in words_of(match["lead"]))
        if leads and not is_taken_back(text, *match.span("text")):
            yield Candidate(match.start(), [match.span("text")])


def _lines(text: str) -> Iterator[Candidate]:
    """Lines that are paragraphs."""
    begin = 0
    for gap in _EMPTY_LINES.finditer(f"{text.rstrip()}\n\n"):
        if "\n" not in text[begin : gap.start()].strip():
            yield Candidate(begin, [(begin, gap.start())])
        begin = gap.end()


def _ends_a_text(text: str, last: Sequence[Candidate]) -> bool:
    """Whether a line, if there is one, is the last one, after a paragraph that ends with a
    sentence.
    """
    before = text[: last[0].begin].rstrip() if last else ""
    is_last = bool(last) and not text[last[0].end :].strip()
    return is_last and _SENTENCE_END.search(before[-_LONGEST_END:]) is not None


def _is_bare(line: str) -> bool:
    """Whether a line has no word that leads to an action or gives a reason for one."""
    return all(PARTS.get(word, "M") in "MXN" for word in words_of(line))
