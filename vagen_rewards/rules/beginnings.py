"""With which characters what a regular expression matches may begin."""

from __future__ import annotations

import functools
import re
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any


def may_begin(pattern: str, start: str) -> bool:
    """Whether a match can be at the head of a text that begins with these characters; `True` where it isn't plain."""
    return bool(ends(pattern, start))


def may_be_word(pattern: str, start: str) -> bool:
    """The same of a match after which no letter nor digit may follow."""
    return any(end == len(start) or not start[end].isalnum() for end in ends(pattern, start))


def ends(pattern: str, start: str) -> set[int]:
    """After how many of the characters a match can end; as many as there are is "or later"."""
    return _ends(_parsed(pattern), start, {0})


@functools.cache
def _parsed(pattern: str) -> Any:
    return _parser.parse(pattern)


def _ends(parts: Any, start: str, places: set[int]) -> set[int]:
    """Where in `start` these parts in a row can end that begin at one of these places; its length is "or later"."""
    for code, argument in parts:
        places = {end for place in places for end in _one(code, argument, start, place)}
    return places


def _one(code: Any, argument: Any, start: str, at: int) -> set[int]:
    if at == len(start) or code in (op.AT, op.ASSERT, op.ASSERT_NOT):  # the latter take no character
        return {at}
    if code is op.LITERAL:
        return {at + 1} if chr(argument) == start[at] else set()
    if code is op.IN:
        return {at + 1} if _among(argument, start[at]) else set()
    if code is op.BRANCH:
        return {end for way in argument[1] for end in _ends(way, start, {at})}
    if code is op.SUBPATTERN:
        return _ends(argument[3], start, {at})
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        return _repeated(argument, start, at)
    return set(range(at, len(start) + 1))


def _repeated(argument: Any, start: str, at: int) -> set[int]:
    least, most, parts = argument
    found = {at} if least == 0 else set()
    places = {at}
    for count in range(1, min(most, len(start) + least) + 1):
        places = _ends(parts, start, places)
        if count >= least:
            found |= places
    return found


def _among(argument: Any, first: str) -> bool:
    """Whether a character is in a set; sets with classes are asked of the engine's own words."""
    wanted = True
    for code, value in argument:
        if code is op.NEGATE:
            wanted = False
        elif (
            (code is op.LITERAL and chr(value) == first)
            or (code is op.RANGE and value[0] <= ord(first) <= value[1])
            or (code is op.CATEGORY and _CLASSES[value].match(first))
        ):
            return wanted
    return not wanted


_CLASSES = {
    op.CATEGORY_DIGIT: re.compile(r"\d"),
    op.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    op.CATEGORY_SPACE: re.compile(r"\s"),
    op.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    op.CATEGORY_WORD: re.compile(r"\w"),
    op.CATEGORY_NOT_WORD: re.compile(r"\W"),
}
