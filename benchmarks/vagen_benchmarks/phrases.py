"""Errors in plain words, in which the phrases of a data file are looked up.

A phrase is a piece of the plain words; a list of phrases fits where each of them is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Phrase = str | list[str]

_TOKEN = re.compile(r"(?P<number>\d[\d,.]*)|[^\W\d]+(?:['’][^\W\d]+)*|[<>=+]+")


def plain_words(text: str) -> str:
    """A text in lower case with one blank around each word, and `N` for each number but 0.

    Of signs `<`, `>`, `=` and `+` are left. "image(s)" is "images".
    """
    found = []
    for token in _TOKEN.finditer(text.lower().replace("(s)", "s")):
        number = token["number"]
        if number is None:
            found.append(token[0])
        else:
            found.append("N" if number.strip("0,.") else "0")
    return f" {' '.join(found)} "


def says(words: str, phrases: Iterable[Phrase]) -> bool:
    """Whether plain words have one of some phrases."""
    return any(_has(words, phrase) for phrase in phrases)


def _has(words: str, phrase: Phrase) -> bool:
    parts = [phrase] if isinstance(phrase, str) else phrase
    return all(part in words for part in parts)
