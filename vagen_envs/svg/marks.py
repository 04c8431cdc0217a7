"""What an SVG paints, in order: shapes with their colours and boxes, the ground truth of
`SvgState`.

resvg gives pixels only. The geometry is worked out here from the cleaned document: transforms,
references, style sheets, opacities and nested viewports are followed; clips, masks and filters
aren't.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from xml.etree.ElementTree import Element

import numpy as np
from fontTools.misc.transform import Identity

from vagen_envs.svg.check import URL, XLINK, local_name, natural_size, view_box
from vagen_envs.svg.colours import Rgba, colour, hexadecimal
from vagen_envs.svg.outlines import Points, apply, outlines_of, read_transform, shape_of
from vagen_envs.svg.place import Place
from vagen_envs.svg.styles import Style, opacity, style_of
from vagen_envs.svg.text_runs import FONT_SIZE, box_of, runs_of

Mark = tuple[str, str, str, float, float, float, float]
"""Shape, `"filled"` or `"outlined"`, colour as `#rrggbb`; left, top, right, bottom in pixels."""

FARTHEST = 1e38  # pixels; resvg, whose numbers have 32 bits, paints nothing that reaches beyond
MAX_MARKS = 400
MAX_ELEMENTS = 5_000
"""Visited, references followed."""
MAX_DEPTH = 128

_BLACK = (0.0, 0.0, 0.0, 1.0)
_PATTERN = (0.5, 0.5, 0.5, 1.0)
"""The colour that stands for a pattern's."""


def letterbox(root: Element, size: int) -> tuple[int, int]:
    """Width and height in pixels of a cleaned SVG in a square, in its natural proportions."""
    width, height = natural_size(root)
    most = max(width, height)
    return max(1, round(size * (width / most))), max(1, round(size * (height / most)))


def marks_of(root: Element, styles: Mapping[Element, Style], size: int) -> list[Mark]:
    """The marks of a cleaned SVG with its resolved `styles` on a `size` × `size` picture; at most
    `MAX_MARKS`.
    """
    width, height = letterbox(root, size)
    walk = _Walk(root, styles, size)
    outside = Place(Identity, style_of(styles[root], {}), (size, size), 1.0)
    left = (size - width) // 2
    top = (size - height) // 2
    walk.visit_viewport(root, outside, left, top, width, height)
    return walk.marks


