"""Answers in other forms than the format's: tags of other names, JSON, calls, labels, a last line.

Each counts by where it stands, not by what is said about it: after no more than whole sentences and
words that lead to an action on its line, with nothing after it; or after a label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vagen_envs.replies.answers import Reply, is_taken_back
from vagen_envs.replies.tags import Span, within
from vagen_envs.replies.tool_calls import find_calls, json_spans
from vagen_envs.replies.turns import end_of_reply
from vagen_envs.replies.vocabulary import ANSWER_TAGS, PARTS, words_of

Spans = Sequence[Span]
"""An answer, to be read one span after the other."""
_MOST_PARTS = 64  # of a reply that are read, so that time stays linear

_PAIRS = re.compile(
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
_NOTHING = re.compile(r"(?:~~~|[\s*_`$.)\"'])*")
_LONE_LINE = re.compile(r"(?<![^\n]\n)^[^\S\n]*+\S[^\n]*+(?!\n[^\S\n]*\S)", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!。][^\w\[\]?:,;]{0,20}\Z")  # markup and emoji may follow


class Part(NamedTuple):
    """An answer in another form: where it stands, to be read one span after the other, and whether
    it is no mere part of what the reply speaks of.
    """

    spans: Spans
    is_meant: bool = True


def other_answers(reply: Reply) -> tuple[Span, list[Part], list[Span]]:
    """The whole reply; its answers in a form of their own; its lines of bare actions, which don't
    execute, but may differ from the answers.
    """
    said = reply.said
    marked = _marked(said)
    labels = [Part([span]) for span in _labels(said)]
    ends = [end for _, (_, end) in marked] + [part.spans[0][1] for part in labels]
    end = end_of_reply(reply.text, min(ends, default=len(said)), reply.hidden)
    marked = [each for each in marked if each[0][-1][1] <= end][-_MOST_PARTS:]
    parts = [
        Part(spans, reply.is_led_to(start) and _NOTHING.fullmatch(said, stop, end) is not None)
        for spans, (start, stop) in marked
    ]
    parts += [part for part in labels if part.spans[0][1] <= end][-_MOST_PARTS:]
    lines = [match.span() for match in _LONE_LINE.finditer(said, 0, end)]
    if lines and not labels and end == len(said) and not said[lines[-1][1] :].strip():
        before = said[: lines[-1][0]].rstrip()
        if _SENTENCE_END.search(before, max(0, len(before) - 24)):
            parts.append(Part(lines[-1:]))
    whole = (len(said) - len(said.lstrip()), end)
    return whole, parts, [line for line in lines if _is_bare(said[slice(*line)])]


def _marked(text: str) -> list[tuple[Spans, Span]]:
    """Tags, JSON and calls: what is to be read of each, and where it stands. Calls with nothing
    between them are one answer.
    """
    pairs = _PAIRS.finditer(text)
    found = [([match.span(str(match.lastgroup))], match.span()) for match in pairs]
    calls: list[tuple[list[Span], Span]] = []
    for match in find_calls(text):
        start, end = match.span()
        held = [match.span(str(match.lastgroup))]
        if calls and not text[calls[-1][1][1] : start].strip():
            before, (start, _) = calls.pop()
            held = before + held
        calls.append((held, (start, end)))
    places = [place for _, place in calls]
    found += [([span], span) for span in json_spans(text) if not within(span[0], places)]
    return [*found, *calls]


def _labels(text: str) -> Iterator[Span]:
    """What stands after a label such as "Answer:", with nothing but words that lead to it before
    the label.
    """
    for match in _LABEL.finditer(text):
        if _has_only(match["lead"], "LQXB") and not is_taken_back(text, match.end()):
            yield match.span("text")


def _is_bare(line: str) -> bool:
    """Whether a line has no word of a sentence that leads to an action or is a reason for one."""
    return all(PARTS.get(word, "M") in "MQXN" for word in words_of(line))


def _has_only(text: str, letters: str) -> bool:
    """Whether all words of a text have one of these parts in an answer."""
    return all(PARTS.get(word, "?") in letters for word in words_of(text))
