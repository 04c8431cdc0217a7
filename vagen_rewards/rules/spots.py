"""Places on the board: "in the top row", "at the left edge", "in the lower right corner".

They are no relations (VAGEN, appendix D.1) and earn nothing. But who says wrongly where a thing stands isn't accepted,
and who says it rightly is read on without it.
"""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vagen_envs.grid import Position
from vagen_rewards.rules.modality import mentions
from vagen_rewards.rules.patterns import BOARD_NOUNS

_ORDER = {
    word: i for i, word in enumerate(("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"))
}
_ENDS = {"top": 0, "topmost": 0, "upper": 0, "uppermost": 0, "left": 0, "leftmost": 0, "far left": 0, "bottom": -1,
         "bottommost": -1, "lower": -1, "lowermost": -1, "last": -1, "right": -1, "rightmost": -1, "far right": -1}  # fmt: skip
_NTH = rf"(?:{'|'.join(_ORDER)})"
_OF = r"(?: (?:of|in|on) (?:the|this) (?:grid|map|board|lake|image|picture|frame|level|room|puzzle))?"
_NO_RELATION = r"(?! (?:of|from|than|as|with|relative|to|compared)\b)(?! ?\d)"
_SPOT = re.compile(
    r"(?:,? ?\b(?:in|at|on|near|along|by) )?(?:the )?(?:very )?\b(?<!'s )(?<!my )(?:"
    r"(?P<corner_row>top|upper|bottom|lower)[ -](?P<corner_column>left|right)(?:most|[- ]hand)? corner"
    r"|(?P<edge_column>left|right|far left|far right)(?:[- ]hand)? (?:edge|border)"
    r"|(?P<edge_row>top|bottom|upper|lower) (?:edge|border)"
    rf"|(?P<row>{_NTH}|top|topmost|bottom|bottommost|last) row(?: from the (?P<from_row>top|bottom))?"
    rf"|(?P<column>{_NTH}|leftmost|rightmost|last) column(?: from the (?P<from_column>left|right))?"
    rf")\b{_OF}{_NO_RELATION}"
)
_SIGNS = ("corner", "edge", "border", " row", "column")


class Spot(NamedTuple):
    """Something stands in this row or column, counted from 0, or from the end if it is below 0.

    Attributes:
        kind: of the thing.
        axis: 0 of rows, 1 of columns.
        line: of the row or column.
    """

    kind: str
    axis: int
    line: int


def spots_of(board: str, sentence: str) -> tuple[list[Spot], str]:
    """The places in a lower-case sentence, and the sentence without those that have an edge or a corner."""
    if not mentions(sentence, _SIGNS):
        return [], sentence
    found: list[Spot] = []
    kept: list[str] = []
    start = 0
    for match in _SPOT.finditer(sentence):
        kind = _kind_before(board, sentence[: match.start()])
        if kind:
            found += [Spot(kind, axis, index) for axis, index in _lines(match)]
            kept.append(sentence[start : match.start()])
            start = match.end()
    return found, "".join([*kept, sentence[start:]]) if found else sentence


def _lines(match: re.Match[str]) -> list[tuple[int, int]]:
    found = []
    for axis, names in enumerate((("corner_row", "edge_row", "row"), ("corner_column", "edge_column", "column"))):
        word = next((match[name] for name in names if match[name]), None)
        if word is None:
            continue
        index = _ENDS[word] if word in _ENDS else _ORDER[word]
        backwards = (match["from_row"] == "bottom") if axis == 0 else (match["from_column"] == "right")
        found.append((axis, -1 - index if backwards and index >= 0 else index))
    return found


def _kind_before(board: str, words: str) -> str:
    """The last thing that is named before."""
    named = [match.lastgroup or "" for match in _nouns(board).finditer(words)]
    return named[-1] if named else ""


@functools.cache
def _nouns(board: str) -> re.Pattern[str]:
    names = [
        rf"(?P<{kind}>\b(?:{names}{'|i|me|myself' if kind == 'player' else ''})\b)"
        for kind, names in BOARD_NOUNS[board].items()
    ]
    return re.compile("|".join(names))


def is_there(spot: Spot, things: Mapping[str, Sequence[Position]], size: Position) -> bool:
    """Whether one of the things of this kind stands there; where there are walls around, they may be counted or not."""
    at_line, inner = (spot.line, 1) if spot.line >= 0 else (size[spot.axis] + spot.line, -1)
    lines = (at_line, at_line + inner) if "box" in things else (at_line,)
    return any(at[spot.axis] in lines for at in things.get(spot.kind, ()))
