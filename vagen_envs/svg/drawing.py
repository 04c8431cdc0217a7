"""Draw a cleaned SVG on white, letter-boxed in a square; runs in worker processes.

`resvg` is the default. `cairosvg` is the paper's renderer; it knows less of SVG and is drawn with as it is.
"""

from __future__ import annotations

import functools
import io
from typing import Any, Literal, get_args
from xml.etree.ElementTree import Element, tostring

from PIL import Image, ImageFont

RendererName = Literal["resvg", "cairosvg"]
RENDERERS: tuple[str, ...] = get_args(RendererName)

_AS_IT_IS = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)  # an affine transform, row by row


def draw(root: Element, size: int, renderer: str) -> Image.Image:
    """An RGB picture of `size` × `size` pixels.

    Args:
        root: of a cleaned SVG; its width and height are replaced by the letter-box's.
        size: pixels a side.
        renderer: one of `RENDERERS`.

    Raises:
        BaseException: whatever the renderer raises for an SVG that it can't draw.
    """
    from vagen_envs.svg.marks import letterbox  # here: it needs libraries of the extra `svg`

    width, height = letterbox(root, size)
    root.set("width", str(width))
    root.set("height", str(height))
    svg = tostring(root, encoding="unicode")
    if renderer == "resvg":
        from resvg import render, usvg

        png = render(usvg.Tree.from_str(svg, _options()), _AS_IT_IS)
    else:
        import cairosvg

        png = cairosvg.svg2png(svg.encode(), output_width=width, output_height=height)  # reads data: URLs only
    with Image.open(io.BytesIO(png)) as image:
        picture = Image.new("RGB", (size, size), "white")
        # Not drawn on white: an element blends with the SVG alone, as in a browser's <img>.
        picture.paste(image, ((size - image.width) // 2, (size - image.height) // 2), image)
    return picture


@functools.cache
def _options() -> Any:
    """All text is drawn in Aileron, which Pillow brings, so that pictures are the same on every machine.

    It is called by resvg's default family, which stands in for all families that aren't there.
    """
    from fontTools.ttLib import TTFont
    from resvg import usvg

    options = usvg.Options.default()
    options.dpi, options.font_size = 96.0, 16.0
    loaded = ImageFont.load_default(16)
    font = TTFont(loaded.path)  # type: ignore[union-attr]
    for record in font["name"].names:
        if record.nameID == 1:
            record.string = options.font_family
    renamed = io.BytesIO()
    font.save(renamed)
    options.load_font_data(renamed.getvalue())
    return options
