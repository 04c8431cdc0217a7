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


PARTS: dict[str, str] = _by_word(_FILE["parts"])
"""The letter of a word's part in an answer."""
NUMBERS = {
    word: number
    for name in ("N", "O")
    for number, word in enumerate(_FILE["parts"][name].split(), 1)
}
"""The numbers that words stand for: "two" and "twice" for 2."""
DENIALS = frozenset(_FILE["answers"]["denial"].split())
JUDGED = DENIALS.union(_FILE["answers"]["verdict"].split())
SECOND_THOUGHTS = frozenset(_FILE["answers"]["own"].split())
SPEAKERS = frozenset(_FILE["answers"]["speakers"].split())
BESIDE_SPEAKERS = frozenset(_FILE["answers"]["beside"].split())
_KEYS: dict[str, list[str]] = {name: words.split() for name, words in _FILE["keys"].items()}
SUREST = frozenset(_KEYS["surest"])
KEYS = (*_KEYS["surest"], *_KEYS["one"], *_KEYS["several"])
"""Keys of JSON whose values are actions, the surest first."""
CALLED, ARGUMENTS, TIMES = _KEYS["called"], _KEYS["arguments"], _KEYS["times"]
BESIDE, RATINGS = frozenset(_KEYS["beside"]), frozenset(_KEYS["ratings"])
ANSWER_TAGS = frozenset(_FILE["tags"]["answer"])
THINKING_TAGS: tuple[str, ...] = tuple(_FILE["tags"]["thinking"])
SYNONYMS: dict[str, str] = _by_word(_FILE["synonyms"])
ARROWS: dict[str, str] = {
    arrow: name for name, arrows in _FILE["arrows"].items() for arrow in arrows
}

_WORD = re.compile(r"[\w']+")


def words_of(piece: str) -> list[str]:
    """The words of a text in lower case."""
    return _WORD.findall(piece.casefold().replace("’", "'"))
