"""Facts of Sokoban and FrozenLake.

Where things are to one another and on the board, and how many there are.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from vagen_envs.grid import Position
from vagen_rewards.reader.claims import every, some
from vagen_rewards.reader.labels import NO_LABELS, Cells, Labels

Region = tuple[tuple[str, int | str], ...]
"""Pairs of `row` or `column` and a place along it, such as ("row", "first") and ("column", 3)."""


class Where(NamedTuple):
    """A thing seen from another."""

    subject: str
    other: str
    vertical: int | None = None  # -1 (above), 0 (same row), 1 (below)
    horizontal: int | None = None  # -1 (left), 0 (same column), 1 (right)
    rows: int | None = None  # the distance in cells
    columns: int | None = None
    near: bool = False  # whether they share a side
    nth: int = 1  # so many must be there, all if it is 0, none if it is -1
    # Cells are counted along one axis: observers differ where the distance along the other isn't 0.
    straight: bool = False
    labels: Labels = NO_LABELS

    def holds(self, state: Any) -> bool | None:
        """Whether at least `nth` things of the subject's kind stand so to one of the other kind."""
        return self.labels.agreed(state, self._holds_among)

    def _holds_among(self, cells: Cells) -> bool | None:
        found = cells.get(self.subject)
        others = cells.get(self.other)
        if found is None or others is None:
            return None
        if len(others) == 1:
            return _so_many([self._fits(at, others[0]) for at in found], self.nth)
        return _so_many([self._fits_one(at, others) for at in found], self.nth)

    def _fits_one(self, at: Position, others: tuple[Position, ...]) -> bool | None:
        return some([self._fits(at, other) for other in others])

    def _fits(self, at: Position, other: Position) -> bool | None:
        down = at[0] - other[0]
        right = at[1] - other[1]
        if not _is_there(down, self.vertical, self.rows):
            return False
        if not _is_there(right, self.horizontal, self.columns):
            return False
        far = max(abs(down), abs(right))
        if self.near and far != 1:
            return False
        diagonal = bool(down and right)
        near = self.near or self.rows is not None or self.columns is not None
        # Observers differ about what is diagonal: "next to", "one cell up", "no hole to my left".
        if diagonal and (self.straight or (self.near and None in (self.vertical, self.horizontal))):
            return None
        if self.nth < 0 and not near and (diagonal or far > 1):
            return None
        return True

    def atoms(self) -> int:
        """Facts that are stated: one along each axis."""
        return (self.vertical is not None) + (self.horizontal is not None) or 1

    def halves(self) -> tuple[Where, ...]:
        """The fact along each axis that it says something of."""
        along = (
            self._replace(horizontal=None, columns=None),
            self._replace(vertical=None, rows=None),
        )
        return tuple([half for half in along if (half.vertical, half.horizontal) != (None, None)])

    def right_atoms(self, state: Any) -> int:
        """The most of them that hold of one pair of things, if the fact itself doesn't hold."""
        if self.atoms() < 2 or self.nth != 1:
            return 0
        return int(any(half.holds(state) for half in self.halves()))

    def __str__(self) -> str:
        sides = ("above", "in the row of", "below"), ("left of", "in the column of", "right of")
        ways = zip(sides, (self.vertical, self.horizontal), strict=True)
        places = [names[way + 1] for names, way in ways if way is not None]
        subject = self.labels.called(self.subject)
        return f"{subject} {' and '.join(places) or 'next to'} {self.labels.called(self.other)}"


def _is_there(off: int, side: int | None, count: int | None) -> bool:
    """Whether it is on a side along one axis, and so many cells off, where these are said."""
    if side is not None and _sign(off) != side:
        return False
    return count is None or abs(off) == count


class At(NamedTuple):
    """A thing is in a cell, (row, column) counted from 0, as a dictionary or a sentence says.

    Attributes:
        kind: of the thing.
        cell: as the text has it.
        in_words: whether a sentence says it, which may count from 1 or name the column first.
        along: all cells of the text's sentences: they are counted alike.
    """

    kind: str
    cell: Position
    in_words: bool = False
    along: tuple[tuple[str, Position], ...] = ()
    labels: Labels = NO_LABELS

    def holds(self, state: Any) -> bool | None:
        """Whether one of its kind is there; `None` where a sentence may count otherwise."""
        return self.labels.agreed(state, functools.partial(self._holds_among, state))

    def _holds_among(self, state: Any, things: Cells) -> bool | None:
        cells = things.get(self.kind)
        if cells is None:
            return None
        if self.cell in cells:
            return True
        if not self.in_words:
            return False
        row, column = self.cell
        if len(self.along) > 1 and all(_is_from_one(state, *each) for each in self.along):
            return True
        others = {(column, row), (row - 1, column - 1), (column - 1, row - 1)}
        return False if others.isdisjoint(cells) else None

    def __str__(self) -> str:
        return f"{self.labels.called(self.kind)} at {self.cell}"


