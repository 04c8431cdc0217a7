"""Words of answers by the part they have in one, from `vocabulary.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

_FILE: dict[str, Any] = tomllib.loads(
    files("vagen_envs.replies").joinpath("vocabulary.toml").read_text(encoding="utf-8")
)


def _by_word(lists: Mapping[str, str]) -> dict[str, str]:
    """The name of the list that has a word; of the first where several do."""
    found: dict[str, str] = {}
    for name, words in lists.items():
        for word in words.split():
            found.setdefault(word, name)
    return found


def _words(section: str, *names: str) -> tuple[str, ...]:
    """The words of lists of the file, in their order."""
    lists = _FILE[section]
    return tuple(" ".join([lists[name] for name in names]).split())


PARTS = _by_word(_FILE["parts"])
"""The letter of a word's part in an answer."""
NUMBERS = {word: number for number, word in enumerate(_words("parts", "N"), 1)}
NUMBERS |= {word: number for number, word in enumerate(_words("parts", "O"), 1)}
"""The numbers that words stand for: "two" and "twice" for 2."""
DENIALS = frozenset(_words("answers", "denial"))
JUDGED = frozenset(_words("answers", "denial", "verdict"))
SECOND_THOUGHTS = frozenset(_words("answers", "own"))
MAY_LEAD = (PARTS.keys() | SECOND_THOUGHTS) - DENIALS
"""Words of which none can reject the action that follows them."""
OTHERS = frozenset(_words("answers", "others"))
SPEAKERS = frozenset(_words("answers", "others", "speakers"))
BESIDE_SPEAKERS = frozenset(_words("answers", "beside"))
KEYS = _words("keys", "surest", "one", "several")
"""Keys of JSON whose values are actions, the surest first."""
SUREST = frozenset(_words("keys", "surest"))
CALLED = _words("keys", "called")
ARGUMENTS = _words("keys", "arguments")
TIMES = _words("keys", "times")
BESIDE = _words("keys", "beside")
RATINGS = frozenset(_words("keys", "ratings"))
ANSWER_TAGS = _words("tags", "answer")
THINKING_TAGS = _words("tags", "thinking")
SYNONYMS = _by_word(_FILE["synonyms"])
ARROWS = _by_word(_FILE["arrows"])

_WORD = re.compile(r"[\w']+")


def words_of(piece: str) -> list[str]:
    """The words of a text in lower case."""
    return _WORD.findall(piece.casefold().replace("’", "'"))
