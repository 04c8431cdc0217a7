"""Words of answers by the part they have in one, from `vocabulary.toml`."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

_VOCABULARY = tomllib.loads(
    files("vagen_envs.replies").joinpath("vocabulary.toml").read_text(encoding="utf-8")
)
WORDS = SimpleNamespace(
    **{part: frozenset(words.split()) for part, words in _VOCABULARY["words"].items()}
)
"""Sets of words by the name that the file gives them."""
PHRASES = {
    name: re.compile(text, re.IGNORECASE | re.VERBOSE)
    for name, text in _VOCABULARY["phrases"].items()
}
"""Expressions for a text with NUL for the letters of its actions."""
NUMBERS = {word: number for number, word in enumerate(_VOCABULARY["words"]["numbers"].split(), 1)}
SEVERAL = "|".join([*NUMBERS][1:])
"""The words for numbers from two on, as a part of an expression."""
ASIDES: list[str] = _VOCABULARY["asides"]
SWAPS = [
    (re.compile(phrase, re.IGNORECASE), other) for phrase, other in _VOCABULARY["swaps"].items()
]
CROSSES = "❌✗✘✖✕🚫⛔❎☒👎"
TICKS = "✅✔✓☑👍"
ANSWER_TAGS = frozenset(_VOCABULARY["tags"]["answer"])
THINKING_TAGS = tuple(_VOCABULARY["tags"]["thinking"])
AFTER_REJECTED: list[str] = _VOCABULARY["rejection"]["after"]
BEFORE_REJECTED: list[str] = _VOCABULARY["rejection"]["before"]
TEMPLATES: dict[str, Any] = _VOCABULARY["templates"]
SYNONYMS: dict[str, str] = _VOCABULARY["synonyms"]
ARROWS = {arrow: name for name, arrows in _VOCABULARY["arrows"].items() for arrow in arrows}
ONE_ARROW = {name: arrows[0] for name, arrows in _VOCABULARY["arrows"].items()}


def is_doubtful(piece: str) -> bool:
    """Whether a piece of an answer speaks of a choice, a denial or a retraction."""
    return "?" in piece or not (WORDS.doubt | WORDS.denial).isdisjoint(words_of(piece))


def is_rejected(piece: str) -> bool:
    """Whether a piece of an answer is doubtful or gives a verdict on an action, such as "blocked"."""
    return is_doubtful(piece) or not (WORDS.verdict | {"after", "before"}).isdisjoint(
        words_of(piece)
    )


def words_of(piece: str) -> list[str]:
    """The words of a text in lower case."""
    return re.findall(r"[\w']+", piece.casefold().replace("’", "'"))
