"""Facts of Sokoban and FrozenLake: where things are to one another and on the board, and how many there are."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from vagen_envs.grid import Position
from vagen_rewards.reader.claims import every
from vagen_rewards.reader.relations import Region

GROUND = ("wall", "free")
"""Walls, and cells that are free."""


class Where(NamedTuple):
    """A thing seen from another. Of "under" (2 or -2) observers differ in the same cell."""

    subject: str
    other: str
    vertical: int | None = None  # -1 (above), 0 (same row), 1 (below)
    horizontal: int | None = None  # -1 (left), 0 (same column), 1 (right)
    rows: int | None = None  # the distance in cells
    columns: int | None = None
    near: bool = False  # whether they share a side
    nth: int = 1  # so many must be there, all if it is 0, none if it is -1
    straight: bool = (
        False  # cells are counted along one axis: observers differ where the other isn't 0
    )
    apart: int = 0  # the distance in cells: observers differ where it isn't along one axis

    def holds(self, state: Any) -> bool | None:
        """Whether at least `nth` things of the subject's kind stand so to one of the other kind."""
        found, others = cells_of(state, self.subject), cells_of(state, self.other)
        if found is None or others is None:
            return None
        return _so_many(
            [_any([self._fits(at, other) for other in others]) for at in found], self.nth
        )

    def _fits(self, at: Position, other: Position) -> bool | None:
        down, right = at[0] - other[0], at[1] - other[1]
        if self.vertical in (-2, 2) and at == other:
            return None
        wrong = (
            (self.vertical is not None and _sign(down) != _sign(self.vertical))
            or (self.horizontal is not None and _sign(right) != self.horizontal)
            or (self.rows is not None and abs(down) != self.rows)
            or (self.columns is not None and abs(right) != self.columns)
            or (self.near and max(abs(down), abs(right)) != 1)
            or (
                self.apart
                and self.apart not in (abs(down) + abs(right), max(abs(down), abs(right)))
            )
        )
        if wrong:
            return False
        near = self.near or self.rows is not None or self.columns is not None
        # Diagonal: "next to", "one cell up", "no hole to my left"?
        doubted = (
            self.straight
            or self.apart
            or (self.vertical is None and self.near)
            or (self.nth < 0 and not self.near)
        )
        unsure = (doubted and down and right) or (
            self.nth < 0 and not near and max(abs(down), abs(right)) > 1
        )
        return None if unsure else True

    def atoms(self) -> int:
        """Facts that are stated: one along each axis."""
        return (self.vertical is not None) + (self.horizontal is not None) or 1

    def right_atoms(self, state: Any) -> int:
        """The most of them that hold of one pair of things, if the fact itself doesn't hold."""
        halves = (
            self._replace(horizontal=None, columns=None),
            self._replace(vertical=None, rows=None),
        )
        if self.atoms() < 2 or self.nth != 1:
            return 0
        pairs = [
            (a, b)
            for a in cells_of(state, self.subject) or ()
            for b in cells_of(state, self.other) or ()
        ]
        return (
            max((sum(half._fits(a, b) is True for half in halves) for a, b in pairs), default=0) % 2
        )

    def __str__(self) -> str:
        sides = ("above", "in the row of", "below"), ("left of", "in the column of", "right of")
        ways = zip(sides, (self.vertical, self.horizontal), strict=True)
        places = [names[_sign(way) + 1] for names, way in ways if way is not None]
        return f"{self.subject} {' and '.join(places) or 'next to'} {self.other}"


class At(NamedTuple):
    """A thing is in a cell, (row, column) counted from 0, as a dictionary or a sentence says."""

    kind: str
    cell: Position
    in_words: bool = False

    def holds(self, state: Any) -> bool | None:
        """Whether one of its kind is there; in a sentence, `None` if it is in (column, row) or counted from 1."""
        cells = state.cells.get(self.kind)
        if cells is None or self.cell in cells:
            return None if cells is None else True
        row, column = self.cell
        return (
            None if self.in_words and {(column, row), (row - 1, column - 1)} & set(cells) else False
        )

    def __str__(self) -> str:
        return f"{self.kind} at {self.cell}"