def _is_from_one(state: Any, kind: str, cell: Position) -> bool:
    """Whether a thing of a kind is in a cell that is counted from 1."""
    return (cell[0] - 1, cell[1] - 1) in state.cells.get(kind, ())


class Within(NamedTuple):
    """A thing is in a place of the board.

    A place is `first` or `last`; a number as text, counted from 0 or from 1; or a whole number,
    counted from 1 among the rows or columns (negative from the end). One thing must be in all of
    the places.
    """

    kind: str
    places: Region
    loose: bool = False  # as in "at the top", where observers differ about the middle
    nth: int = 1  # so many must be there, all if it is 0, none if it is -1
    # What a number may be counted from: from 0, unless the text says it.
    bases: tuple[int, ...] = (
        0,
        1,
    )
    labels: Labels = NO_LABELS

    def holds(self, state: Any) -> bool | None:
        """Whether one of its kind is there; `None` where observers may differ."""
        return self.labels.agreed(state, functools.partial(self._holds_among, state))

    def _holds_among(self, state: Any, cells: Cells) -> bool | None:
        things = cells.get(self.kind)
        if things is None:
            return None
        return _so_many([self._is_there(cell, state) for cell in things], self.nth)

    def _is_there(self, cell: Position, state: Any) -> bool | None:
        return every(
            [self._fits(axis == "column", place, cell, state) for axis, place in self.places]
        )

    def _fits(self, axis: int, place: int | str, cell: Position, state: Any) -> bool | None:
        at, (first, last) = cell[axis], state.extent[axis]
        # Counted over the rows with floor, or over all rows, which a wall may surround.
        if isinstance(place, int):
            from_start = {first + place - 1, place - 1}
            from_end = {last + place + 1, last + first + place + 1}
            meant = from_start if place > 0 else from_end
            return (len(meant) == 1 or None) if at in meant else False
        if place in ("first", "last"):
            off = at - first if place == "first" else last - at
            near = off < 0.6 * max(1, last - first)
            doubted = near and (self.loose or off == 1)
            if off == 0:
                return True
            return None if doubted else False
        number = int(place)
        if at == number - self.bases[0]:
            return True
        return None if any(at == number - base for base in self.bases[1:]) else False

    def __str__(self) -> str:
        places = " and ".join([f"{axis} {place}" for axis, place in self.places])
        return f"{self.labels.called(self.kind)} in {places}"


class Total(NamedTuple):
    """There are so many things of a kind."""

    kind: str
    number: int

    def holds(self, state: Any) -> bool | None:
        """Whether there are; `None` if there are more, since a text may speak of some of them."""
        there = len(state.cells.get(self.kind, ()))
        if there > self.number > 0:
            return None
        return there == self.number

    def __str__(self) -> str:
        return f"{self.number} {self.kind}"


class Between(NamedTuple):
    """A thing is between two others."""

    kind: str
    ends: tuple[str, str]
    nth: int = 1
    labels: Labels = NO_LABELS

    def holds(self, state: Any) -> bool | None:
        """Whether it is in one line with them.

        `None` if it isn't, but somewhere in the rectangle that they span.
        """
        return self.labels.agreed(state, self._holds_among)

    def _holds_among(self, cells: Cells) -> bool | None:
        ends = [cells.get(end, ()) for end in self.ends]
        found = cells.get(self.kind)
        if any(len(end) != 1 for end in ends) or found is None:
            return None
        return _so_many([_is_between(at, ends[0][0], ends[1][0]) for at in found], self.nth)

    def __str__(self) -> str:
        return f"{self.labels.called(self.kind)} between {self.ends[0]} and {self.ends[1]}"


def _is_between(at: Position, one: Position, other: Position) -> bool | None:
    for axis in (0, 1):
        if not min(one[axis], other[axis]) <= at[axis] <= max(one[axis], other[axis]):
            return False
    if at in (one, other):
        return False
    rows = other[0] - one[0]
    columns = other[1] - one[1]
    is_in_line = rows * (at[1] - one[1]) == columns * (at[0] - one[0])
    return is_in_line or None


def _so_many(verdicts: list[bool | None], number: int) -> bool | None:
    """Whether so many hold, none or all; "the holes" may be some of them."""
    if number < 0:
        found = some(verdicts)
        return None if found is None else not found
    if not number:
        return all(verdicts) or None
    if verdicts.count(True) >= number:
        return True
    possible = len(verdicts) - verdicts.count(False)
    return None if possible >= number else False


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
