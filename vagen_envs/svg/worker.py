"""A process that draws one SVG after the other within limits: `python -m … DESCRIPTOR SECONDS
RENDERER`.

The kernel ends it when a drawing takes too much CPU time (a timer whose default action kills, also
within C code) or too much memory. Once warm, it refuses to open files, sockets or processes.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import resource
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any
from xml.etree.ElementTree import Element, tostring

import numpy as np
from fontTools.ttLib import TTFont
from PIL import Image, ImageFont
from resvg import render, usvg

from vagen_envs.errors import SvgError
from vagen_envs.svg.check import clean, parse
from vagen_envs.svg.marks import letterbox, marks_of
from vagen_envs.svg.renderer import Drawing
from vagen_envs.svg.styles import background_of, resolve
from vagen_envs.svg.without_effect import without_effect
from vagen_envs.workers import answer_calls

MEMORY = 1 << 30
"""Bytes of this process's address space."""

WARM_UP = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">
<linearGradient id="g"><stop offset="0" stop-color="red"/></linearGradient>
<style>.a{fill:hsl(9 9% 9% / 9%)}</style><path class="a"
d="M0 0C1 1 2 2 3 3A1 1 0 0 1 5 5Q1 1 3 3" stroke="oklch(1 0 0)"/>
<rect width="3" height="3" fill="url(#g)"/>
<text x="1" y="5">ab<tspan>c</tspan></text>
<image width="1" height="1" href="data:image/svg+xml,&lt;svg/&gt;"/></svg>"""
"""Uses every module once, so that nothing has to be imported afterwards."""

_AS_IT_IS = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)  # an affine transform, row by row
_FORBIDDEN = (
    "open",
    "socket.",
    "subprocess.",
    "os.",
    "shutil.",
    "ftplib.",
    "urllib.",
    "http.",
    "ctypes.",
    "import",
)
_IN_WORDS = {
    "MemoryError": "it takes too much memory",
    "RecursionError": "it is nested too deep",
    "PanicException": "the renderer rejects it",
}


def draw(root: Element, size: int, renderer: str) -> Image.Image:
    """A cleaned SVG with resolved styles on white, letter-boxed in `size` × `size` pixels, RGB; it
    gets the letter-box's width and height.

    Raises:
        BaseException: whatever the renderer raises for an SVG that it can't draw.
    """
    width, height = letterbox(root, size)
    root.attrib.update(width=str(width), height=str(height))
    svg = tostring(root, encoding="unicode")
    if renderer == "resvg":
        png = render(usvg.Tree.from_str(svg, _options()), _AS_IT_IS)
    else:
        import cairosvg

        # Reads data: URLs only.
        png = cairosvg.svg2png(svg.encode(), output_width=width, output_height=height)
    with Image.open(io.BytesIO(png)) as image:
        picture = Image.new("RGB", (size, size), "white")
        corner = ((size - image.width) // 2, (size - image.height) // 2)
        if background := background_of(root):
            red, green, blue, alpha = [round(255 * min(max(c, 0.0), 1.0)) for c in background]
            opaque = Image.new("L", image.size, alpha)
            picture.paste(
                (red, green, blue),
                (*corner, corner[0] + image.width, corner[1] + image.height),
                opaque,
            )
        # Not drawn on white: an element blends with the SVG alone, as in a browser's <img>.
        picture.paste(image, corner, image)
    return picture


@functools.cache
def _options() -> Any:
    """All text is drawn in Aileron, which Pillow brings, so that pictures are the same on every
    machine.

    It is called by resvg's default family, which stands in for all families that aren't there.
    """
    options = usvg.Options.default()
    options.dpi = 96.0
    options.font_size = 16.0
    font = TTFont(ImageFont.load_default(16).path)  # type: ignore[union-attr]
    for record in font["name"].names:
        if record.nameID == 1:
            record.string = options.font_family
    renamed = io.BytesIO()
    font.save(renamed)
    options.load_font_data(renamed.getvalue())
    return options


def answer(text: str, size: int, renderer: str) -> Drawing:
    """Draw a text, whatever it is."""
    try:
        root = clean(text)
        styles = resolve(root)
        unread = without_effect(parse(text), root, styles)
        marks = marks_of(root, styles, size)
        return Drawing(np.asarray(draw(root, size, renderer)), None, tuple(marks), unread)
    except SvgError as error:
        problem = str(error)
    except BaseException as error:  # a panic in Rust is no Exception
        kind = type(error).__name__
        problem = f"the SVG can't be drawn: {_IN_WORDS.get(kind) or f'{kind}: {error}'[:200]}"
    return Drawing(None, problem)


def limit(memory: int) -> None:
    """Bound this process's memory, in bytes, and let it write no files."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def forbid_the_outside() -> None:
    """From now on opening anything raises PermissionError. It can't be taken back."""

    def refuse(event: str, _: tuple[Any, ...]) -> None:
        # `builtins.id` comes a hundred times a drawing.
        if event != "builtins.id" and event.startswith(_FORBIDDEN):
            raise PermissionError(f"a picture may not do this ({event})")

    sys.addaudithook(refuse)


def main(connection: Connection, seconds: float, renderer: str) -> None:
    """Warm up, give up all rights, and serve."""

    def warm_up() -> None:
        Image.init()  # all formats, while files may be opened
        if problem := answer(WARM_UP, 32, renderer).problem:
            raise RuntimeError(f"it does not work here ({problem}); reinstall vagen-envs[svg]")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a panic in Rust writes its backtrace there
        limit(MEMORY)
        forbid_the_outside()

    def timed(text: str, size: int) -> Drawing:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            return answer(text, size, renderer)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    with contextlib.suppress(EOFError, OSError):
        answer_calls(connection, timed, warm_up)
    os._exit(0)


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), float(sys.argv[2]), sys.argv[3])
