"""Cells of boards in dictionaries, lists and grids (VAGEN, appendix C)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.sokoban.state import SokobanState
from vagen_rewards.reader.claims import Claim, Span
from vagen_rewards.reader.dictionaries import (
    Data,
    Dict,
    Entry,
    data_in,
    grid_of,
    grids_in,
    places_in,
    texts_in,
)
from vagen_rewards.reader.facts import At
from vagen_rewards.reader.words import phrases

_SYMBOLS: dict[str, dict[str, tuple[str, ...]]] = {
    "sokoban": {**SokobanState.symbols, "B": ("box",), "T": ("target",)},
    "frozen_lake": {**FrozenLakeState.symbols, "F": (), "A": ("player",)},
}
"""What a symbol stands for.

The prompts' own, and the usual ones of these games that don't contradict them.
"""

Unread = list[tuple[Span, bool]]


def cells_in(kind: str, text: str) -> tuple[list[Claim], Unread, str]:
    """Claims of grids and dictionaries, what of them can't be read, and the text without them."""
    symbols = _SYMBOLS[kind]
    claims: list[Claim] = []
    unread: Unread = []
    for grid in list(grids_in(text, symbols)):
        claims += _of_grid(grid.rows, grid.span, symbols)
        start, end = grid.span
        text = text[:start] + "\n" * (end - start) + text[end:]
    found, plain = data_in(text)
    for data in found:
        own, left = _of_data(data, kind)
        claims += own
        unread += left
        if not own and not left and isinstance(data.value, list):
            start, end = data.span  # a list of something else, such as a cell in a sentence
            plain = plain[:start] + text[start:end] + plain[end:]
    return claims, unread, plain


def _of_grid(rows: tuple[str, ...], span: Span, symbols: dict[str, tuple[str, ...]]) -> list[Claim]:
    found = []
    for i, row in enumerate(rows):
        for j, symbol in enumerate(row):
            found += [Claim(span, At(name, (i, j))) for name in symbols[symbol]]
    return found


def _of_data(data: Data, kind: str) -> tuple[list[Claim], Unread]:
    claims: list[Claim] = []
    unread: Unread = []
    for rows, span in _grids(data.value, data.span, _SYMBOLS[kind]):
        claims += _of_grid(rows, span, _SYMBOLS[kind])
    name_of = _namer(kind)
    for name, at, span in places_in(data, name_of):
        if at is not None and len(at) == 2:
            claims.append(Claim(span, At(name, (int(at[0]), int(at[1])))))
        elif not any(grid_of(entry.value, _SYMBOLS[kind]) for entry in _entries(data.value)):
            unread.append((span, True))
    if any(_is_said(text) for text in texts_in(data.value)):
        unread.append((data.span, True))
    return claims, unread


def _is_said(text: str) -> bool:
    """Whether a text in a dictionary is a sentence: it may say something false."""
    words = text.split()
    return len(words) > 2 and any(len(word) > 2 and word.isalpha() for word in words)


def _grids(
    value: Any, span: Span, symbols: dict[str, tuple[str, ...]]
) -> list[tuple[tuple[str, ...], Span]]:
    rows = grid_of(value, symbols)
    if rows:
        return [(rows, span)]
    return [grid for entry in _entries(value) for grid in _grids(entry.value, entry.span, symbols)]


def _entries(value: Any) -> list[Entry]:
    return list(value) if isinstance(value, Dict) else []


@functools.cache
def _namer(kind: str) -> Callable[[str], str | None]:
    """Gives the thing of a board that a key names."""
    known = {
        " ".join(phrase): entry[1].kind
        for phrase, entry in phrases(kind).items()
        if entry[0] == "THING" and entry[1].kind != "it"
    }
    return known.get
