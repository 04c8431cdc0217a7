"""Drawing any text as SVG, safely: a pool of limited worker processes.

The processes are plain subprocesses that are told over pipes what lies in shared memory. Pools on top of
`multiprocessing` can't be used here: Gymnasium's `AsyncVectorEnv` runs environments in daemonic processes,
which may have no such children, and `spawn` runs the user's script again.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from vagen_envs.errors import MissingExtraError, VagenError
from vagen_envs.pictures import Pixels
from vagen_envs.svg.check import MAX_LENGTH

SECONDS = 2.0
"""CPU time for one drawing."""
MEMORY = 1 << 30
"""Address space of a worker, in bytes."""
MAX_SIZE = 1024
"""Pixels a side of a drawing."""

_START_SECONDS = 60.0
_PATIENCE = 60.0  # seconds by the clock beyond the CPU time, on a busy machine; who says nothing then was stopped
_TEXTS_FAULT = (signal.SIGPROF, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
"""Time, memory or the stack was spent. Another signal comes from outside."""
_TRIES = 2  # something else than the text may have ended the first worker


class RendererError(VagenError, RuntimeError):
    """The drawing process can't be started. It is not a failure of the agent."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What came of an SVG.

    Attributes:
        pixels: uint8 of shape (size, size, 3), on white; `None` if it could not be drawn.
        problem: why not, in words for its author; `None` if it could be.
        marks: what was painted, in order: shape, how, colour, left, top, right, bottom in pixels.
    """

    pixels: Pixels | None
    problem: str | None
    marks: tuple[tuple[str, str, str, float, float, float, float], ...] = ()


class _Died(Exception):  # noqa: N818 - not an error of ours
    """The worker is gone, by this signal; 0 if it didn't answer."""

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self.signal = number


