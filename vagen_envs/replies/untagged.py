"""Answers in other forms than between the format's tags: other tags, tool calls, JSON, a label, the
bare actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

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
_LEADS = frozenset(
    ("lead", "claim", "order", "filler")
)  # parts of words that may stand before a label


def untagged_answers(original: str, plain: str, code: Sequence[Span]) -> list[list[Span]]:
    """Groups of spans as in `Found.choices`.

    Args:
        original: the reply with blanks for its thoughts.
        plain: the same without a template's tokens.
        code: its code.
    """
    pairs = list(_other_pairs(original, code))
    calls = tool_call_spans(original)
    objects = json_spans(plain)
    labels = list(_labels(plain))
    answered = [span[1] for span in (*pairs, *calls, *objects, *labels)]
    end = end_of_reply(original, min(answered), ()).end if answered else len(plain)

    def given(spans: Sequence[Span]) -> list[Span]:
        return [span for span in spans if span[1] <= end]

    groups = [[(len(plain) - len(plain.lstrip()), end)]]
    groups += [[span] for span in given(pairs)[-1:] if not is_taken_back(plain, *span)]
    groups += [calls] if (calls := given(calls)) else []
    groups += [[span] for span in reversed(given(objects))]
    if labels := given(labels):
        return [*groups, labels[-1:]]
    paragraph = _last_paragraph(plain, end)
    return [*groups, [paragraph]] if paragraph else groups


def _other_pairs(text: str, code: Sequence[Span]) -> Iterator[Span]:
    for match in _OTHER_PAIRS.finditer(text):
        if not within(match.start(), code):
            yield match.span(str(match.lastgroup))


def _labels(text: str) -> Iterator[Span]:
    """What stands after a label such as "Answer:", with nothing but words that lead to it before
    the label.
    """
    for match in _LABEL.finditer(text):
        leads = all(PARTS.get(word) in _LEADS for word in words_of(match["lead"]))
        if leads and not is_taken_back(text, *match.span("text")):
            yield match.span("text")


def _last_paragraph(text: str, end: int) -> Span | None:
    """The last line, if it stands alone after a paragraph that ends with a sentence."""
    start = text.rstrip().rfind("\n\n") + 2
    before = text[: max(0, start - 2)].rstrip()
    alone = start > 1 and "\n" not in text[start:].strip() and end == len(text)
    return (start, len(text)) if alone and _SENTENCE_END.search(before[-_LONGEST_END:]) else None
