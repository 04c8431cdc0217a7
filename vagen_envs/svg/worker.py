"""A process that draws, within limits, one SVG after the other.

    python -m vagen_envs.svg.worker SECONDS BYTES DESCRIPTOR SIDE RENDERER

Reads requests from standard input and writes replies to standard output, until its input ends; so
it ends with the process that started it, however that ends. The kernel ends it when a drawing takes
too much CPU time (a timer whose default action kills, also within C code) or too much memory. Once warm, it
refuses to open files, sockets or processes.

Texts and pixels go through memory that both sides share: the file of that descriptor, or memory of its own
for -1, of SIDE × SIDE × 4 bytes. Request: u32 length of the text in UTF-8, u16 size in pixels. Reply: u32
length, JSON `{"problem", "marks"}`; the pixels are there if there is no problem.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import resource
import signal
import struct
import sys
import tempfile
from typing import Any, BinaryIO

from PIL import Image

from vagen_envs.svg.check import Refused, clean
from vagen_envs.svg.drawing import draw
from vagen_envs.svg.marks import font_file, marks_of
from vagen_envs.svg.styles import resolve, sheet_styles

REQUEST = struct.Struct("<IH")
REPLY = struct.Struct("<I")

WARM_UP = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><linearGradient id="g"><stop offset="0"
stop-color="red"/></linearGradient><style>.a{fill:hsl(9 9% 9% / 9%)}</style><path class="a"
d="M0 0C1 1 2 2 3 3A1 1 0 0 1 5 5Q1 1 3 3" stroke="oklch(1 0 0)"/><rect width="3" height="3" fill="url(#g)"/>
<text x="1" y="5">ab<tspan>c</tspan></text><image width="1" height="1" href="data:image/svg+xml,&lt;svg/&gt;"/></svg>"""
"""Uses every module once, so that nothing has to be imported afterwards."""

_FORBIDDEN = ("open", "socket.", "subprocess.", "os.", "shutil.", "ftplib.", "urllib.", "http.", "ctypes.dlopen",
              "import")  # fmt: skip
_IN_WORDS = {"MemoryError": "it takes too much memory", "RecursionError": "it is nested too deep"}


def limit(memory: int) -> None:
    """Bound this process's memory, in bytes, and let it write no files."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def forbid_the_outside() -> None:
    """From now on opening anything raises PermissionError. It can't be taken back."""

    def refuse(event: str, _: tuple[Any, ...]) -> None:
        if event != "builtins.id" and event.startswith(_FORBIDDEN):  # that one comes a hundred times a drawing
            raise PermissionError(f"a picture may not do this ({event})")

    sys.addaudithook(refuse)


def answer(text: str, size: int, renderer: str, font: str) -> tuple[dict[str, Any], bytes, bool]:
    """The reply's header and pixels, and whether the process should end because its memory is spent."""
    try:
        root = clean(text)
        sheets = sheet_styles(root)
        resolve(root, sheets)
        marks = marks_of(root, sheets, size)
        pixels = draw(root, size, renderer, font).tobytes()
    except Refused as refused:
        return {"problem": str(refused), "marks": []}, b"", False
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        kind = type(error).__name__
        words = _IN_WORDS.get(kind) or f"{kind}: {error}"[:200]
        return {"problem": f"the SVG can't be drawn: {words}", "marks": []}, b"", isinstance(error, MemoryError)
    return {"problem": None, "marks": marks}, pixels, False


def serve(source: BinaryIO, sink: BinaryIO, shared: mmap.mmap, seconds: float, renderer: str, font: str) -> None:
    """Answer requests until the source ends."""
    while len(head := source.read(REQUEST.size)) == REQUEST.size:
        length, size = REQUEST.unpack(head)
        text = shared[:length].decode("utf-8", "surrogatepass")
        signal.setitimer(signal.ITIMER_PROF, seconds)
        header, pixels, spent = answer(text, size, renderer, font)
        signal.setitimer(signal.ITIMER_PROF, 0)
        shared[: len(pixels)] = pixels
        words = json.dumps(header).encode()
        sink.write(REPLY.pack(len(words)) + words)
        sink.flush()
        if spent:
            return


def main() -> None:
    """Take the channel for ourselves, so that nothing else can write into it, and serve."""
    seconds, memory, descriptor, side, renderer = float(sys.argv[1]), *map(int, sys.argv[2:5]), sys.argv[5]
    shared = mmap.mmap(descriptor, 4 * side * side)
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = sys.stdin.buffer
    fonts = tempfile.TemporaryFile()  # noqa: SIM115 - resvg reads fonts from files; this one ends with us
    fonts.write(font_file())
    fonts.flush()
    font = f"/dev/fd/{fonts.fileno()}"
    Image.init()  # all formats, while files may be opened
    problem = answer(WARM_UP, 32, renderer, font)[0]["problem"]
    limit(memory)
    forbid_the_outside()
    words = json.dumps({"problem": problem, "marks": []}).encode()
    sink.write(REPLY.pack(len(words)) + words)
    sink.flush()
    with contextlib.suppress(BrokenPipeError):
        serve(source, sink, shared, seconds, renderer, font)
    sink.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
