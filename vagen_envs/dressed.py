"""Actions in an answer that has more than actions in it: bold, quotes, bullets, brackets, arrows, other commas."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from vagen_envs.actions import Action, Refused

_PIECE = re.compile(r"[^\W\d]\w*(?:\s*[(\uff08][^()\uff08\uff09]*[)\uff09])?")
"""A name, with its numbers in brackets if any follow."""
_NUMBER = re.compile(r"(?<!\w)(\d{1,2})[.)\uff0e\uff09](?=\s|$)")
"""Before the first action of a numbered list, the second, and so on."""
_CAPTIONS = frozenset({"action", "actions", "answer", "boxed", "json"})
"""Words that only say that actions follow."""
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
"""The full-width forms that Chinese and Japanese keyboards write."""


@functools.cache
def _marks(separator: str) -> re.Pattern[str]:
    """What may stand around actions: nothing that may mean a choice, an order or a denial, as `/`, `|`, `<`, `-Up`."""
    return re.compile(
        r"(?:[\s*_`'\"#$\\\[\](){},;.:\u00ab\u00bb\u00b7\u2018-\u201e\u2022\u2192\u21d2\u279c\u3001\u3002\u300c-\u3011"
        rf"\uff08\uff09\uff0c\uff1a\uff1b]|[-=]>|[-\u2013\u2014](?=\s)|{re.escape(separator)})*"
    )


def undressed(
    text: str, start: int, end: int, separator: str, read: Callable[[str, int, int], Action | Refused]
) -> list[Action]:
    """All actions of the answer `text[start:end]`, in their order; none if anything but marks stands beside them.

    `**Up**, **Down**`, `["Up", "Down"]`, `1. Up⏎2. Down`, `Up → Down` and `Up，Down` are read; "Up or Down", "not Up",
    "Up | Down" (where `|` doesn't part actions) and "Up 2" aren't, since what they mean would have to be guessed.
    """
    actions: list[Action] = []
    numbers: list[int] = []
    marks = _marks(separator)
    left = start
    for match in _PIECE.finditer(text, start, end):
        gap = text[left : match.start()]
        if number := _NUMBER.search(gap):
            numbers.append(int(number[1]))
            gap = gap[: number.start()] + gap[number.end() :]
        if not marks.fullmatch(gap):
            return []
        left = match.end()
        action = read(match[0].translate(_WIDE), match.start(), match.end())
        if not isinstance(action, Refused):
            actions.append(action)
        elif actions or match[0].casefold() not in _CAPTIONS:
            return []
    numbered = not numbers or numbers == [*range(1, len(actions) + 1)]
    return actions if numbered and marks.fullmatch(text, left, end) else []
