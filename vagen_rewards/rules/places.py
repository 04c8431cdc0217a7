"""Exact places: grids of symbols and dictionaries of coordinates, read and compared."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from vagen_envs.core import State
from vagen_envs.grid import Position
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.neighbours import Neighbour
from vagen_rewards.rules.paces import is_so_far
from vagen_rewards.rules.relations import Placed, Relations
from vagen_rewards.rules.spots import is_there
from vagen_rewards.scores import Span

Things = Mapping[str, Sequence[Position]]
"""Positions by kind; the player is the one of its kind."""


Said = tuple[dict[str, list[Position]], Position | None]
"""Positions by kind, and the numbers of rows and columns where they are said."""


def read_exactly(text: str, meaning: Mapping[str, tuple[str, ...]]) -> Said | None:
    """Read a grid of symbols or a dictionary of coordinates; `None` if the text is neither.

    Args:
        text: the agent's words.
        meaning: what stands where a symbol does, for each symbol that a grid may have.
    """
    return _read_dictionary(text) or _read_grid(text, meaning)


def mark_exactly(said: Said, things: Things, size: Position) -> Marks:
    """Hold places against those where things truly are. Several answers for one thing are as many claims.

    Args:
        said: what was read.
        things: where things truly are.
        size: rows and columns of the board.
    """
    found, size_said = said
    marks = Marks()
    for kind, places in things.items():
        marks.wanted += len(places)
        left = list(places)
        for place in found.get(kind, ()):
            if place in left:
                left.remove(place)
                marks.right += 1
                marks.found += 1
            else:
                marks.fault(f"{kind} at {place}")
    for kind in found.keys() - things.keys():
        marks.fault(f"there is no {kind}", len(found[kind]))
    if size_said not in (None, size):
        marks.fault(f"grid of {size_said}")
    return marks


def add_places(marks: Marks, placed: Sequence[Placed], things: Things, size: Position) -> Marks:
    """With what sentences say of rows and columns; the marks that come in aren't written to."""
    if not placed:
        return marks
    bases = {0, 1} if any(each.base is None for each in placed) else {0}
    ways = []
    for base in bases:
        said: dict[str, list[Position]] = {}
        for kind, (row, column), own in placed:
            shift = base if own is None else own
            said.setdefault(kind, []).append((row - shift, column - shift))
        ways.append(mark_exactly((said, None), things, size))
    best = max(ways, key=lambda way: way.right)
    related = marks.right + marks.wrong > 0
    full = marks if related and marks.found * best.wanted > best.found * marks.wanted else best
    notes = (*marks.notes, *best.notes)[:4]
    counts = (marks.right + best.right, marks.wrong + best.wrong, full.found, full.wanted)
    return Marks(*counts, marks.essential, marks.unread, marks.matters, notes, marks.parts)


def doubt_places(marks: Marks, reading: Relations, things: Things, size: Position) -> Marks:
    """With the sentences unread in which something is said to be so far, or in a row or column, as nothing is."""
    wrong = [span for pace, span in reading.paces if not is_so_far(pace, things)]
    wrong += [span for spot, span in reading.spots if not is_there(spot, things, size)]
    if not wrong:
        return marks
    return dataclasses.replace(marks, unread=tuple(sorted({*marks.unread, *wrong})), matters=True)


def add_neighbours(marks: Marks, neighbours: Sequence[tuple[Neighbour, Span]], state: State) -> Marks:
    """With what is said of the cells next to the player; the marks that come in aren't written to."""
    if not neighbours:
        return marks
    marks = dataclasses.replace(marks)
    for fact, span in neighbours:
        holds = fact.holds(state)
        if holds:
            marks.right += 1
        elif holds is None:
            marks.unread, marks.matters = tuple(sorted({*marks.unread, span})), True
        else:
            marks.fault(f"no {fact.kind} is next to the player, {fact.side}")
    return marks


def _read_grid(text: str, meaning: Mapping[str, tuple[str, ...]]) -> Said | None:
    """Of a grid of at least two rows. Blank lines and fences are ignored."""
    if "\n" not in text:
        return None
    rows = [line.strip().replace(" ", "") for line in text.splitlines()]
    rows = [row for row in rows if row and not row.startswith("```")]
    if len(rows) < 2 or any(not meaning.keys() >= set(row) for row in rows):
        return None
    found: dict[str, list[Position]] = {}
    for i, row in enumerate(rows):
        for j, symbol in enumerate(row):
            for kind in meaning[symbol]:
                found.setdefault(kind, []).append((i, j))
    return found, (len(rows), len(rows[0]))


_ENTRY = re.compile(
    r"[\"']?(player|box|boxes|target|targets|goal|hole|holes)_?(?:pos(?:itions?)?|coord(?:inate)?s?|locations?)[\"']?\s*[:=]\s*"
    r"((?:[\[\](),\s]|-?\d{1,6})*)",
    re.IGNORECASE,
)
_KEYS = re.compile(
    r"\b(?:player|box(?:es)?|targets?|goal|holes?)_(?:pos|coord|loc)[a-z]*[\"']? ?[:=] ?[\[(]", re.IGNORECASE
)
_PAIR = re.compile(r"[\[(]\s*(-?\d{1,6})\s*,\s*(-?\d{1,6})\s*[\])]")
_SIZE = re.compile(r"[\"']?grid_size[\"']?\s*[:=]\s*[\[(]\s*(\d{1,4})\s*,\s*(\d{1,4})\s*[\])]", re.IGNORECASE)
_NAMES = {"boxes": "box", "targets": "target", "goal": "target", "holes": "hole"}


def _read_dictionary(text: str) -> Said | None:
    if "{" not in text and len(_KEYS.findall(text)) < 2:
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
