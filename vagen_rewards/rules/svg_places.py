"""Places of elements in words that say the same otherwise: corners as a middle and a size, what is about in the middle."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import re

_DIGIT = re.compile(r"\d")
_CORNERS = re.compile(r"(?:from )?\((\d{1,3}), ?(\d{1,3})\) ?(?:-|–|—|to|→|through)+ ?\((\d{1,3}), ?(\d{1,3})\)")
_CORNER_AND_SIZE = re.compile(
    r"\bx ?[=:] ?(\d{1,3})[ ,]+y ?[=:] ?(\d{1,3})[ ,]+(?:w|width) ?[=:] ?(\d{1,3})[ ,]+(?:h|height) ?[=:] ?(\d{1,3})\b"
)
_ON_TOP = re.compile(
    r"(?<=[a-z)]) on top\b(?! (?:left|right|edge|side|half|part|of the (?:image|picture|canvas)))(?: of (?:it|that|this|them))?"
)
_OFF_CENTRE = re.compile(
    r"\b(?:very )?(?:slightly|just|barely|a (?:little|bit|touch)) (?:[a-z]+ ){0,3}?(?:left|right|above|below|up|down)(?:wards?)?"
    r" (?:(?:of|from|the|its) )*(?=(?:cent(?:er|re)|middle)\b)"
)
"""In "slightly right of the centre" it is about in the middle."""


def with_middles(words: str) -> str:
    """A lower-case sentence with the middle and the size of what is told by its corners."""
    if _DIGIT.search(words):
        words = _CORNER_AND_SIZE.sub(_of_corner, _CORNERS.sub(_of_corners, words))
    if " on top" in words:
        words = _ON_TOP.sub(" on it", words)
    if "cent" in words or "middle" in words:
        words = _OFF_CENTRE.sub("in the ", words)
    return words


def _of_corners(said: re.Match[str]) -> str:
    left, top, right, bottom = map(int, said.groups())
    return f"at ({(left + right) // 2}, {(top + bottom) // 2}), {abs(right - left)} by {abs(bottom - top)}"


def _of_corner(said: re.Match[str]) -> str:
    left, top, width, height = map(int, said.groups())
    return f"at ({left + width // 2}, {top + height // 2}), {width} by {height}"
