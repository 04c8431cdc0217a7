"""Sentences of a text, and where they stand in it."""

from __future__ import annotations

import re

from vagen_rewards.scores import Span

_END = re.compile(
    r"[.;!?\n\r•。；！？](?:(?<=\.)(?!\d)(?!(?<=\b[iI]\.)e\.)(?!(?<=\be\.)g\.)(?<!\b[iI]\.e\.)(?<!\be\.g\.)"
    r"(?<!\bapprox\.)(?<!\bca\.)|(?<!\.)[;!?\n\r•。；！？]*)"
)
"""A point before a digit is no end: 2.5 m; neither is one of an abbreviation.
That it begins with one set of characters makes the search quick."""

_SAYS = re.compile(r"[^\W\d_]")


def sentences(text: str) -> list[Span]:
    """Where each sentence begins and ends, with the question mark of a question; none without a letter."""
    found, start = [], 0
    for match in _END.finditer(text):
        stop, after = match.span()
        end = after if text[stop] in "?？" else stop
        if (end > start + 1 and text[start : start + 2].lstrip().isalpha()) or _SAYS.search(text, start, end):
            found.append((start, end))
        start = after
    if start < len(text) and _SAYS.search(text, start):
        found.append((start, len(text)))
    return found
