"""The letters of an SVG's texts: their runs, and the boxes of their ink."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from vagen_envs.svg.check import local_name


def runs_of(element: Element) -> Iterator[tuple[str, Element]]:
    """The letters of a text and of the spans in it, with the elements that they stand in."""
    if words := " ".join((element.text or "").split()):
        yield words, element
    for child in element:
        if local_name(child) in ("tspan", "a", "textPath"):
            yield from runs_of(child)


FONT_SIZE = 64


@functools.lru_cache(maxsize=256)
def box_of(words: str) -> tuple[float, float, float, float, float]:
    """Left, top, right and bottom of the ink of words at `FONT_SIZE`, from the start of their
    line; the advance.
    """
    from PIL import ImageFont

    words = words[:1000]  # Pillow raises for a million
    font = ImageFont.load_default(FONT_SIZE)
    mask, (x, y) = font.getmask2(words, anchor="ls")  # type: ignore[union-attr]
    left, top, right, bottom = mask.getbbox() or (0, 0, 0, 0)
    return left + x, top + y, right + x, bottom + y, font.getlength(words)
