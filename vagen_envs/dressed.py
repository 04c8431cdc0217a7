"""Actions in an answer that has more than actions in it: bold, quotes, bullets, brackets, arrows, other commas."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from vagen_envs.actions import Action, Refused

_PIECE = re.compile(r"[^\W\d]\w*(?:\s*[(\uff08][^()\uff08\uff09]*[)\uff09])?")
"""A name, with its numbers in brackets if any follow."""
_MARKS = re.compile(
    r"(?:[\s*_`'\"#$\\\[\](){}<>,;.:|=\-\u00ab\u00bb\u00b7\u2013\u2014\u2018-\u201e\u2022\u2192\u21d2\u279c"
    r"\u3001\u3002\u300c-\u3011\uff08\uff09\uff0c\uff1a\uff1b]|\d{1,2}[.):\uff1a])*"
)
"""What may stand around them: no word, no number but a list's, and no `/`, `?` or `!`, which may mean a choice."""
_CAPTIONS = frozenset({"action", "actions", "answer", "boxed", "json"})
"""Words that only say that actions follow."""


def undressed(text: str, start: int, end: int, read: Callable[[str, int, int], Action | Refused]) -> list[Action]:
    """All actions of the answer `text[start:end]`, in their order; none if anything but marks stands beside them.

    `**Up**, **Down**`, `["Up", "Down"]`, `1. Up⏎2. Down`, `Up → Down` and `Up，Down` are read; "Up or Down", "not Up"
    and "Up x 2" aren't, since what they mean would have to be guessed.
    """
    actions: list[Action] = []
    left = start
    for match in _PIECE.finditer(text, start, end):
        if not _MARKS.fullmatch(text, left, match.start()):
            return []
        left = match.end()
        if match[0].casefold() in _CAPTIONS:
            continue
        action = read(unicodedata.normalize("NFKC", match[0]), match.start(), match.end())
        if isinstance(action, Refused):
            return []
        actions.append(action)
    return actions if _MARKS.fullmatch(text, left, end) else []
