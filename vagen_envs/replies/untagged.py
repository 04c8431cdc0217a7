"""Answers in other forms than between the format's tags: other tags, tool calls, JSON, a label, the bare actions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vagen_envs.replies.rejection import is_taken_back, leads_to_rejection
from vagen_envs.replies.thinking import Span, within
from vagen_envs.replies.tool_calls import json_spans, tool_call_spans
from vagen_envs.replies.vocabulary import TEMPLATES, WORDS

_OTHER_PAIRS = re.compile("|".join(TEMPLATES["answers"]), re.IGNORECASE | re.DOTALL)
_LABEL = re.compile("|".join(TEMPLATES["labels"]), re.IGNORECASE | re.MULTILINE)
_OTHER_LABEL = re.compile(
    rf"\b(?:last|previous|legal|illegal|{'|'.join(WORDS.verdict | WORDS.doubt)}) (?:answer|action|move|choice)s?\b",
    re.IGNORECASE,
)
_LONGEST_WORD = 12  # and a space: of a label's adjective, which may stand before the match
_OBSERVATION = re.compile(r"\n[ \t]*observation[ \t]*:", re.IGNORECASE)


def untagged_answers(original: str, plain: str, code: Sequence[Span]) -> list[list[Span]]:
    """Groups of spans as in `Found.choices`.

    Args:
        original: the reply with blanks for its thoughts.
        plain: the same without a template's tokens.
        code: its code.
    """
    groups: list[list[Span]] = []
    pairs = [match for match in _OTHER_PAIRS.finditer(original) if not within(match.start(), code)]
    for match in reversed(pairs):
        at = next(i for i in (2, 3, 4, 5) if match[i] is not None)
        if not is_taken_back(plain, *match.span()):
            groups.append([match.span(at)])
            break
    if calls := tool_call_spans(original):
        groups.append(calls)
    groups += [[span] for span in json_spans(plain)]
    observed = _OBSERVATION.search(plain)
    labels = [
        match
        for match in _LABEL.finditer(plain, 0, observed.start() if observed else len(plain))
        if not leads_to_rejection(match["lead"] or "")
        and not _OTHER_LABEL.search(plain, max(0, match.start() - _LONGEST_WORD), match.end())
    ]
    if labels:
        groups.append([labels[-1].span(str(labels[-1].lastgroup))])
    else:
        start = len(plain) - len(plain.lstrip())
        groups.append([(start, len(plain))])
        paragraph = plain.rstrip().rfind("\n\n") + 2
        if paragraph > 1 and "\n" not in plain[paragraph:].strip():
            groups.append([(paragraph, len(plain))])
    return groups
