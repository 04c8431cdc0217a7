"""Rows and columns of things in sentences: "the box is at (2, 3)", "the goal is in row 1, column 4"."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re

from vagen_envs.grid import Position
from vagen_rewards.rules.modality import mentions
from vagen_rewards.rules.patterns import BOARD_NOUNS
from vagen_rewards.rules.relations import Placed

_NUMBERS = {
    **{word: i for i, word in enumerate(("zero", "one", "two", "three", "four", "five", "six", "seven", "eight"))},
    **{
        word: i
        for i, word in enumerate(("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"), 1)
    },
    **{f"{i}{end}": i for i, end in enumerate(("th", "st", "nd", "rd", *["th"] * 9))},
}
_N = rf"(?:\d{{1,3}}(?:st|nd|rd|th)?|{'|'.join(word for word in _NUMBERS if word.isalpha())})"
_AND = r"\s*(?:[,;/]|and|&)?\s*(?:in |at |of |on )?(?:the )?"
_ROW_COLUMN = (
    rf"(?:(?:row|r) ?[:=]? ?(?P<r1>{_N})|(?P<r2>{_N}) row){_AND}"
    rf"(?:(?:same )?(?:column|col|c) ?[:=]? ?(?P<c1>{_N})|(?P<c2>{_N}) (?:column|col))\b"
)
_COLUMN_ROW = (
    rf"(?:(?:column|col|c) ?[:=]? ?(?P<c3>{_N})|(?P<c4>{_N}) (?:column|col)){_AND}"
    rf"(?:(?:row|r) ?[:=]? ?(?P<r3>{_N})|(?P<r4>{_N}) row)\b"
)
_LETTERS = r"\br(?P<r6>\d{1,2}) ?,? ?c(?P<c6>\d{1,2})\b"
_CHESS = r"\b(?P<c8>[a-h])(?P<r8>[1-9])\b"
_X_Y = r"\bx ?[=:] ?(?P<c7>\d{1,3}) ?,? ?(?:and )?y ?[=:] ?(?P<r7>\d{1,3})\b"
_PAIR = r"[\[(] ?(?:row ?[:=]? ?)?(?P<r5>\d{1,3}) ?, ?(?:col(?:umn)? ?[:=]? ?)?(?P<c5>\d{1,3}) ?[\])]"
_FROM_ZERO = re.compile(
    r"\b(?:0|zero)[- ]?(?:indexed|based)|(?:from|at) (?:0|zero)\b|index(?:ed|ing)? (?:from|at) (?:0|zero)"
)
_FROM_ONE = re.compile(
    r"\b(?:1|one)[- ]?(?:indexed|based)|(?:from|at) one\b|count(?:ing|ed)(?: (?:rows|columns|and|both|them|cells))* from 1\b"
)
_COUNTED = ("index", "based", "from 0", "from 1", "from zero", "from one", "at 0", "at zero", "at one")
"""One of these is in both."""
_X_FIRST = re.compile(
    r"\bx (?:is |goes |runs |grows |increases |increasing |points |pointing |axis )*(?:to the )?(?:right|rightwards?)\b"
    r"|\( ?x ?, ?y ?\)|\( ?col(?:umn)? ?, ?row ?\)|\bx is the column"
)
"""Of a text in whose brackets the column comes first."""

_ASIDE = re.compile(r"\b(?:not|no|never|from|to|towards?|above|below|left|right|between|of)\b")


_NUMBERED = re.compile(rf"\d|\b(?:{'|'.join(word for word in _NUMBERS if word.isalpha())})\b")
_PLACED = re.compile(r"[(\[\d]|row|col")
_SIGNS = ("(", "[", "row", "col", "x=", "x =", "x:")
_LETTERED = re.compile(rf"{_LETTERS}|{_CHESS}")
_HOW_COUNTED = re.compile(
    r"\b(?:using|with|in|as) [^:;.(]{0,30}\(?row,? ?(?:and )?col(?:umn)?s?\)?[^:;.,(]{0,60}[:,]"
    r"|\b(?:using|with) x [^:;.(]{0,40}:"
)


@functools.cache
def _pattern(board: str) -> re.Pattern[str]:
    nouns = "|".join(rf"(?P<{kind}>\b(?:{names})\b)" for kind, names in BOARD_NOUNS[board].items())
    return re.compile(
        rf"\b(?=\w)(?:{_ROW_COLUMN}|{_COLUMN_ROW}|{_LETTERS}|{_CHESS}|{_X_Y}|(?P<me>(?:i am|me|i'm)\b)|{nouns})|{_PAIR}"
    )


def base_of(text: str) -> int | None:
    """From what a lower-case text says that rows and columns are counted; `None` where it doesn't say."""
    if not mentions(text, _COUNTED):
        return None
    return 0 if _FROM_ZERO.search(text) else 1 if _FROM_ONE.search(text) else None


def column_first(text: str) -> bool:
    """Whether a lower-case text says that in its brackets the column comes first."""
    return ("x" in text or "col" in text) and _X_FIRST.search(text) is not None


def places_of(board: str, sentence: str, base: int | None = None, turned: bool = False) -> tuple[list[Placed], str]:
    """What a lower-case sentence says, and the sentence without it.

    Coordinates follow their thing; several may ("holes (1, 2) and (2, 1)"). `base` is what the text counts from, and
    `turned` whether in its brackets the column comes first.
    """
    if not _PLACED.search(sentence) or not (mentions(sentence, _SIGNS) or _LETTERED.search(sentence)):
        return [], sentence
    if ("row" in sentence and "col" in sentence) or " x " in sentence:
        sentence = _HOW_COUNTED.sub("", sentence)
    if not _NUMBERED.search(sentence):
        return [], sentence  # "in the same row"
    kept: list[str] = []
    found: list[Placed] = []
    kind, start, end = "", 0, 0
    for match in _pattern(board).finditer(sentence):
        at = _place(match)
        if at is None:
            kind = "player" if match.lastgroup == "me" else match.lastgroup or ""
        elif kind and not _ASIDE.search(sentence, end, match.start()):
            counted_from_zero = 0 in at or match["r8"] is not None or (match["r5"] is not None and base is None)
            if turned and match["r5"] is not None:
                at = at[::-1]
            found.append(Placed(kind, at, 0 if counted_from_zero else base))
            kept.append(sentence[start : match.start()])
            start = match.end()
        end = match.end()
    return found, " ".join([*kept, sentence[start:]])


def _place(match: re.Match[str]) -> Position | None:
    if match["r8"] is not None:
        return int(match["r8"]) - 1, ord(match["c8"]) - ord("a")
    row = next((match[name] for name in ("r1", "r2", "r3", "r4", "r5", "r6", "r7") if match[name]), None)
    column = next((match[name] for name in ("c1", "c2", "c3", "c4", "c5", "c6", "c7") if match[name]), None)
    if row is None or column is None:
        return None
    return _number(row), _number(column)


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else _NUMBERS.get(word, 99)