class _Worker:
    """One process, its two pipes, and the memory that is shared with it."""

    def __init__(self, seconds: float, memory: int, renderer: str) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with _shared_file() as file:
            file.truncate(4 * MAX_SIZE * MAX_SIZE)  # room; only what is used becomes memory
            self._shared = mmap.mmap(file.fileno(), 0)
            numbers = (seconds, memory, file.fileno(), MAX_SIZE, renderer)
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "vagen_envs.svg.worker", *map(str, numbers)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                bufsize=0,
                pass_fds=(file.fileno(),),
            )
        self._poll = select.poll()
        self._poll.register(self.process.stdout, select.POLLIN | select.POLLHUP)  # type: ignore[arg-type]
        self.ready = False

    def get_ready(self) -> None:
        """Wait until the process has started."""
        if not self.ready:
            header = self._header(time.monotonic() + _START_SECONDS)
            if header["problem"]:
                raise RendererError(f"the renderer does not work here: {header['problem']}; reinstall vagen-envs[svg]")
            self.ready = True

    def draw(self, text: str, size: int, deadline: float) -> Drawing:
        """Raises _Died if the process ends before it has answered."""
        assert self.process.stdin is not None  # noqa: S101 - for the type checker
        data = text.encode("utf-8", "surrogatepass")
        self._shared[: len(data)] = data
        try:
            self.process.stdin.write(len(data).to_bytes(4, "little") + size.to_bytes(2, "little"))
        except OSError:
            raise _Died from None
        header = self._header(deadline)
        if header["problem"] is not None:
            return Drawing(None, header["problem"])
        return Drawing(_pixels(self._shared, size), None, tuple(map(tuple, header["marks"])))

    def _header(self, deadline: float) -> dict[str, Any]:
        assert self.process.stdout is not None  # noqa: S101 - for the type checker
        pipe = self.process.stdout.fileno()
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            if not self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise _Died
            # 64 KiB is what a pipe of Linux holds.
            piece = os.read(pipe, 1 << 16)
            if not piece:
                raise _Died(-self.process.wait())
            data += piece
        header: dict[str, Any] = json.loads(data[4:])
        return header

    def end(self) -> None:
        """Kill the process and wait until it is gone."""
        self.abandon()
        self.process.kill()
        self.process.wait()

    def abandon(self) -> None:
        """Close our ends of the pipes and leave the process to whoever started it."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _pixels(shared: mmap.mmap, size: int) -> Pixels:
    """A copy of the first `size` × `size` pixels of 3 bytes."""
    return np.frombuffer(shared, np.uint8, 3 * size * size).reshape(size, size, 3).copy()


class Renderer:
    """Draws SVGs in worker processes; safe to use from many threads and after a fork.

    Args:
        workers: most processes at a time; they are started when needed.
        seconds: of CPU time, for one drawing.
        memory: address space of a process, in bytes.
        patience: seconds by the clock beyond that, until a process that says nothing is replaced.
        renderer: `resvg`, or `cairosvg`, the paper's.
    """

    def __init__(
        self,
        workers: int | None = None,
        seconds: float = SECONDS,
        memory: int = MEMORY,
        patience: float = _PATIENCE,
        renderer: str = "resvg",
    ) -> None:
        for module in ("resvg_py", "defusedxml", "tinycss2", "cssselect2", "fontTools"):
            if importlib.util.find_spec(module) is None:
                raise MissingExtraError("SVG reconstruction", "svg", module)
        if renderer == "cairosvg":
            try:
                import cairosvg  # noqa: F401
            except ImportError as error:
                raise MissingExtraError('renderer="cairosvg"', "svg", error.name or "cairosvg") from error
            except OSError as error:  # the cairo library itself
                reason = str(error).partition("\n")[0]
                raise RendererError(
                    f"cairosvg can't load the cairo library ({reason}); on Debian: apt-get install libcairo2"
                ) from error
        if os.name != "posix":
            raise RendererError("SVGs are drawn within limits that Windows does not have; use WSL, Linux or macOS")
        self._most = workers or max(1, min(8, os.cpu_count() or 1))
        self.seconds, self.memory, self.patience, self.renderer = seconds, memory, patience, renderer
        self._forget()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._after_fork)

    def _forget(self) -> None:
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self._slots = threading.BoundedSemaphore(self._most)
        self._lock = threading.Lock()

    def _after_fork(self) -> None:
        for worker in self._all:
            worker.abandon()
        self._forget()

    def draw(self, text: str, size: int = 224) -> Drawing:
        """Draw a text as SVG on white, `size` × `size` pixels, at most `MAX_SIZE`, whatever the text is.

        Raises:
            RendererError: no worker process can be started.
        """
        if len(text) > MAX_LENGTH:
            return Drawing(None, f"the SVG has {len(text)} characters; at most {MAX_LENGTH} are allowed")
        with self._slots:
            for _ in range(_TRIES):
                worker = self._take()
                try:
                    worker.get_ready()
                    drawing = worker.draw(text, size, time.monotonic() + self.seconds + self.patience)
                except _Died as died:
                    started = worker.ready
                    self._drop(worker)
                    if started and died.signal in _TEXTS_FAULT:
                        self._give(_Worker(self.seconds, self.memory, self.renderer))  # starts up while nobody waits
                        spent = died.signal == signal.SIGPROF
                        words = f"takes longer than {self.seconds:g} seconds" if spent else "is too deep or too large"
                        return Drawing(None, f"the SVG can't be drawn: it {words}")
                    continue
                except BaseException:
                    self._drop(worker)
                    raise
                self._give(worker)
                return drawing
        if started:
            return Drawing(None, "the SVG can't be drawn: it makes the drawing process fail")
        command = (
            f"{sys.executable} -m vagen_envs.svg.worker {self.seconds:g} {self.memory} -1 {MAX_SIZE} {self.renderer}"
        )
        raise RendererError(f"the drawing process does not start; see what `{command}` says")

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes now."""
        with self._lock:
            return tuple(worker.process.pid for worker in self._all)

    def _take(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        worker = _Worker(self.seconds, self.memory, self.renderer)
        with self._lock:
            self._all.append(worker)
        return worker

    def _give(self, worker: _Worker) -> None:
        with self._lock:
            if worker not in self._all:
                self._all.append(worker)
            self._idle.append(worker)

    def _drop(self, worker: _Worker) -> None:
        worker.end()
        with self._lock:
            self._all.remove(worker)

    def close(self) -> None:
        """End all processes. The next drawing starts a new one."""
        with self._lock:
            workers, self._all, self._idle = self._all, [], []
        for worker in workers:
            worker.end()


def _shared_file() -> Any:
    """A file without a name, in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("vagen-svg"), "r+b")
    return tempfile.TemporaryFile()


_shared: dict[str, Renderer] = {}
_shared_lock = threading.Lock()


def shared_renderer(renderer: str = "resvg") -> Renderer:
    """The renderer of this name that all environments of this process use."""
    with _shared_lock:
        if renderer not in _shared:
            _shared[renderer] = Renderer(renderer=renderer)
        return _shared[renderer]
