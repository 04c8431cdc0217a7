"""The state: the painted elements of the target and of the agent's drawing."""

from __future__ import annotations

import bisect
import colorsys
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from vagen_envs.core import State

MOST_ELEMENTS = 16
"""More than these, the largest ones, are not told apart in words."""

_HUE_ENDS = (15, 40, 68, 168, 200, 250, 290, 345)  # degrees
_HUES = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink", "red")


def colour_name(colour: str) -> str:
    """A plain name for `#rrggbb`, such as `light blue`, `dark gray` or `brown`."""
    r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, lightness, _ = colorsys.rgb_to_hls(r, g, b)
    if max(r, g, b) - min(r, g, b) < 0.1:
        greys = (
            (0.12, "black"),
            (0.4, "dark gray"),
            (0.7, "gray"),
            (0.95, "light gray"),
            (2.0, "white"),
        )
        return next(name for end, name in greys if lightness < end)
    name = _HUES[bisect.bisect_right(_HUE_ENDS, hue * 360)]
    if name in ("red", "orange") and lightness < 0.45 and hue * 360 > 8:
        return "brown"
    if name == "red" and lightness > 0.72:
        return "pink"
    if lightness > 0.75:
        return f"light {name}"
    return f"dark {name}" if lightness < 0.25 else name


class Element(NamedTuple):
    """Something painted.

    Attributes:
        shape: circle, ellipse, rectangle (maybe rounded), triangle, line, text, or shape for any
            other.
        how: filled or outlined.
        colour: `#rrggbb`; of a gradient the mean of its stops.
        x, y: the middle of its box, in percent of the picture from its left and from its top.
        width, height: of its box, in percent of the picture.
    """

    shape: str
    how: str
    colour: str
    x: int
    y: int
    width: int
    height: int

    def words(self) -> str:
        """Such as `a filled red circle at (50, 40), 20 wide and 20 high`."""
        article = "an" if self.how[0] in "aeiou" else "a"
        where = f"at ({self.x}, {self.y}), {self.width} wide and {self.height} high"
        return f"{article} {self.how} {colour_name(self.colour)} {self.shape} {where}"


def elements(
    marks: Iterable[tuple[str, str, str, float, float, float, float]], size: int
) -> tuple[Element, ...]:
    """The largest elements of what was painted on a `size` × `size` picture, in the order of
    painting.
    """
    found = []
    for shape, how, colour, left, top, right, bottom in marks:
        middle_x = 50 * (left + right) / size
        middle_y = 50 * (top + bottom) / size
        width = 100 * (right - left) / size
        height = 100 * (bottom - top) / size
        found.append(
            Element(
                shape, how, colour, round(middle_x), round(middle_y), round(width), round(height)
            )
        )
    by_area = sorted(range(len(found)), key=lambda i: (-found[i].width * found[i].height, i))
    return tuple(found[i] for i in sorted(by_area[:MOST_ELEMENTS]))


@dataclass(frozen=True, slots=True)
class SvgState(State):
    """The target and what was drawn last.

    Attributes:
        target: its largest elements, in the order of painting, those behind first.
        drawing: the same of the agent's last picture; `None` while there is none, or if it failed.
        pixels: a hash of the drawing's pixels, which tells drawings apart whose elements are
            described alike. No description has it.
    """

    kind: ClassVar[str] = "svg"

    target: tuple[Element, ...]
    drawing: tuple[Element, ...] | None = None
    pixels: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", tuple(Element(*each) for each in self.target))
        if self.drawing is not None:
            object.__setattr__(self, "drawing", tuple(Element(*each) for each in self.drawing))

    def sentences(self) -> tuple[str, ...]:
        """One for each element of the target and of the drawing."""
        target = tuple(f"the target has {element.words()}" for element in self.target)
        if self.drawing is None:
            return (*target, "the drawing does not exist")
        return (*target, *(f"the drawing has {element.words()}" for element in self.drawing))

    def natural_language(self) -> str:
        """Target and drawing in two sentences."""
        drawn = "There is no drawing yet."
        if self.drawing is not None:
            drawn = f"The drawing has {_list(self.drawing)}."
        return f"The target has {_list(self.target)}. {drawn}"

    def structured(self) -> str:
        """Two lists of dictionaries; coordinates in percent of the picture from its upper left."""
        drawn = "None" if self.drawing is None else f"[{', '.join(map(_entry, self.drawing))}]"
        return f"{{target: [{', '.join(map(_entry, self.target))}], drawing: {drawn}}}"

    def alike(self, others: Iterable[SvgState], _options: Mapping[str, Any]) -> list[SvgState]:
        """The agent wrote its drawing itself."""
        return [
            dataclasses.replace(other, drawing=self.drawing, pixels=self.pixels) for other in others
        ]


def _list(found: tuple[Element, ...]) -> str:
    return "; ".join(element.words() for element in found) or "nothing"


def _entry(element: Element) -> str:
    place = f"center: ({element.x}, {element.y}), size: ({element.width}, {element.height})"
    return f"{{shape: {element.how} {element.shape}, color: {element.colour}, {place}}}"
