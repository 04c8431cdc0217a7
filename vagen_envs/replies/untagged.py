"""Answers in other forms than between the format's tags: other tags, tool calls, JSON, a label, the
bare actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from vagen_envs.replies.thinking import Span, within
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
_LEADS = frozenset(
    ("lead", "claim", "order", "filler")
)  # parts of words that may stand before a label


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
        whole: the whole reply, but where it has calls with other words between them.
        ranked: the surest form first; the first one that holds an action executes.
        rivals: others, which don't execute, but may differ from the one that does.
    """

    whole: Sequence[Candidate] = ()
    ranked: Sequence[Candidate] = ()
    rivals: Sequence[Candidate] = ()


def untagged_answers(original: str, plain: str, code: Sequence[Span]) -> Candidates:
    """The whole reply, the last of other tags, calls, JSON, the last label, the last line.

    Args:
        original: the reply with blanks for its thoughts.
        plain: the same without a template's tokens.
        code: its code.
    """
    pairs = list(_other_pairs(original, code))
    calls = list(_calls(original))
    objects = [Candidate(start, [(start, end)]) for start, end in json_spans(plain)]
    labels = list(_labels(plain))
    answered = min((each.end for each in (*pairs, *calls, *objects, *labels)), default=None)
    end = len(plain) if answered is None else end_of_reply(original, answered, ()).end

    def given(found: Iterable[Candidate]) -> list[Candidate]:
        """Those before the end, the last first."""
        return [each for each in reversed(list(found)) if each.end <= end]

    pairs = given(pairs)
    calls = _joined(reversed(given(calls)), original)[::-1]
    labels = given(labels)
    lines = given(_lines(plain))
    whole = Candidate(0, [(len(plain) - len(plain.lstrip()), end)])
    ranked = [each for each in pairs[:1] if not is_taken_back(plain, *each.spans[0])]
    ranked += [*calls[:1], *given(objects), *labels[:1]]
    if not labels and end == len(plain):
        ranked += [line for line in lines[:1] if _ends_a_text(plain, line)]
    bare = [line for line in lines if _is_bare(plain[slice(*line.spans[0])])]
    rivals = [*pairs[1:], *calls[1:], *labels[1:], *bare]
    return Candidates([whole] if len(calls) < 2 else [], ranked, rivals)


def _other_pairs(text: str, code: Sequence[Span]) -> Iterator[Candidate]:
    for match in _OTHER_PAIRS.finditer(text):
        if not within(match.start(), code):
            yield Candidate(match.start(), [match.span(str(match.lastgroup))])


def _calls(text: str) -> Iterator[Candidate]:
    for span in tool_call_spans(text):
        yield Candidate(span[0], [span])


def _joined(calls: Iterable[Candidate], text: str) -> list[Candidate]:
    """Calls with no words between them that may be another's are parts of one answer."""
    found: list[Candidate] = []
    for call in calls:
        gap = text[found[-1].end : call.begin] if found else "?"
        if found and all(word in PARTS for word in words_of(re.sub(r"<[^<>]*>", "", gap))):
            found[-1] = Candidate(found[-1].begin, [*found[-1].spans, *call.spans])
        else:
            found.append(call)
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


def _ends_a_text(text: str, line: Candidate) -> bool:
    """Whether a line is the last one, after a paragraph that ends with a sentence."""
    before = text[: line.begin].rstrip()
    return not text[line.end :].strip() and _SENTENCE_END.search(before[-_LONGEST_END:]) is not None


def _is_bare(line: str) -> bool:
    """Whether a line has no word that leads to an action or gives a reason for one."""
    return all(PARTS.get(word, "thing") in ("thing", "order") for word in words_of(line))
