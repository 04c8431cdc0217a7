"""What an answer says here: one SVG, whatever stands around it."""

from __future__ import annotations

from vagen_envs.actions import Action, Refused


class SvgText:
    """From the first `<svg`, or its prolog, to the last `</svg>` of an answer; a code fence around it is dropped."""

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        first = piece.find("<svg")
        prologs = (piece.find(start, 0, max(first, 0)) for start in ("<?xml", "<!DOCTYPE"))
        first = min([first, *(place for place in prologs if place >= 0)])
        if first < 0:
            return Refused("unknown_action", "the answer has no <svg>…</svg>")
        last = piece.rfind("</svg>")
        svg = piece[first : last + 6] if last > first else piece[first:]
        return Action("svg", (), svg, start, end)

    def summary(self) -> str:
        return '<svg viewBox="0 0 100 100" xmlns="http://www.w3.org/2000/svg">…</svg>'