class Within(NamedTuple):
    """A thing is in a place of the board.

    Places are pairs of `row` or `column` and `first`, `last`, `middle`, a number counted from 1 (negative from the
    end), or the digits of a number that is counted from 0 or from 1. One thing must be in all of them.
    """

    kind: str
    places: Region
    loose: bool = False  # as in "at the top", where observers differ about the middle
    nth: int = 1  # so many must be there, all if it is 0, none if it is -1
    bases: tuple[int, ...] = (0, 1)  # what the text's numbers may be counted from
    along: tuple[
        tuple[str, Region], ...
    ] = ()  # all places that the text gives by numbers: they are counted alike

    def holds(self, state: Any) -> bool | None:
        """Whether one of its kind is there; `None` where observers may differ."""
        things = state.cells.get(self.kind)
        if things is None:
            return None
        verdicts = [
            every([self._fits(axis == "column", place, cell, state) for axis, place in self.places])
            for cell in things
        ]
        return _so_many(verdicts, self.nth)

    def _fits(self, axis: int, place: int | str, cell: Position, state: Any) -> bool | None:
        at, (first, last) = cell[axis], state.extent[axis]
        if place == "middle":
            share = abs(2 * at - first - last) / max(1, last - first)
            return True if share < 0.34 else None if share < 0.67 else False
        if place in ("first", "last"):
            from_end = at - first if place == "first" else last - at
            share = from_end / max(1, last - first)
            if from_end == 0:
                return True
            return None if share < 0.6 and (self.loose or from_end == 1) else False
        if isinstance(place, int):
            meant = (
                {first + place - 1, place - 1}
                if place > 0
                else {last + place + 1, last + first + place + 1}
            )
            return (len(meant) == 1 or None) if at in meant else False
        bases = [base for base in self.bases if at == int(place) - base]
        return any(self._is_counted(base, state) for base in bases) or (None if bases else False)

    @property
    def numbers(self) -> Region:
        """Those of the places that are given by a number in digits."""
        return tuple(
            [
                (axis, place)
                for axis, place in self.places
                if isinstance(place, str) and place.isdigit()
            ]
        )

    def _is_counted(self, base: int, state: Any) -> bool:
        """Whether all numbers of the text are right when they are counted from `base`."""
        return all(
            any(
                all(cell[axis == "column"] == int(place) - base for axis, place in places)
                for cell in state.cells.get(kind, ())
            )
            for kind, places in self.along
        )

    def __str__(self) -> str:
        return f"{self.kind} in {' and '.join(f'{axis} {place}' for axis, place in self.places)}"


class Total(NamedTuple):
    """There are so many things of a kind."""

    kind: str
    number: int

    def holds(self, state: Any) -> bool | None:
        """Whether there are; `None` if there are more, since a text may speak of some of them."""
        there = len(state.cells.get(self.kind, ()))
        return (
            True
            if there == self.number or there > self.number == 1
            else None
            if there > self.number
            else False
        )

    def __str__(self) -> str:
        return f"{self.number} {self.kind}"


class Between(NamedTuple):
    """A thing is between two others."""

    kind: str
    ends: tuple[str, str]
    nth: int = 1

    def holds(self, state: Any) -> bool | None:
        """Whether it is in one line with them; `None` if it isn't, but somewhere in the rectangle that they span."""
        ends = [cells_of(state, end) or () for end in self.ends]
        found, verdicts = cells_of(state, self.kind), list[bool | None]()
        if any(len(cells) != 1 for cells in ends) or found is None:
            return None
        a, b = ends[0][0], ends[1][0]
        for at in found:
            inside = all(
                min(a[axis], b[axis]) <= at[axis] <= max(a[axis], b[axis]) for axis in (0, 1)
            )
            turn = (b[0] - a[0]) * (at[1] - a[1]) - (b[1] - a[1]) * (at[0] - a[0])
            verdicts.append((turn == 0 or None) if inside and at not in (a, b) else False)
        return _so_many(verdicts, self.nth)

    def __str__(self) -> str:
        return f"{self.kind} between {self.ends[0]} and {self.ends[1]}"


def cells_of(state: Any, kind: str) -> tuple[Position, ...] | None:
    """The cells of a kind of thing, of walls, or of those that are free of walls, boxes and holes."""
    if kind not in GROUND:
        return state.cells.get(kind)  # type: ignore[no-any-return]
    (top, bottom), (left, right) = state.extent
    around = itertools.product(range(top - 1, bottom + 2), range(left - 1, right + 2))
    bits, width = getattr(state, "floor", -1), state.width or 0
    inside = itertools.product(range(top, bottom + 1), range(left, right + 1))
    floor = {(i, j) for i, j in inside if bits >> (i * width + j) & 1}
    filled = {*state.cells.get("box", ()), *state.cells.get("hole", ())}
    return tuple(
        [cell for cell in around if cell not in floor] if kind == "wall" else floor - filled
    )


def _any(verdicts: list[bool | None]) -> bool | None:
    return True if True in verdicts else None if None in verdicts else False


def _so_many(verdicts: list[bool | None], number: int) -> bool | None:
    """Whether so many hold, none or all; "the holes" may be some of them."""
    if number < 0:
        return None if (found := _any(verdicts)) is None else not found
    if not number:
        return all(verdicts) or None
    return True if verdicts.count(True) >= number else None if None in verdicts else False


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