@dataclass
class _Walk:
    root: Element
    styles: Mapping[Element, Style]
    size: int
    marks: list[Mark] = field(default_factory=list)
    visited: int = 0

    def __post_init__(self) -> None:
        self.ids = {element.get("id"): element for element in reversed(list(self.root.iter()))}

    def visit_children(self, element: Element, place: Place) -> None:
        switch = local_name(element) == "switch"
        for child in element:
            if switch and child.get("requiredExtensions"):
                continue
            if self.visit(child, place) and switch:
                return

    def visit(self, element: Element, outer: Place) -> bool:
        """Note what an element paints. Whether it is one that can paint."""
        paint = _PAINTED.get(local_name(element))
        self.visited += paint is not None
        if paint is None or self.visited > MAX_ELEMENTS or outer.depth > MAX_DEPTH:
            return False
        style = style_of(self.styles[element], outer.style)
        if style.get("display") == "none":
            return True
        around = outer.around(read_transform(style.get("transform")), style.get("transform-origin"))
        matrix = outer.matrix.transform(around)
        seen = outer.opacity * opacity(style.get("opacity"))
        paint(self, element, Place(matrix, style, outer.viewport, seen, outer.depth + 1))
        return True

    def _target(self, element: Element) -> Element | None:
        return self.ids.get((element.get("href") or element.get(f"{{{XLINK}}}href") or "")[1:])

    def _visit_use(self, element: Element, place: Place) -> None:
        target = self._target(element)
        if target is None or element in set(target.iter()):
            return
        x = place.length(element.get("x"), "x")
        y = place.length(element.get("y"), "y")
        place = replace(place, matrix=place.matrix.translate(x, y))
        if local_name(target) in ("symbol", "svg"):
            place = replace(place, style=style_of(self.styles[target], place.style))
            size = place.size({**target.attrib, **element.attrib})
            self.visit_viewport(target, place, 0.0, 0.0, *size)
        else:
            self.visit(target, place)

    def _visit_svg(self, element: Element, place: Place) -> None:
        x = place.length(element.get("x"), "x")
        y = place.length(element.get("y"), "y")
        self.visit_viewport(element, place, x, y, *place.size(element.attrib))

    def visit_viewport(
        self, element: Element, place: Place, x: float, y: float, width: float, height: float
    ) -> None:
        """Visit what is in a viewport, which has this position and size in its parent's units."""
        if not (0 < width < FARTHEST and 0 < height < FARTHEST):
            # resvg then reads neither size nor view box.
            self.visit_children(element, replace(place, matrix=place.matrix.translate(x, y)))
            return
        left, top, *inside = view_box(element) or (0.0, 0.0, width, height)
        across = width / inside[0]
        down = height / inside[1]
        words = element.get("preserveAspectRatio", "xMidYMid").split()
        if words[:1] != ["none"]:
            scale = max(across, down) if "slice" in words else min(across, down)
            across = scale
            down = scale
            match = re.fullmatch(r"x(Min|Mid|Max)Y(Min|Mid|Max)", words[0] if words else "")
            align = (_ALIGN[match[1]], _ALIGN[match[2]]) if match else (0.5, 0.5)
            x += (width - across * inside[0]) * align[0]
            y += (height - down * inside[1]) * align[1]
        moved = (across, 0.0, 0.0, down, x - across * left, y - down * top)
        matrix = place.matrix.transform(moved)
        within = replace(place, matrix=matrix, viewport=(inside[0], inside[1]))
        self.visit_children(element, within)

    def _note_shape(self, element: Element, place: Place) -> None:
        name, outlines = outlines_of(element, place.length)
        if not outlines or place.style.get("visibility") in ("hidden", "collapse"):
            return
        outlines = [apply(place.matrix, outline) for outline in outlines]
        points = np.concatenate(outlines)
        low = points.min(axis=0)
        high = points.max(axis=0)
        width_of_box, height_of_box = high - low
        a, b, c, d, *_ = place.matrix
        shape = name or shape_of(outlines)
        if name not in (None, "line") and (b or c):  # turned or skewed
            shape = shape_of(outlines)
        elif name == "ellipse" and 0.999 < width_of_box / max(height_of_box, 1e-9) < 1.001:
            shape = "circle"
        if min(width_of_box, height_of_box) > 0:
            fill = self._paint("fill", "black", place)
            self._note(shape, "filled", fill, low, high)
        stroke = self._paint("stroke", "none", place)
        scale = math.sqrt(abs(a * d - b * c))
        width = place.length(place.style.get("stroke-width"), "r", 1.0) * scale
        reach = np.full(2, width / 2)
        if len(points) == 2 and (length := math.dist(*points)):
            # A straight line has no caps beyond its ends.
            reach = np.abs(points[1] - points[0])[::-1] / length * width / 2
        if width > 0:
            self._note(shape, "outlined", stroke, low - reach, high + reach)

    def _note_text(self, element: Element, place: Place) -> None:
        """Each run of letters, in the font that texts are drawn in."""
        x = place.length(element.get("x"), "x")
        y = place.length(element.get("y"), "y")
        for run, owner in runs_of(element):
            style = place.style if owner is element else style_of(self.styles[owner], place.style)
            seen = place.opacity * opacity(owner.get("opacity"))
            inner = replace(place, style=style, opacity=seen)
            x = _moved_to(inner, owner, "x", x)
            y = _moved_to(inner, owner, "y", y)
            high = float(style["font-size"])
            left, top, right, bottom, advance = (side * high / FONT_SIZE for side in box_of(run))
            begin = x - _ANCHORS.get(style.get("text-anchor", ""), 0.0) * advance
            low_x = begin + left
            high_x = begin + right
            low_y = y + top
            high_y = y + bottom
            corners = [[low_x, low_y], [low_x, high_y], [high_x, low_y], [high_x, high_y]]
            points = apply(inner.matrix, np.array(corners))
            is_shown = style.get("visibility") not in ("hidden", "collapse")
            if is_shown and style.get("display") != "none" and high > 0:
                paint = self._paint("fill", "black", inner)
                self._note("text", "filled", paint, points.min(axis=0), points.max(axis=0))
            x = begin + advance

    def _paint(self, name: str, default: str, place: Place) -> str | None:
        """`#rrggbb` of a fill or stroke as it looks on white; None if it can't be seen."""
        stated = place.style.get(name, default)
        current = place.style.get("color", "black")
        rgba: Rgba | None = _PATTERN
        if match := URL.fullmatch(stated):
            target = self.ids.get(match[1])
            instead = colour(match[2] or "none", current)
            rgba = instead if target is None else self._server(target)
        elif not stated.strip().startswith("context-"):
            rgba = colour(stated, current)
        if rgba is None:
            return None
        alpha = rgba[3] * place.opacity * opacity(place.style.get(f"{name}-opacity"))
        if alpha < 1 / 255:
            return None
        channels = [min(max(channel, 0.0), 1.0) for channel in rgba[:3]]
        return hexadecimal(tuple(channel * alpha + 1 - alpha for channel in channels))

    def _server(self, element: Element) -> Rgba | None:
        """The mean colour of a gradient's stops."""
        if local_name(element) not in ("linearGradient", "radialGradient"):
            return _PATTERN if local_name(element) == "pattern" else None
        for _ in range(8):
            stops = [child for child in element if local_name(child) == "stop"]
            if stops or (target := self._target(element)) is None:
                break
            element = target
        found = []
        for stop in stops:
            style = style_of(self.styles[stop], style_of(self.styles[element], {}))
            stated = colour(style.get("stop-color", "black"), style.get("color", "black"))
            *rgb, alpha = stated or _BLACK
            found.append((*rgb, alpha * opacity(style.get("stop-opacity"))))
        total = sum(alpha for *_, alpha in found)
        if not total:
            return None
        red = sum(stop[0] * stop[3] for stop in found)
        green = sum(stop[1] * stop[3] for stop in found)
        blue = sum(stop[2] * stop[3] for stop in found)
        return red / total, green / total, blue / total, total / len(found)

    def _note(self, shape: str, how: str, seen: str | None, low: Points, high: Points) -> None:
        if seen is None or not (np.abs((low, high)) < FARTHEST).all():
            return
        left, top, right, bottom = np.clip((*low, *high), 0.0, self.size).tolist()
        is_inside = left < right or top < bottom
        if is_inside and len(self.marks) < MAX_MARKS:
            self.marks.append((shape, how, seen, left, top, right, bottom))


_PAINTED: Mapping[str, Callable[[_Walk, Element, Place], None]] = {
    **dict.fromkeys(
        ("path", "rect", "circle", "ellipse", "line", "polyline", "polygon"), _Walk._note_shape
    ),
    **dict.fromkeys(("g", "a", "switch"), _Walk.visit_children),
    "svg": _Walk._visit_svg,
    "text": _Walk._note_text,
    "use": _Walk._visit_use,
}
_ANCHORS = {"middle": 0.5, "end": 1.0}
"""Share of a run's width that stands before its place, by `text-anchor`."""
_ALIGN = {"Min": 0.0, "Mid": 0.5, "Max": 1.0}


def _moved_to(place: Place, owner: Element, axis: str, current: float) -> float:
    """Where a run of letters begins along an axis: at a stated place, or moved on by `dx`, `dy`."""
    if owner.get(axis):
        return place.length(owner.get(axis), axis)
    return current + place.length(owner.get(f"d{axis}"), axis)
