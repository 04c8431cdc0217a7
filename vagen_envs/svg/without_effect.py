"""What a browser would draw of an SVG and the renderer doesn't: named, so that nobody guesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree.ElementTree import Element

import tinycss2

from vagen_envs.svg.check import local_name

_ELEMENTS = frozenset(
    {"animate", "animateMotion", "animateTransform", "set"}  # SMIL: the first frame is drawn
    | {"audio", "foreignObject", "iframe", "script", "video"}
)
_PROPERTIES: dict[str, frozenset[str] | None] = {
    # value(s) that change the picture; None: any but the initial one
    "animation": None,
    "animation-name": None,
    "backdrop-filter": None,
    "font-weight": frozenset({"bold", "bolder", "600", "700", "800", "900"}),
    "image-rendering": frozenset({"pixelated", "crisp-edges"}),
    "offset-path": None,
    "rotate": None,
    "scale": None,
    "text-shadow": None,
    "transform-box": frozenset({"fill-box", "stroke-box", "content-box"}),
    "translate": None,
    "vector-effect": frozenset({"non-scaling-stroke"}),
    "zoom": None,
}
_INITIAL = frozenset({"", "auto", "inherit", "initial", "none", "normal", "unset"})
_SHAPES = ("circle(", "ellipse(", "inset(", "path(", "polygon(", "rect(", "xywh(")
"""Basic shapes of `clip-path`, which resvg takes for no clip."""


def without_effect(root: Element) -> tuple[str, ...]:
    """The names of elements, properties and at-rules that aren't drawn as in a browser, sorted.

    Args:
        root: of the SVG as it was written, before anything is removed from it.
    """
    found: set[str] = set()
    for element in root.iter():
        name = local_name(element)
        if name in _ELEMENTS:
            found.add(f"<{name}>")
        attributes = [(key, value) for key, value in element.attrib.items() if key != "style"]
        # `rotate` is an attribute of text, `scale` one of filters: only CSS means a transform
        found |= set(_unread(attributes, but=("rotate", "scale")))
        found |= set(_unread(_declared(tinycss2.parse_blocks_contents(element.get("style", "")))))
        if name == "style":
            found |= set(_of_sheet("".join(element.itertext())))
    return tuple(sorted(found))


def _of_sheet(css: str) -> Iterator[str]:
    todo: list[Any] = tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)
    while todo:
        rule = todo.pop()
        if rule.type == "at-rule":
            yield f"@{rule.lower_at_keyword}"
        elif rule.type == "qualified-rule":
            parts = tinycss2.parse_blocks_contents(rule.content, True, True)
            todo += [part for part in parts if part.type != "declaration"]
            yield from _unread(_declared(parts))


def _declared(parts: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if part.type == "declaration":
            yield part.lower_name, tinycss2.serialize(part.value).strip()


def _unread(declared: Iterable[tuple[str, str]], but: tuple[str, ...] = ()) -> Iterator[str]:
    for name, value in declared:
        word = value.strip().lower()
        if name == "clip-path" and word.startswith(_SHAPES):
            yield f"clip-path: {word.partition('(')[0]}()"
        if name not in _PROPERTIES or name in but:
            continue
        values = _PROPERTIES[name]
        if word in values if values is not None else word not in _INITIAL:
            yield name
