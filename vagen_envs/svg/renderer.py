"""Draw any text as SVG, safely, in a pool of worker processes with limits of CPU time and
memory.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from vagen_envs.errors import RendererError
from vagen_envs.extras import need
from vagen_envs.pictures import Pixels
from vagen_envs.workers import Worker, WorkerDied

RendererName = Literal["resvg", "cairosvg"]

SECONDS = 1.0
"""CPU time for one drawing, some 300 times what an icon takes. On a busy machine it is several
seconds by the clock.
"""
MAX_SIZE = 1024
"""Pixels a side of a drawing."""

_QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
"""A pool of threads has stacks that count as memory; a panic's backtrace takes longer than most
drawings.
"""
_TEXTS_FAULT = (signal.SIGPROF, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
"""Time, memory or the stack is spent. Other signals come from outside."""
_TRIES = 4  # something else than the text may have ended the workers before the last


@dataclass(frozen=True, slots=True)
class Drawing:
    """The picture of an SVG, or the problem that prevents it.

    Attributes:
        pixels: uint8 of shape (size, size, 3), on white; `None` if it could not be drawn.
        problem: why not, in words for its author; `None` if it could be.
        marks: painted elements in order: shape, how, colour, left, top, right, bottom in pixels.
        without_effect: names of what a browser would draw and this doesn't.
    """

    pixels: Pixels | None
    problem: str | None
    marks: tuple[tuple[str, str, str, float, float, float, float], ...] = ()
    without_effect: tuple[str, ...] = ()


class Renderer:
    """Draws SVGs in worker processes; safe to use from many threads and after a fork.

    Args:
        workers: most processes at a time; they are started when needed.
        seconds: of CPU time, for one drawing.
        patience: seconds by the clock beyond that, until a process without an answer is replaced.
        renderer: `resvg`, or `cairosvg`, the paper's.
    """

    def __init__(
        self,
        workers: int | None = None,
        seconds: float = SECONDS,
        patience: float = 60.0,
        renderer: RendererName = "resvg",
    ) -> None:
        _check_that_it_works(renderer)
        self._most = workers or max(1, min(8, os.cpu_count() or 1))
        self._seconds = seconds
        command = ("SVG renderer", "vagen_envs.svg.worker", str(seconds), renderer)
        self._start = functools.partial(Worker, *command, timeout=seconds + patience, **_QUIET)
        self._begin()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._begin)  # the parent's processes are the parent's

    def _begin(self) -> None:
        self._free = threading.Semaphore(self._most)
        self._idle: list[Worker] = []  # the last one that was used is the first to be used again

    def draw(self, text: str, size: int = 224) -> Drawing:
        """Draw a text as SVG on white, `size` × `size` pixels, at most `MAX_SIZE`, whatever the
        text is.

        Raises:
            RendererError: no worker process can be started.
        """
        at_work = starting = 0  # workers that ended
        while at_work < _TRIES and starting <= _TRIES:
            try:
                with self._worker() as worker:
                    drawing: Drawing = worker.call(text, size)
                return drawing
            except WorkerDied as death:
                if death.during:
                    at_work += 1
                elif not worker.has_started:  # else it ended while it waited for a drawing
                    starting += 1
                ended = -worker.process.returncode
                if death.during and ended in _TEXTS_FAULT:
                    spent = ended == signal.SIGPROF
                    problem = "is too deep or too large"
                    if spent:
                        problem = f"takes longer than {self._seconds:g} seconds"
                    return Drawing(None, f"the SVG can't be drawn: it {problem}")
        if at_work < _TRIES:
            raise RendererError(
                "the drawing process does not start; its messages are on the standard error"
            )
        return Drawing(None, "the SVG can't be drawn: it makes the drawing process fail")

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that wait for a drawing."""
        return tuple(worker.process.pid for worker in self._idle)

    @contextmanager
    def _worker(self) -> Iterator[Worker]:
        """An idle process, or a new one. One in which something is raised is ended, since it may be
        at work.
        """
        with self._free:
            try:
                while (worker := self._idle.pop()).process.poll() is not None:
                    worker.close()
            except IndexError:
                worker = self._start()
            try:
                yield worker
            except BaseException:
                worker.close()
                raise
            self._idle.append(worker)

    def close(self) -> None:
        """End all processes. The next drawing starts a new one."""
        while self._idle:
            self._idle.pop().close()


def _check_that_it_works(renderer: RendererName) -> None:
    need(
        "SVG reconstruction",
        "svg",
        "resvg",
        renderer,
        "defusedxml",
        "tinycss2",
        "cssselect2",
        "fontTools",
    )
    if renderer == "cairosvg":
        try:
            import cairosvg  # noqa: F401
        except OSError as error:  # the cairo library itself
            reason = str(error).partition("\n")[0]
            raise RendererError(
                f"cairosvg can't load the cairo library ({reason}); on Debian: apt-get install "
                "libcairo2"
            ) from error
    if os.name != "posix":
        raise RendererError(
            "SVGs are drawn within limits that Windows does not have; use WSL, Linux or macOS"
        )


@functools.cache
def shared_renderer(renderer: RendererName = "resvg") -> Renderer:
    """The renderer of this name that all environments of this process use."""
    return Renderer(renderer=renderer)
