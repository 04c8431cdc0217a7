"""Words of a text by class: the first half of the reader. The classes are in `lexicon.toml`."""

from __future__ import annotations

import functools
import re
import tomllib
from importlib.resources import files
from typing import Any, NamedTuple

from vagen_rewards.spans import Span

_NUMERALS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBERS = {name: number for number, name in enumerate(_NUMERALS)}
_WORD = re.compile(r"n't\b|'(?:s|ll|re|m)\b|[a-z_]+?(?=n't\b)|[a-z_]+[0-9]*|-?\d+(?:\.\d+)?|\n+|[^\s\w]")
_LOOSE = str.maketrans(
    {"’": "'", "*": " ", "`": " ", "#": " ", "$": " ", "“": " ", "”": " ", '"': " ", "–": "-", "—": "-"}
)
_HYPHEN = re.compile(r"(?<=[a-z])-(?=[a-z])")
_LABEL = re.compile(r"([a-z_]+?)_?(\d+)")
_LONGEST = 4
_CLOSE = [(word,) for word in ("above", "below", "beneath", "under", "underneath", "beside", "over", "behind")]
_AFTER = [(word,) for word in ("the", "to", "my", "and", ",")]


class Word(NamedTuple):
    """A word or a phrase.

    Attributes:
        kind: its class in the lexicon; `number`, `unit`, `direction`, `thing`, `end`, `comma` or `unknown`.
        value: the direction, thing, unit or number; else the text.
        span: its characters in the text.
        plural: whether a thing's name is plural.
        label: a number in a thing's name, such as `0` in `box0`.
    """

    kind: str
    value: Any
    span: Span
    plural: bool = False
    label: str = ""


@functools.cache
def lexicon() -> dict[str, Any]:
    """The file's tables."""
    return tomllib.loads(files("vagen_rewards.reader").joinpath("lexicon.toml").read_text(encoding="utf-8"))


@functools.cache
def phrases(kind: str) -> dict[tuple[str, ...], tuple[str, Any, bool]]:
    """Each phrase that is known about states of this kind: its class, its value, and whether it is plural."""
    tables, found = lexicon(), dict[tuple[str, ...], tuple[str, Any, bool]]()

    def add(text: str, name: str, value: Any, plural: bool = False) -> None:
        found[tuple(_WORD.findall(text))] = (name, value, plural)

    for name, words in tables["classes"].items():
        for text in words:
            add(text, name, text)
    for unit, words in tables["units"].items():
        for text in words:
            add(text, "unit", unit)
    boards = kind in ("sokoban", "frozen_lake")
    own = [tables["boards"], tables[kind]] if boards else [tables.get(kind, {})]
    for table in own:
        for value, words in table.get("directions", {}).items():
            for text in words:
                add(text, "direction", value)
        for value, words in table.get("things", {}).items():
            for text in words:
                add(text, "thing", value)
                if boards and text not in ("i", "me", "you", "myself", "hole in the ice", "hole in ice"):
                    add(text + ("es" if text.endswith(("x", "sh")) else "s"), "thing", value, True)
    return found


def words_of(kind: str, text: str) -> list[Word]:
    """The words of a text, longest phrases first; hyphens in words and markdown count as spaces."""
    plain = _HYPHEN.sub(" ", text.lower().translate(_LOOSE)) if len(text.lower()) == len(text) else ""
    raw = [(match[0], match.span()) for match in _WORD.finditer(plain)]
    known, found, i = phrases(kind), list[Word](), 0
    texts = tuple([word for word, _ in raw])
    while i < len(raw):
        if texts[i] == "right" and texts[i + 1 : i + 2] in _CLOSE and texts[i - 1 : i] not in _AFTER:
            found.append(Word("exactly", "right", raw[i][1]))  # "right above"
            i += 1
            continue
        for count in range(min(_LONGEST, len(raw) - i), 0, -1):
            entry = known.get(texts[i : i + count])
            if entry is not None:
                span = (raw[i][1][0], raw[i + count - 1][1][1])
                found.append(Word(entry[0], entry[1], span, entry[2]))
                i += count
                break
        else:
            found.append(_single(known, *raw[i]))
            i += 1
    return found


def _single(known: dict[tuple[str, ...], tuple[str, Any, bool]], word: str, span: Span) -> Word:
    if word in NUMBERS:
        return Word("number", NUMBERS[word], span)
    if word[-1].isdigit():
        named = _LABEL.fullmatch(word)
        entry = known.get((named[1],)) if named else None
        if named and entry and entry[0] == "thing":
            return Word("thing", entry[1], span, False, named[2])
        return Word("unknown" if named else "number", word if named else float(word), span)
    if word[0] == "\n" or word in ".;!":
        return Word("end", word, span)
    return Word("comma" if word in ",:-=|>" else "unknown", word, span)
