"""With which characters what a regular expression matches may begin."""

from __future__ import annotations

import re
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any


def may_begin(pattern: str, first: str) -> bool:
    """Whether a match can begin with this character; `True` also where that isn't plain from the pattern."""
    return _may(_parser.parse(pattern), first)[0]


def _may(parts: Any, first: str) -> tuple[bool, bool]:
    """Whether these parts in a row can begin so, and whether they can match nothing at all."""
    for code, argument in parts:
        begins, empty = _one(code, argument, first)
        if begins or not empty:
            return begins, empty
    return False, True


def _one(code: Any, argument: Any, first: str) -> tuple[bool, bool]:
    if code is op.LITERAL:
        return chr(argument) == first, False
    if code is op.BRANCH:
        ways = [_may(way, first) for way in argument[1]]
        return any(begins for begins, _ in ways), any(empty for _, empty in ways)
    if code is op.SUBPATTERN:
        return _may(argument[3], first)
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        begins, empty = _may(argument[2], first)
        return begins, empty or argument[0] == 0
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):  # they take no character
        return False, True
    if code is op.IN:
        return _among(argument, first), False
    return True, True


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
