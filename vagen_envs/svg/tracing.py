"""Tracing a picture into SVG with vtracer: a baseline that looks at pixels only."""

from __future__ import annotations

import io
import re

from PIL import Image

from vagen_envs.errors import MissingExtraError
from vagen_envs.pictures import Pixels

MAX_LENGTH = 12_000
"""Characters of a traced SVG, so that a reply has room for it."""


def trace(pixels: Pixels) -> str:
    """An SVG that looks like the picture, uint8 of shape (height, width, 3).

    Coarser settings are tried until it has at most `MAX_LENGTH` characters; the coarsest is taken as it is.

    Raises:
        MissingExtraError: vtracer isn't installed.
    """
    try:
        import vtracer
    except ImportError as error:
        raise MissingExtraError("the tracing agent", "svg", "vtracer") from error
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    height, width = pixels.shape[:2]
    svg = ""
    for speckle, difference, precision in ((4, 16, 6), (8, 32, 5), (16, 48, 4), (32, 64, 3), (64, 96, 2)):
        traced: str = vtracer.convert_raw_image_to_svg(
            buffer.getvalue(),
            img_format="png",
            filter_speckle=speckle,
            layer_difference=difference,
            color_precision=precision,
            path_precision=1,
        )
        body = traced[traced.index("<svg") :]
        svg = re.sub(r"<svg[^>]*>", f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">', body)
        svg = re.sub(r"\s+", " ", svg).strip()
        if len(svg) <= MAX_LENGTH:
            return svg
    return svg
