"""A process that draws, within limits, one SVG after the other.

    python -m vagen_envs.svg.worker SECONDS BYTES DESCRIPTOR SIDE

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
from typing import Any, BinaryIO

from vagen_envs.svg.check import Refused, check
from vagen_envs.svg.drawing import draw

REQUEST = struct.Struct("<IH")
REPLY = struct.Struct("<I")

WARM_UP = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><defs><linearGradient id="g"><stop offset="0"
stop-color="red"/></linearGradient><radialGradient id="r"><stop offset="1"/></radialGradient><clipPath
id="c"> <rect width="4" height="4"/></clipPath><mask id="m"><rect width="9" height="9"
fill="#fff"/></mask><pattern id="p" width="2" height="2" patternUnits="userSpaceOnUse"><circle
r="1"/></pattern><marker
id="k" viewBox="0 0 2 2"><path d="M0 0h1"/></marker><symbol id="s" viewBox="0 0 1 1"> <path d="M0
0h1v1z"/></symbol></defs><style>.a{fill:blue}</style><g transform="rotate(3) translate(1)"
opacity=".5"><path class="a" d="M0 0C1 1 2 2 3 3A1 1 0 0 1 5 5Q1 1 3 3" stroke="hsl(9,9%,9%)"
marker-end="url(#k)" style="stroke-dasharray:1"/></g><rect width="3" height="3" rx="1" fill="url(#g)"
clip-path="url(#c)"/><ellipse rx="2" ry="1" fill="url(#r)" mask="url(#m)"/> <polygon points="0,0 1,1 2,0"
fill="url(#p)"/><use href="#s" width="3" height="3" /><g mask="url(#m)"><circle r="1"
fill="hsl(9 9% 9% / 9%)"/></g><text x="1" y="5" font-family="serif">ab<tspan>c</tspan></text>
<line x2="4" y2="4" stroke="rgb(1,2,3)"/></svg>"""
"""Uses everything once, so that nothing has to be imported afterwards."""

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


def answer(text: str, size: int) -> tuple[dict[str, Any], bytes, bool]:
    """The reply's header and pixels, and whether the process should end because its memory is spent."""
    try:
        pixels, marks = draw(check(text), size)
    except Refused as refused:
        return {"problem": str(refused), "marks": []}, b"", False
    except Exception as error:
        kind = type(error).__name__
        words = _IN_WORDS.get(kind) or f"{kind}: {error}"[:200]
        return {"problem": f"the SVG can't be drawn: {words}", "marks": []}, b"", isinstance(error, MemoryError)
    return {"problem": None, "marks": marks}, pixels, False


def serve(source: BinaryIO, sink: BinaryIO, shared: mmap.mmap, seconds: float) -> None:
    """Answer requests until the source ends."""
    while len(head := source.read(REQUEST.size)) == REQUEST.size:
        length, size = REQUEST.unpack(head)
        text = shared[:length].decode("utf-8", "surrogatepass")
        signal.setitimer(signal.ITIMER_PROF, seconds)
        header, pixels, spent = answer(text, size)
        signal.setitimer(signal.ITIMER_PROF, 0)
        shared[: len(pixels)] = pixels
        words = json.dumps(header).encode()
        sink.write(REPLY.pack(len(words)) + words)
        sink.flush()
        if spent:
            return


def main() -> None:
    """Take the channel for ourselves, so that nothing else can write into it, and serve."""
    seconds, memory, descriptor, side = float(sys.argv[1]), *map(int, sys.argv[2:])
    shared = mmap.mmap(descriptor, 4 * side * side)
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = sys.stdin.buffer
    problem = answer(WARM_UP, 32)[0]["problem"]
    limit(memory)
    forbid_the_outside()
    words = json.dumps({"problem": problem, "marks": []}).encode()
    sink.write(REPLY.pack(len(words)) + words)
    sink.flush()
    with contextlib.suppress(BrokenPipeError):
        serve(source, sink, shared, seconds)
    sink.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
