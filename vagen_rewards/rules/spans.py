"""Sentences of a text, and where they stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vagen_rewards.scores import Span

_END = re.compile(r"[.;!?\n\r•。；！？](?:(?<=\.)(?!\d)|(?<!\.)[;!?\n\r•。；！？]*)")
"""A point before a digit is no end: 2.5 m. That it begins with one set of characters makes the search quick."""

_SAYS = re.compile(r"[^\W\d_]")


def sentences(text: str) -> Iterator[Span]:
    """Where each sentence begins and ends, with the question mark of a question; none without a letter."""
    start = 0
    for match in _END.finditer(text):
        end = match.end() if match[0][0] in "?？" else match.start()
        if _SAYS.search(text, start, end):
            yield start, end
        start = match.end()
    if _SAYS.search(text, start):
        yield start, len(text)
