"""Arrows, table rows and brackets of sentences about boards, in words: "player → goal: up" is "goal: up of player"."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from vagen_rewards.rules.lexicon import language
from vagen_rewards.rules.modality import mentions
from vagen_rewards.rules.patterns import BOARD_NOUNS
from vagen_rewards.scores import Span

_ARROW = r"\s*[*_]*\s*(?:→|⟶|⇒|➔|➡|-+>|=>)\s*[*_]*\s*"
_WAYS = "|".join(sorted({word for words in language("en")["directions"].values() for word in words}, key=len)[::-1])
_PLACE = (
    rf"(?:(?:{_WAYS})(?:ern)?(?:[- ]?(?:{_WAYS})(?:ern)?)?|[ns][ew]?|[ew]|directly|straight|one|two|three|four|\d"
    r"|to the|on the|at the|in the|same|just|immediately)\b"
)
_BRACKETS = re.compile(rf"\(((?:(?:{_WAYS}|north|south|east|west)(?:east|west)?(?:ern)?(?:[-, ]+|\b)|and |to the )+)\)")
_ARROWS = ("→", "⟶", "⇒", "➔", "➡", "->", "=>")


@functools.cache
def _patterns(board: str) -> tuple[re.Pattern[str], ...]:
    """Of "player → goal: up", of an arrow before a place, and of one between two things."""
    noun = "|".join(f"(?:{names})" for names in BOARD_NOUNS[board].values())
    pair = (
        rf"\b(?P<a>{noun}|me)\b{_ARROW}(?:the )?(?P<b>(?:{noun})\d*)\b"
        r"[*_]*(?: (?:is|direction))?\s*[:=,]\s*[*_]*(?P<where>[^,;|]+)"
    )
    points = rf"(?<=[a-z0-9*_]){_ARROW}(?=(?:the )?{_PLACE})"
    return re.compile(pair), re.compile(points), re.compile(rf"{_ARROW}(?=(?:the )?(?:{noun})\b)")


def without_arrows(board: str, said: str) -> str:
    """A lower-case sentence without arrows that only point on; `→` for "right of" stays where no noun follows it."""
    if not mentions(said, _ARROWS):
        return said
    pair, points, between = _patterns(board)
    said = pair.sub(lambda match: f"{match['b']} is {match['where'].strip()} of {match['a']}", said)
    return between.sub(" ", points.sub(": ", said))


_KEY = re.compile(
    r"[\"']?\b([a-z]+?)(?:_(?:direction|position|location|is))?_(?:relative|compared|with_respect)_to_(?:the_)?([a-z]+)[\"']?"
    r"\s*[:=]\s*[\"']?([a-z][a-z -]*?)(?: of)?[\"']?\s*(?=[,}\n]|$)"
)


def without_keys(said: str) -> str:
    """A lower-case sentence with "relative to the player, the box is above" for `"box_relative_to_player": "above"`."""
    if "_to_" not in said:
        return said
    return _KEY.sub(r"|relative to the \2, the \1 is \3|", said)


def with_headings(pieces: Iterable[tuple[str, Span]]) -> list[tuple[str, Span]]:
    """Pieces of a text with rows and columns said in each row of a table that has them in its head."""
    found: list[tuple[str, Span]] = []
    head: tuple[int, int] | None = None
    for piece, span in pieces:
        name, _, others = piece.partition(":")
        cells = [cell.strip(" *_") for cell in others.split(",")]
        at = [cells.index(word) for ways in _HEADS for word in ways if word in cells]
        if len(at) == 2:
            head = (at[0], at[1])
        elif head is not None and len(cells) > max(head) and all(cells[i].isdecimal() for i in head):
            found.append((f"{name}: row {cells[head[0]]}, column {cells[head[1]]}", span))
        else:
            found.append((piece, span))
    return found


_HEADS = (("row", "r"), ("column", "col", "c"))


_NAME = re.compile(
    rf"\s*[*_]*(?:the )?(?:{'|'.join({names for each in BOARD_NOUNS.values() for names in each.values()})})[*_]*\s*\|"
)
"""A thing alone in the first cell of a row without a bar before it."""


def rows(said: str) -> list[str]:
    """A sentence as its pieces: a row of a table as "first: others", what else bars part as pieces of their own."""
    if "(" in said:
        said = _BRACKETS.sub(lambda match: f": {match[1]}", said)
    if "|" not in said:
        return [said]
    if said.lstrip().startswith("|") or _NAME.match(said) or ("row" in said and "col" in said and ":" not in said):
        cells = [cell.strip() for cell in said.strip().strip("|").split("|")]
        return [f"{cells[0]}: {', '.join(cells[1:])}"]
    return said.split("|")
