"""How far things are said to be: "two rows above", "3 right". The claims are about sides; who counts wrongly isn't accepted."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vagen_envs.grid import Position
from vagen_rewards.rules.patterns import BOARD_NOUNS

_UNIT = (
    r"(?:rows?|columns?|cols?|tiles?|steps?|cells?|squares?|spaces?|blocks?|units?|fields?|moves?|positions?|places?)"
)
_NUMBERS = {word: i for i, word in enumerate(("one", "two", "three", "four", "five", "six", "seven"), 1)}
_N = rf"(?:\d{{1,2}}|{'|'.join(list(_NUMBERS)[1:])})"
_ONE = rf"(?:one|a single)(?= (?:more |full )?{_UNIT}\b)"
_UP = r"up(?:wards?)?|above|north|higher|down(?:wards?)?|below|south|lower|beneath"
_ASIDE = r"left(?:wards?)?|right(?:wards?)?|west|east"
_WAY = rf"(?:(?P<v{{0}}>{_UP})|(?P<h{{0}}>{_ASIDE}))(?![- ]?(?:left|right|west|east)\b)\b"
_PACE = re.compile(
    rf"(?<![\d.])(?<!row )(?<!column )(?<!col )(?<!hole )(?<!box )(?<!target )\b(?P<n1>{_N}|{_ONE})"
    rf" (?:more |full )?(?:{_UNIT} )?(?:(?:directly|straight|further|farther|away|over|to|on|the|my|in|due|towards?) )*"
    rf"{_WAY.format(1)}"
    rf"|\b{_WAY.format(2)}(?: of (?:me|the [a-z]+))?(?:,| by)? ?\(?(?P<n2>{_N}|{_ONE}) {_UNIT}\b"
    r"(?!,? (?:to|on|up|down|above|below|left|right|north|south|east|west|lower|higher|further|over|diagonally)\b)"
    rf"|\b{_WAY.format(3)}(?: by)? (?P<n3>{_N}|one)(?=\s*(?:[,;.)]|and\b|from\b|of (?:me|the)\b|$))"
)
_COUNTED = re.compile(rf"\d|\b(?:{'|'.join(_NUMBERS)}|single)\b")

_NUMBER = re.compile(  # not of a thing, nor of so many things
    r"(?<!hole )(?<!box )(?<!target )(?<!goal )(?<!from )(?<!#)\b(?:\d+|two|three|four|five|six|seven|one(?= (?:row|column|cell|tile|square|step)\b))\b"
    r"(?! (?:[a-z]+ )?(?:holes|boxes|crates|targets|goals)| ?[x×]|-(?:indexed|based|\d)| o'?clock)"
)


class Pace(NamedTuple):
    """Something stands so many cells away.

    Attributes:
        kinds: of things that are named with it; all but the player where none is.
        axis: 0 is up and down, 1 across.
        far: so many cells.
    """

    kinds: frozenset[str]
    axis: int
    far: int


def paces_of(board: str, sentence: str) -> tuple[list[Pace], int]:
    """The distances in a lower-case sentence that have a direction, and how many numbers are something else."""
    if _COUNTED.search(sentence) is None:
        return [], 0
    found = list(_PACE.finditer(sentence))
    others = len(_NUMBER.findall(sentence)) - len(found)
    if not found:
        return [], others
    named = {match.lastgroup or "" for match in _nouns(board).finditer(sentence)} - {"player"}
    kinds = frozenset(named or BOARD_NOUNS[board].keys() - {"player"})
    return [
        Pace(kinds, 0 if each["v1"] or each["v2"] or each["v3"] else 1, _count(each["n1"] or each["n2"] or each["n3"]))
        for each in found
    ], others


def _count(word: str) -> int:
    return int(word) if word.isdecimal() else _NUMBERS.get(word, 1)


@functools.cache
def _nouns(board: str) -> re.Pattern[str]:
    return re.compile("|".join(rf"(?P<{kind}>\b(?:{names})\b)" for kind, names in BOARD_NOUNS[board].items()))


def is_so_far(pace: Pace, things: Mapping[str, Sequence[Position]]) -> bool:
    """Whether one of the things stands so far from the player, or from one of another kind that is named."""
    every: list[tuple[str, Position]] = [(kind, at) for kind in (*pace.kinds, "player") for at in things.get(kind, ())]
    return any(
        abs(at[pace.axis] - other[pace.axis]) == pace.far
        for kind, at in every
        for other_kind, other in every
        if kind != other_kind
    )
