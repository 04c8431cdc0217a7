"""SVG answers: their action grammar, and answers without a model: random shapes and a picture's
traced pixels.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Sequence

from PIL import Image

from vagen_envs.extras import need
from vagen_envs.pictures import Pixels
from vagen_envs.replies import Action, Refused
from vagen_envs.seeding import HashStream

MOST_TRACED = 12_000
"""Characters of a traced SVG, so that a reply has room for it."""

_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|(?P<empty><svg\b[^<>]*/>)|(?P<open><svg\b)|(?P<close><\\?/svg\s*>)",
    re.DOTALL,
)
_PLACEHOLDER = re.compile(r"<svg[^<>]*>[\s.…]*[.…][\s.…]*</svg\s*>")
_ENTITIES = re.compile(r"<!DOCTYPE\s[^<>\[]*\[.*?\]\s*>", re.DOTALL)


class SvgText:
    """The last whole `<svg>…</svg>` of an answer; prolog, code fences and words around it are
    dropped.

    A document type that declares entities stays, since the SVG may use them. An SVG in a JSON
    string is unescaped.
    """

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        first = piece.find("<svg")
        if first < 0:
            return Refused("unknown_action", "the answer has no <svg>…</svg>")
        first, last = _last_document(piece) or (first, len(piece))
        if _PLACEHOLDER.fullmatch(piece, first, last):
            return Refused("unknown_action", "the answer repeats <svg>…</svg> without a drawing")
        declared = _ENTITIES.match(piece, max(0, piece.rfind("<!DOCTYPE", 0, first)), first)
        svg = (declared[0] if declared else "") + piece[first:last]
        if '\\"' in svg or "<\\/" in svg:
            with contextlib.suppress(ValueError):
                svg = json.loads(f'"{svg}"', strict=False)
        return Action("svg", (), svg, start, end)

    def find_separator(self, text: str, separator: str, start: int, end: int) -> int:
        """Where the next action begins, -1 if none does: a separator within an SVG is a part of
        it.
        """
        while (at := text.find(separator, start, end)) >= 0:
            opened = text.find("<svg", start, at)
            closed = text.find("</svg>", opened, end) if opened >= 0 else -1
            if closed < at:
                break
            start = closed
        return at

    def summary(self) -> str:
        return '<svg viewBox="0 0 100 100" xmlns="http://www.w3.org/2000/svg">…</svg>'

    def random(self, stream: HashStream, count: int) -> Sequence[str]:
        """Drawings of one to six shapes each."""
        return [_random_drawing(stream) for _ in range(count)]


def _random_drawing(stream: HashStream) -> str:
    shapes = [_random_shape(stream) for _ in range(1 + stream.below(6))]
    head = '<svg viewBox="0 0 100 100" xmlns="http://www.w3.org/2000/svg">'
    return f"{head}{''.join(shapes)}</svg>"


def _last_document(text: str) -> tuple[int, int] | None:
    """Start and end of the last `<svg>` that is closed; it may contain others."""
    found = None
    opened = list[int]()
    for match in _TAG.finditer(text):
        if match["close"] and opened:
            found = opened.pop(), match.end()
        elif match["open"]:
            opened.append(match.start())
        elif match["empty"] and not opened:
            found = match.span()
    return found


def _random_shape(stream: HashStream) -> str:
    x, y, width, height = (5 + stream.below(90) for _ in range(4))
    colour = f"#{stream.below(1 << 24):06x}"
    shapes = (
        f'circle cx="{x}" cy="{y}" r="{width // 2}"',
        f'rect x="{x}" y="{y}" width="{width}" height="{height}"',
        f'path d="M{x} {y}L{width} {height}L{height} {x}Z"',
    )
    return f'<{stream.choice(shapes)} fill="{colour}"/>'


def trace(pixels: Pixels) -> str:
    """An SVG that looks like the picture, uint8 of shape (height, width, 3), by vtracer: it sees
    pixels only.

    Coarser settings are tried until it has at most `MOST_TRACED` characters; the coarsest is taken
    as it is.

    Raises:
        MissingExtraError: vtracer isn't installed.
    """
    need("the tracing agent", "svg", "vtracer")
    import vtracer

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    view_box = f"0 0 {pixels.shape[1]} {pixels.shape[0]}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view_box}">'
    svg = ""
    for speckle, difference, precision in (
        (4, 16, 6),
        (8, 32, 5),
        (16, 48, 4),
        (32, 64, 3),
        (64, 96, 2),
    ):
        traced: str = vtracer.convert_raw_image_to_svg(
            buffer.getvalue(),
            img_format="png",
            filter_speckle=speckle,
            layer_difference=difference,
            color_precision=precision,
            path_precision=1,
        )
        svg = " ".join(re.sub(r"<svg[^>]*>", head, traced[traced.index("<svg") :]).split())
        if len(svg) <= MOST_TRACED:
            break
    return svg
