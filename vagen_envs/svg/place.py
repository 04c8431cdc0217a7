"""Where and how an element of an SVG is painted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fontTools.misc.transform import Offset, Transform

from vagen_envs.svg.check import pixels
from vagen_envs.svg.styles import Style


@dataclass(frozen=True)
class Place:
    """Where and how an element is painted: transform to pixels, style, size of the viewport,
    opacity of the groups.
    """

    matrix: Transform
    style: Style
    viewport: tuple[float, float]
    opacity: float
    depth: int = 0

    def length(self, text: str | None, axis: str, default: float = 0.0) -> float:
        """Pixels of a length; `default` for what is none, or too large for a number, as in
        resvg.
        """
        width, height = self.viewport
        whole = {"x": width, "y": height}.get(axis, math.hypot(width, height) / math.sqrt(2))
        found = pixels(text, whole)
        return found if math.isfinite(found) else default

    def size(self, attributes: Mapping[str, str]) -> tuple[float, float]:
        """Width and height; all of the viewport where attributes state none."""
        width, height = self.viewport
        across = self.length(attributes.get("width"), "x", width)
        down = self.length(attributes.get("height"), "y", height)
        return across, down

    def around(self, matrix: Transform, origin: str | None) -> Transform:
        """A transform around a `transform-origin`."""
        if not origin:
            return matrix
        words = [_SIDES.get(word, word) for word in [*origin.split(), "50%"][:2]]
        if origin.split()[0] in ("top", "bottom"):
            words.reverse()
        x = self.length(words[0], "x")
        y = self.length(words[1], "y")
        return Offset(x, y).transform(matrix).translate(-x, -y)


_SIDES = {"left": "0%", "top": "0%", "center": "50%", "right": "100%", "bottom": "100%"}
