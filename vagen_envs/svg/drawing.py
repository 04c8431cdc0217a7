"""Drawing an SVG with cairosvg. Runs in worker processes; the only file that touches cairosvg.

Besides the pixels it notes what was painted: each fill and stroke, with colour and place as cairo
sees them, all transforms, references and styles applied.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import cairocffi
import cairosvg.colors
import cairosvg.surface
import numpy as np
import tinycss2.color4
from cairosvg.bounding_box import calculate_bounding_box, is_non_empty_bounding_box
from cairosvg.helpers import node_format
from cairosvg.helpers import size as length
from cairosvg.parser import Tree
from cairosvg.path import draw_markers
from cairosvg.surface import PNGSurface
from cairosvg.url import parse_url

Mark = tuple[str, str, str, float, float, float, float]
"""Shape, `"filled"` or `"outlined"`, colour as `#rrggbb`; left, top, right, bottom in pixels."""

MAX_MARKS = 400
"""What a state holds; a reply may paint more."""

_SHAPES = {"rect": "rectangle", "circle": "circle", "ellipse": "ellipse", "line": "line", "polyline": "line"}


def draw(svg: str, size: int) -> tuple[bytes, list[Mark]]:
    """Draw a checked SVG on white.

    Returns:
        BGRx bytes of a `size` × `size` picture, and what was painted, in order.

    Raises:
        Exception: whatever cairosvg raises for what it can't draw.
    """
    tree = Tree(bytestring=svg.encode(), url_fetcher=_fetch_nothing)
    surface = _Surface(tree, None, 96, output_width=size, output_height=size, background_color="white")
    surface.cairo.flush()
    return bytes(surface.cairo.get_data()), surface.marks


def _fetch_nothing(url: str, *_: Any) -> bytes:
    raise ValueError(f"reading {url[:40]!r} is not allowed")


@functools.lru_cache(maxsize=1024)
def _css_colour(text: str, opacity: float = 1) -> tuple[float, float, float, float]:
    """Red, green, blue and alpha of a CSS colour; cairosvg itself knows those of SVG 1.1 only."""
    word = (text or "").strip().lower()
    if word == "rebeccapurple":  # of all names the one that came after SVG 1.1
        word = "#663399"
    if "(" not in word and not (word.startswith("#") and len(word) in (5, 9)):
        known: tuple[float, float, float, float] = cairosvg.colors.color(word, opacity)
        return known
    try:
        colour = tinycss2.color4.parse_color(word)
        red, green, blue = colour.to("srgb").coordinates
    except (AttributeError, NotImplementedError):  # no colour, or of a space that tinycss2 only parses
        raise ValueError(f"the colour {text[:40]!r} is not known; write #rrggbb") from None
    return red, green, blue, colour.alpha * opacity


def _paint_mask(surface: Any, node: Any, name: str, opacity: float) -> None:
    """Paint the current source through a mask's luminance.

    cairosvg's own goes by the mask's alpha and by where the masked element's `x` and `width` say it is,
    which groups and paths don't have.
    """
    mask = surface.masks[name]
    box = calculate_bounding_box(surface, node)
    boxed = is_non_empty_bounding_box(box)
    outer, width, height = surface.context, math.ceil(surface.width), math.ceil(surface.height)
    canvas = cairocffi.ImageSurface(cairocffi.FORMAT_ARGB32, width, height)
    surface.context = cairocffi.Context(canvas)
    surface.context.set_matrix(outer.get_matrix())
    _clip_to_mask(surface, mask, box if boxed else None)
    if mask.get("maskContentUnits") == "objectBoundingBox" and boxed:
        surface.context.translate(*box[:2])
        surface.context.scale(*box[2:])
    tag, mask.tag = mask.tag, "g"
    own = {each: mask.pop(each) for each in ("x", "y", "width", "height") if each in mask}  # not those of a group
    try:
        surface.draw(mask)
    finally:
        mask.tag, surface.context = tag, outer
        mask.update(own)
    canvas.flush()
    bgra = np.frombuffer(canvas.get_data(), np.uint8).reshape(height, canvas.get_stride() // 4, 4)
    alpha = (
        bgra[..., 3] if mask.get("mask-type") == "alpha" else bgra[..., :3] @ _LUMINANCE
    )  # colours are premultiplied
    through = np.zeros_like(bgra)
    through[..., 3] = np.rint(np.clip(alpha * opacity, 0, 255))
    layer = cairocffi.ImageSurface(
        cairocffi.FORMAT_ARGB32, width, height, memoryview(bytearray(through.tobytes())), canvas.get_stride()
    )
    outer.save()
    outer.identity_matrix()
    outer.mask_surface(layer)
    outer.restore()


_LUMINANCE = np.array([0.0722, 0.7152, 0.2126])  # of blue, green and red (SVG 1.1, section 14.4)


def _clip_to_mask(surface: Any, mask: Any, box: tuple[float, float, float, float] | None) -> None:
    if mask.get("maskUnits") == "userSpaceOnUse":
        words = (mask.get("x", "-10%"), mask.get("y", "-10%"), mask.get("width", "120%"), mask.get("height", "120%"))
        place = [length(surface, word, axis) for word, axis in zip(words, "xyxy", strict=True)]
    elif box is not None:
        x, y, width, height = (
            length(surface, mask.get(side, default), 1)
            for side, default in (("x", "-10%"), ("y", "-10%"), ("width", "120%"), ("height", "120%"))
        )
        place = [box[0] + x * box[2], box[1] + y * box[3], width * box[2], height * box[3]]
    else:
        return
    surface.context.rectangle(*place)
    surface.context.clip()


def _draw_markers(surface: Any, node: Any) -> None:
    """Draw a path's markers, but none that isn't there or has nothing in it, and none on a single point.

    cairosvg's own raises for these; browsers draw the path.
    """
    vertices = getattr(node, "vertices", None)
    if not vertices or len(vertices) < 2:
        return
    for name in [name for name in node if name == "marker" or name.startswith("marker-")]:
        marker = surface.markers.get(parse_url(node[name]).fragment)
        if marker is None or not (
            node_format(surface, marker)[2] or is_non_empty_bounding_box(calculate_bounding_box(surface, marker))
        ):
            node[name] = "none"
    draw_markers(surface, node)


cairosvg.surface.color = _css_colour
cairosvg.surface.draw_markers = _draw_markers
cairosvg.surface.paint_mask = _paint_mask


class _Surface(PNGSurface):
    """cairosvg's surface with a context that takes notes."""

    context: Any

    def set_context_size(self, width: float, height: float, viewbox: Any, tree: Any) -> None:
        if not hasattr(self, "marks"):  # nested viewports come by here too
            self.marks: list[Mark] = []
            self.context = _Context(self.cairo)
            self.context.surface = self
        super().set_context_size(width, height, viewbox, tree)


