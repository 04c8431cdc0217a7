"""With which words a match of a regular expression may begin, so that a word is only held against what fits it."""

from __future__ import annotations

import functools
import re
from collections.abc import Set as AbstractSet
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_MOST_REPEATED = 4


class Heads(NamedTuple):
    """How matches of a pattern begin.

    Attributes:
        words: the first words, up to a digit or what is neither; no letters where a match begins with a digit.
        single: whether every match is one of these words and nothing is asked of what stands around it.
    """

    words: frozenset[str]
    single: bool


@functools.cache
def heads_of(pattern: str) -> Heads:
    """The heads of a pattern in lower case. Raises ValueError where it may begin with any word."""
    parsed = _parser.parse(pattern)
    going, ended = _after(parsed, {""})
    return Heads(frozenset(going | ended), not ended and not _looks_around(parsed))


class Phrases:
    """Finds phrases in sentences, and looks for them only where a word stands with which one can begin.

    To look for words in a set takes a tenth of the time of a search for a pattern that isn't there.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(rf"\b(?:{pattern})\b")
        self.heads = heads_of(pattern).words

    def are_in(self, said: str, words: AbstractSet[str]) -> bool:
        """Whether one is in a lower-case sentence of these words."""
        return not self.heads.isdisjoint(words) and self._pattern.search(said) is not None


def branches_of(pattern: str) -> list[str]:
    """The alternatives of a pattern, outermost only."""
    found, depth, start, i = [], 0, 0, 0
    while i < len(pattern):
        if pattern[i] == "\\":
            i += 1
        elif pattern[i] == "[":
            i = pattern.index("]", i + 2)
        elif pattern[i] in "()":
            depth += 1 if pattern[i] == "(" else -1
        elif pattern[i] == "|" and depth == 0:
            found.append(pattern[start:i])
            start = i + 1
        i += 1
    return [*found, pattern[start:]]


def _after(parts: Any, begun: set[str]) -> tuple[set[str], set[str]]:
    """How words that have begun go on over parts in a row: those that still go on, and those that have ended."""
    ended: set[str] = set()
    for code, argument in parts:
        if not begun:
            break
        begun, more = _over(code, argument, begun)
        ended |= more
    return begun, ended


def _over(code: Any, argument: Any, begun: set[str]) -> tuple[set[str], set[str]]:
    if code is op.AT and argument is op.AT_BOUNDARY:
        return begun & {""}, begun - {""}
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return begun, set()
    if code is op.LITERAL:
        return ({word + chr(argument) for word in begun}, set()) if chr(argument).isalpha() else (set(), begun)
    if code is op.IN:
        letters = _letters(argument)
        ended = begun if len(letters) < len(argument) else set()
        return {word + letter for word in begun for letter in letters}, ended
    if code is op.BRANCH:
        ways = [_after(way, begun) for way in argument[1]]
        return set().union(*(going for going, _ in ways)), set().union(*(ended for _, ended in ways))
    if code is op.SUBPATTERN:
        return _after(argument[3], begun)
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        least, most, inner = argument
        return _repeated(least, most, inner, begun)
    raise ValueError(f"a match may begin with any word: {code} isn't a matter of single letters")


def _repeated(least: int, most: int, parts: Any, begun: set[str]) -> tuple[set[str], set[str]]:
    kept = set(begun) if least == 0 else set()
    every: set[str] = set()
    for count in range(1, most + 1):
        begun, ended = _after(parts, begun)
        every |= ended
        if count >= least:
            kept |= begun
        if not begun:
            break
        if count == _MOST_REPEATED < most:
            raise ValueError("a match may begin with a word of any length")
    return kept, every


def _letters(argument: Any) -> set[str]:
    """Of a set of characters the letters, one by one; digits and signs end a word."""
    letters: set[str] = set()
    for code, value in argument:
        if code is op.LITERAL:
            letters |= {chr(value)} if chr(value).isalpha() else set()
        elif (code, value) not in ((op.CATEGORY, op.CATEGORY_DIGIT), (op.CATEGORY, op.CATEGORY_SPACE)):
            raise ValueError(f"a match may begin with any word: {code} {value} is no single letter")
    return letters


def _looks_around(parts: Any) -> bool:
    for code, argument in parts:
        if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
            return True
        inner = argument[1] if code is op.BRANCH else [argument[-1]] if code in _NESTED else []
        if any(_looks_around(each) for each in inner):
            return True
    return False


_NESTED = (op.SUBPATTERN, op.MAX_REPEAT, op.MIN_REPEAT)
