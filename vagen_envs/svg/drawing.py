"""Draw a cleaned SVG on white, letter-boxed in a square; runs in worker processes.

`resvg` is the default. `cairosvg` is the paper's renderer; it knows less of SVG and is drawn with as it is.
"""

from __future__ import annotations

import io
from typing import Any, Literal, get_args
from xml.etree.ElementTree import Element, tostring

from PIL import Image

RendererName = Literal["resvg", "cairosvg"]
RENDERERS: tuple[str, ...] = get_args(RendererName)

FONT = "Aileron"
_FAMILIES = ("font_family", "serif_family", "sans_serif_family", "cursive_family", "fantasy_family", "monospace_family")


def draw(root: Element, size: int, renderer: str, font: str) -> Image.Image:
    """An RGB picture of `size` × `size` pixels.

    Args:
        root: of a cleaned SVG; its width and height are replaced by the letter-box's.
        size: pixels a side.
        renderer: one of `RENDERERS`.
        font: path of the file that resvg draws all text with.

    Raises:
        Exception: whatever the renderer raises for what it can't draw.
    """
    from vagen_envs.svg.marks import letterbox  # here: it needs libraries of the extra `svg`

    width, height = letterbox(root, size)
    root.set("width", str(width))
    root.set("height", str(height))
    svg = tostring(root, encoding="unicode")
    png = _resvg(svg, font) if renderer == "resvg" else _cairosvg(svg, width, height)
    with Image.open(io.BytesIO(png)) as image:
        picture = Image.new("RGB", (size, size), "white")
        # Not drawn on white: an element blends with the SVG alone, as in a browser's <img>.
        picture.paste(image, ((size - image.width) // 2, (size - image.height) // 2), image)
    return picture


def _resvg(svg: str, font: str) -> bytes:
    import resvg_py

    families: dict[str, Any] = dict.fromkeys(_FAMILIES, FONT)
    png: bytes = resvg_py.svg_to_bytes(
        svg_string=svg,
        dpi=96,
        languages=["en"],
        skip_system_fonts=True,  # which a machine has is no part of a level
        font_files=[font] if "<text" in svg else None,
        **families,
    )
    return png


def _cairosvg(svg: str, width: int, height: int) -> bytes:
    import cairosvg

    png: bytes = cairosvg.svg2png(svg.encode(), output_width=width, output_height=height)  # reads data: URLs only
    return png
