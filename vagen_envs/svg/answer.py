"""What an answer says here: one SVG, whatever stands around it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from vagen_envs.replies import Action, Refused
from vagen_envs.seeding import HashStream


class SvgText:
    """From the first `<svg`, or its prolog, to the last `</svg>` of an answer; a code fence around it is dropped.

    An SVG in a JSON string is unescaped.
    """

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        first = piece.find("<svg")
        prologs = (piece.find(start, 0, max(first, 0)) for start in ("<?xml", "<!DOCTYPE"))
        first = min([first, *(place for place in prologs if place >= 0)])
        if first < 0:
            return Refused("unknown_action", "the answer has no <svg>…</svg>")
        last = max(piece.rfind(closing) + len(closing) for closing in ("</svg>", "<\\/svg>"))
        svg = piece[first:last] if last > first + 6 else piece[first:]
        if '\\"' in svg or "<\\/" in svg:
            with contextlib.suppress(ValueError):
                svg = json.loads(f'"{svg}"', strict=False)
        return Action("svg", (), svg, start, end)

    def find_separator(self, text: str, separator: str, start: int, end: int) -> int:
        """Where the next action begins, -1 if none does: a separator within an SVG is a part of it."""
        at = text.find(separator, start, end)
        opened = text.find("<svg", start, at) if at >= 0 else -1
        if opened >= 0 and (closed := text.find("</svg>", opened, end)) > at:
            return self.find_separator(text, separator, closed, end)
        return at

    def summary(self) -> str:
        return '<svg viewBox="0 0 100 100" xmlns="http://www.w3.org/2000/svg">…</svg>'

    def random(self, stream: HashStream, count: int) -> Sequence[str]:
        """Drawings of one to six shapes each."""
        return [_random_svg(stream) for _ in range(count)]


def _random_svg(stream: HashStream) -> str:
    shapes = []
    for _ in range(1 + stream.below(6)):
        x, y, width, height = (5 + stream.below(90) for _ in range(4))
        colour = f"#{stream.below(1 << 24):06x}"
        shapes.append(
            stream.choice(
                (
                    f'<circle cx="{x}" cy="{y}" r="{width // 2}" fill="{colour}"/>',
                    f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"/>',
                    f'<path d="M{x} {y}L{width} {height}L{height} {x}Z" fill="{colour}"/>',
                )
            )
        )
    return f'<svg viewBox="0 0 100 100" xmlns="http://www.w3.org/2000/svg">{"".join(shapes)}</svg>'
