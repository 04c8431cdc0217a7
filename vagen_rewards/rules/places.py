"""Exact places: grids of symbols and dictionaries of coordinates, read and compared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vagen_envs.grid import Position
from vagen_rewards.rules.marks import Marks

Things = Mapping[str, Sequence[Position]]
"""Positions by kind; the player is the one of its kind."""


def grid_of(text: str, symbols: str) -> list[str] | None:
    """The rows of a grid of symbols, or `None` if the text isn't one. Blank lines and fences are ignored."""
    if "\n" not in text:
        return None
    rows = [line.strip().replace(" ", "") for line in text.splitlines()]
    rows = [row for row in rows if row and not row.startswith("```")]
    allowed = set(symbols)
    if len(rows) < 2 or any(not set(row) <= allowed for row in rows):
        return None
    return rows


def read_grid(rows: Sequence[str], meaning: Mapping[str, tuple[str, ...]]) -> dict[str, list[Position]]:
    """Where the symbols stand, by kind."""
    found: dict[str, list[Position]] = {}
    for i, row in enumerate(rows):
        for j, symbol in enumerate(row):
            for kind in meaning.get(symbol, ()):
                found.setdefault(kind, []).append((i, j))
    return found


_ENTRY = re.compile(
    r"[\"']?(player|box|boxes|target|targets|goal|hole|holes)_?positions?[\"']?\s*[:=]\s*"
    r"((?:[\[\](),\s]|-?\d{1,6})*)",
    re.IGNORECASE,
)
_PAIR = re.compile(r"[\[(]\s*(-?\d{1,6})\s*,\s*(-?\d{1,6})\s*[\])]")
_SIZE = re.compile(r"[\"']?grid_size[\"']?\s*[:=]\s*[\[(]\s*(\d{1,4})\s*,\s*(\d{1,4})\s*[\])]", re.IGNORECASE)
_NAMES = {"boxes": "box", "targets": "target", "goal": "target", "holes": "hole"}


def read_dictionary(text: str) -> tuple[dict[str, list[Position]], Position | None] | None:
    """Positions by kind, and the grid's size, of a structured text; `None` if it isn't one."""
    if "{" not in text:
        return None
    found: dict[str, list[Position]] = {}
    for match in _ENTRY.finditer(text):
        kind = match[1].lower()
        pairs = [(int(row), int(column)) for row, column in _PAIR.findall(match[2])]
        found.setdefault(_NAMES.get(kind, kind), []).extend(pairs)
    if not found:
        return None
    size = _SIZE.search(text)
    return found, (int(size[1]), int(size[2])) if size else None


def compare_places(things: Things, said: Mapping[str, Sequence[Position]]) -> Marks:
    """Exact places against exact places; several answers for one thing are as many claims."""
    marks = Marks()
    for kind, places in things.items():
        marks.wanted += len(places)
        left = list(places)
        for place in said.get(kind, ()):
            if place in left:
                left.remove(place)
                marks.right += 1
                marks.found += 1
            else:
                marks.fault(f"{kind} at {place}")
    for kind in said.keys() - things.keys():
        marks.fault(f"there is no {kind}", len(said[kind]))
    return marks