class _Context(cairocffi.Context):
    surface: _Surface

    def fill_preserve(self) -> None:
        self._note("filled", self.fill_extents())
        super().fill_preserve()

    def stroke(self) -> None:
        self._note("outlined", self.stroke_extents())
        super().stroke()

    def show_text(self, text: str) -> None:
        x, y = self.get_current_point()
        left, top, width, height, *_ = self.text_extents(text)
        self._note("filled", (x + left, y + top, x + left + width, y + top + height))
        super().show_text(text)

    def _note(self, how: str, box: tuple[float, float, float, float]) -> None:
        marks = self.surface.marks
        if len(marks) >= MAX_MARKS or (box[0] >= box[2] and box[1] >= box[3]):
            return
        colour = _colour(self.get_source())
        if colour is None:
            return
        corners = [self.user_to_device(x, y) for x in box[::2] for y in box[1::2]]
        size = self.surface.width
        left, right = (min(max(edge, 0), size) for edge in _ends(corner[0] for corner in corners))
        top, bottom = (min(max(edge, 0), size) for edge in _ends(corner[1] for corner in corners))
        if left < right or top < bottom:
            marks.append((self._shape(), how, colour, left, top, right, bottom))

    def _shape(self) -> str:
        tag = self.surface.parent_node.tag
        if tag in ("text", "tspan", "textPath", "a"):
            return "text"
        return _SHAPES.get(tag) or shape_of(self.copy_path())


def _ends(numbers: Any) -> tuple[float, float]:
    values = list(numbers)
    return min(values), max(values)


def _colour(source: Any) -> str | None:
    """`#rrggbb` of a source as it looks on white, a gradient's stops averaged; None if it can't be seen."""
    if isinstance(source, cairocffi.SolidPattern):
        stops = [source.get_rgba()]
    elif isinstance(source, cairocffi.Gradient):
        stops = [stop[1:] for stop in source.get_color_stops()]
    else:
        return "#808080"  # a pattern
    if not stops or max(stop[3] for stop in stops) < 1 / 255:
        return None
    mixed = [sum(stop[i] * stop[3] + 1 - stop[3] for stop in stops) / len(stops) for i in range(3)]
    return "#" + "".join(f"{round(255 * min(max(value, 0), 1)):02x}" for value in mixed)


def shape_of(path: Any) -> str:
    """What a path looks like: circle, ellipse, rectangle (maybe rounded), triangle, line or just shape."""
    outlines: list[list[tuple[float, float]]] = []
    for kind, points in path:
        if kind == cairocffi.PATH_MOVE_TO:  # also after each closing of an outline
            outlines.append([points])
        elif kind == cairocffi.PATH_LINE_TO and points != outlines[-1][-1]:
            outlines[-1].append(points)
        elif kind == cairocffi.PATH_CURVE_TO:
            x0, y0 = outlines[-1][-1]
            x1, y1, x2, y2, x3, y3 = points
            outlines[-1] += [((x0 + 3 * (x1 + x2) + x3) / 8, (y0 + 3 * (y1 + y2) + y3) / 8), (x3, y3)]
    outlines = [outline for outline in outlines if len(outline) > 1]
    if len(outlines) != 1:
        return "shape"
    corners = outlines[0]
    length = math.dist(*zip(*(_ends(values) for values in zip(*corners, strict=True)), strict=True))
    # A path that ends where it began, but for rounded decimals, has no corner more.
    if math.dist(corners[0], corners[-1]) < 0.01 * length:
        corners.pop()
    if len(corners) < 3:
        return "line"
    left, right = _ends(x for x, _ in corners)
    top, bottom = _ends(y for _, y in corners)
    width, height = right - left, bottom - top
    if min(width, height) <= 0:
        return "line"
    if len(corners) == 3:
        return "triangle"
    # A circle fills 0.785 of its box; a square whose corners are rounded by a quarter of its side passes, by 0.3 not.
    if abs(_area(corners)) > 0.9 * width * height:
        return "rectangle"
    centre_x, centre_y = (left + right) / 2, (top + bottom) / 2
    radii = [math.hypot((x - centre_x) / width, (y - centre_y) / height) for x, y in corners]
    # Within 3 % of an ellipse: a regular octagon passes, a hexagon doesn't.
    if len(corners) >= 6 and max(radii) < 0.515 and min(radii) > 0.485:
        return "circle" if 0.95 < width / height < 1.05 else "ellipse"
    return "shape"


def _area(corners: list[tuple[float, float]]) -> float:
    pairs = itertools.pairwise([*corners, corners[0]])
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in pairs) / 2
