"""Calls in the forms that replies give them: lists, keywords, units, and numbers without
brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CALL = re.compile(
    r"(?<!\w)([A-Za-z]\w*)(?:\s+at\b)?\s*[:=]?\s*(?:([(\[{])|(?=[-+]?\d+(?:\.\d+)?\s*,\s*[-+]?\d))"
)
_BARE_NUMBERS = re.compile(r"[-+]?\d+(?:\.\d+)?(?:\s*,\s*[-+]?\d+(?:\.\d+)?)+")
_POINTS = re.compile(r"(\w+)\s*[=:]\s*(?=[(\[])")
_ENDS = (
    r"(?i)(?:start|from|source|begin|p1|a)\w*",
    r"(?i)(?:end|to|target|goal|destination|p2|b)\w*",
)
_KEYWORD = re.compile(r"\s*[\"']?([A-Za-z_]+?)_?(\d*)[\"']?\s*[=:]\s*(.+?)\s*", re.DOTALL)


def find_calls(text: str) -> Iterator[tuple[int, int, str]]:
    """Calls in an answer.

    Yields:
        start and end of the call, and the call as `name(1, 2, 3)`, or an empty text where its
        arguments aren't numbers in a known order.
    """
    at = 0
    while (match := _CALL.search(text, at)) is not None:
        at = match.end()
        bare = None if match[2] else _BARE_NUMBERS.match(text, at)
        close = bare.end() if bare else _closing(text, at - 1)
        if close < 0:
            continue
        call = _plain_call(match[1], text[match.end() : close])
        yield match.start(), close if bare else close + 1, call


def _closing(text: str, opened: int, most: int = 300) -> int:
    """Where the bracket closes, -1 if it doesn't within some characters."""
    depth = 0
    for at in range(opened, min(len(text), opened + most)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at
    return -1


def _plain_call(name: str, inside: str) -> str:
    """A call with its numbers in order, from lists, keywords and units; empty if they aren't
    numbers in commas.

    Keywords are ordered as coordinates are: x, y, z, or x1, y1, z1, x2, y2, z2.
    """
    points = _POINTS.findall(inside)
    if len(points) > 1:
        ordered = len(points) <= len(_ENDS) and all(map(re.fullmatch, _ENDS, points))
        if not ordered:
            return ""  # or of another meaning
        inside = _POINTS.sub("", inside)
    inside = re.sub(r"\A\s*\w+\s*[=:]\s*([(\[{])(.*)[)\]}]\s*\Z", r"\2", inside, flags=re.DOTALL)
    words = [word.strip().strip("[](){}") for word in inside.split(",") if word.strip()]
    keywords = [_KEYWORD.fullmatch(word) for word in words]
    if words and all(keywords):
        found = [(match[2], match[1], match[3]) for match in keywords if match is not None]
        if len({(number, key) for number, key, _ in found}) < len(found):
            return ""
        if all(len(key) == 1 for _, key, _ in found):
            found.sort()
        words = [value for *_, value in found]
    elif any(keywords):
        return ""
    words = [re.sub(r"\s*mm\Z", "", word.strip("\"'")) for word in words]
    return f"{name}({', '.join(words)})"
