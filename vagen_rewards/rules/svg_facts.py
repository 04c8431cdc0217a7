"""What is claimed about SVG's pictures, as facts that hold of a state or don't."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from vagen_rewards.rules import colours
from vagen_rewards.rules.svg_elements import DRAWN, ROUND, Drawn
from vagen_rewards.rules.truths import TRUE, States, Truths

TOLERANCE = 15
"""Percent of the picture by which a middle may be off."""


@dataclass(frozen=True, slots=True)
class Painted:
    """The target, or the drawing, has such an element."""

    where: str
    shape: str
    colour: str
    at: tuple[int, int] | None
    third: tuple[int | None, int | None]
    size: tuple[int | None, int | None] = (None, None)
    hedged: bool = False

    def holds(self, state: Any) -> bool:
        """Whether some element fits."""
        elements = (state.target if self.where == "target" else state.drawing) or ()
        return not self.hedged and any(fitting(self, each) for each in elements)

    def truths(self, states: States) -> Truths:
        """`holds` of each of many states: each element is looked at once, if it is near and so coloured."""
        found = np.zeros(len(states), np.int8)
        shown = states.table(_targets if self.where == "target" else _drawings)
        if self.hedged or not shown.elements:
            return found
        near = np.ones(len(shown.elements), np.bool_)
        if self.at is not None:
            near = np.abs(shown.middles - np.array(self.at)).max(axis=1) <= TOLERANCE
        if self.colour:
            if self.colour not in shown.called:
                shown.called[self.colour] = _so_called(self.colour, shown.colours)[shown.coloured]
            near &= shown.called[self.colour]
        for number in np.flatnonzero(near).tolist():
            if fitting(self, shown.elements[number]):
                found[shown.states[number]] = TRUE
        return found


class _Shown(NamedTuple):
    """What many pictures show.

    Attributes:
        elements: each once.
        middles: of each its place.
        states: of each the states whose picture has it.
        colours: all there are.
        coloured: of each element which of them it has.
        called: of a colour's name, where it was asked for, which elements may be called so.
    """

    elements: list[Any]
    middles: NDArray[np.int64]
    states: list[list[int]]
    colours: list[str]
    coloured: NDArray[np.int64]
    called: dict[str, NDArray[np.bool_]]


def _so_called(said: str, these: list[str]) -> NDArray[np.bool_]:
    """Which colours may be called so."""
    if _HEX.fullmatch(said):  # one at a time takes a hundred times as long, and of these there are many
        return np.asarray(colours.alike(said, these), np.bool_)
    return np.array([_called(said, colour) for colour in these])


_HEX = re.compile("#[0-9a-f]{6}")


def _targets(states: States) -> _Shown:
    return _shown([cast(Any, state).target for state in states])


def _drawings(states: States) -> _Shown:
    return _shown([cast(Any, state).drawing or () for state in states])


def _shown(pictures: Iterable[Iterable[Any]]) -> _Shown:
    shown: dict[Any, list[int]] = {}
    for number, elements in enumerate(pictures):
        for each in elements:
            shown.setdefault(each, []).append(number)
    numbers = {colour: number for number, colour in enumerate(dict.fromkeys(each.colour for each in shown))}
    coloured = np.array([numbers[each.colour] for each in shown])
    middles = np.array([(each.x, each.y) for each in shown])
    return _Shown(list(shown), middles, list(shown.values()), list(numbers), coloured, {})


@dataclass(frozen=True, slots=True)
class NoDrawing:
    """Nothing is drawn yet."""

    def holds(self, state: Any) -> bool:
        """Whether nothing is."""
        return not state.drawing


BACKGROUND = 80
"""Percent of the picture from which on a plain square or circle isn't called a symbol."""

THIN = 6  # percent of the picture up to which a bar may be called a line
MOST_OFF = 20  # percent by which a size may be off
_SLACK = 10  # and more by which places and sizes may be off before they are refused


def fitting(claim: Drawn | Painted, element: Any, loosely: bool = False) -> bool:
    """Whether an element is as claimed, or, loosely, so that one may differ."""
    at = claim.at
    slack = _SLACK if loosely else 0
    if at is not None and max(abs(at[0] - element.x), abs(at[1] - element.y)) > TOLERANCE + slack:
        return False
    shape, said, (across, down), (width, height) = claim.shape, claim.colour, claim.third, claim.size
    if shape == "symbol":
        if element.shape in DRAWN and min(element.width, element.height) >= BACKGROUND:
            return False
        shape = "shape"
    thin = {shape, element.shape} == {"line", "rectangle"} and min(element.width, element.height) <= THIN
    if shape == "circle" and element.shape == "shape" and abs(element.width - element.height) > MOST_OFF:
        return False
    alike = thin or "shape" in (shape, element.shape) or shape == element.shape or {shape, element.shape} <= set(ROUND)
    if not alike:
        return False
    if width is not None and abs(width - element.width) > MOST_OFF + slack:
        return False
    if height is not None and abs(height - element.height) > MOST_OFF + slack:
        return False
    if across is not None and not _is_at(across, element.x, element.width, slack):
        return False
    if down is not None and not _is_at(down, element.y, element.height, slack):
        return False
    if loosely and said:
        return any(colours.could_be_called(element.colour, name) for name in said.rpartition(" ")[2].split("/"))
    return not said or _called(said, element.colour)


def _is_at(side: int, middle: int, extent: int, slack: int) -> bool:
    """Whether it is at the left, in the middle or at the right; what is large may reach to the side it is nearer to."""
    if side == 0:
        return 30 - slack <= middle <= 70 + slack
    start, end = middle - extent / 2, middle + extent / 2
    if side > 0:
        middle, start = 100 - middle, 100 - end
    return middle < 40 + slack or (middle < 48 + slack and start < 15)


@functools.lru_cache(maxsize=65536)
def _called(said: str, colour: str) -> bool:
    """Whether a colour may be called so, by its neighbours' names or by the environment's own."""
    tone, _, name = said.rpartition(" ")
    if any(colours.may_be_called(colour, each, tone) for each in name.split("/")):
        return True
    from vagen_envs.svg.state import colour_name

    own = colour_name(colour)
    return said in (own, own.split()[-1])
