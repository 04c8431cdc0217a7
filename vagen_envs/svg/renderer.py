"""Drawing any text as SVG, safely: a pool of limited worker processes.

The processes are plain subprocesses over pipes. Pools on top of `multiprocessing` can't be used
here: Gymnasium's `AsyncVectorEnv` runs environments in daemonic processes, which may have no such
children, and `spawn` runs the user's script again.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from vagen_envs.errors import MissingExtraError, VagenError
from vagen_envs.pictures import Pixels
from vagen_envs.svg.check import MAX_LENGTH

SECONDS = 2.0
"""For one drawing."""
MEMORY = 1 << 30
"""Address space of a worker, in bytes."""

_START_SECONDS = 60.0
_GRACE_SECONDS = 0.5  # the kernel's alarm comes first, the parent's clock is for when there is none


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
    """The worker is gone; `timed_out` says whether its time was up."""

    def __init__(self, timed_out: bool) -> None:
        super().__init__(timed_out)
        self.timed_out = timed_out


class _Worker:
    """One process and its two pipes."""

    def __init__(self, seconds: float, memory: int) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.seconds = seconds
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "vagen_envs.svg.worker", str(seconds), str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
        )
        self.ready = False

    def draw(self, text: str, size: int) -> Drawing:
        """Raises _Died if the process ends before it has answered."""
        assert self.process.stdin is not None  # noqa: S101 - for the type checker
        if not self.ready:
            header = self._header(time.monotonic() + _START_SECONDS)
            if header["problem"]:
                raise RendererError(f"cairosvg does not work here: {header['problem']}; reinstall vagen-envs[svg]")
            self.ready = True
        data = text.encode("utf-8", "surrogatepass")
        deadline = time.monotonic() + self.seconds + _GRACE_SECONDS
        try:
            self.process.stdin.write(len(data).to_bytes(4, "little") + size.to_bytes(2, "little") + data)
        except OSError:
            raise _Died(timed_out=False) from None
        header = self._header(deadline)
        if header["problem"] is not None:
            return Drawing(None, header["problem"])
        bgrx = np.frombuffer(self._read(size * size * 4, deadline), np.uint8).reshape(size, size, 4)
        return Drawing(np.ascontiguousarray(bgrx[:, :, 2::-1]), None, tuple(map(tuple, header["marks"])))

    def _header(self, deadline: float) -> dict[str, Any]:
        length = int.from_bytes(self._read(4, deadline), "little")
        header: dict[str, Any] = json.loads(bytes(self._read(length, deadline)))
        return header

    def _read(self, length: int, deadline: float) -> bytearray:
        assert self.process.stdout is not None  # noqa: S101 - for the type checker
        pipe = self.process.stdout.fileno()
        data = bytearray(length)
        view, done = memoryview(data), 0
        while done < length:
            left = deadline - time.monotonic()
            if left <= 0 or not _readable(pipe, left):
                raise _Died(timed_out=True)
            count = os.readv(pipe, [view[done:]])
            if count == 0:
                raise _Died(timed_out=self.process.wait() == -14)  # SIGALRM
            done += count
        return data

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


class Renderer:
    """Draws SVGs in worker processes; safe to use from many threads and after a fork.

    Args:
        workers: most processes at a time; they are started when needed.
        seconds: for one drawing.
        memory: address space of a process, in bytes.
    """

    def __init__(self, workers: int | None = None, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        try:
            import cairosvg  # noqa: F401
            import defusedxml  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("SVG reconstruction", "svg", error.name or "cairosvg") from error
        except OSError as error:  # the cairo library itself
            raise RendererError(f"cairosvg can't load the cairo library ({error}); install libcairo2") from error
        self._most = workers or max(1, min(8, os.cpu_count() or 1))
        self.seconds, self.memory = seconds, memory
        self._forget()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
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
        """Draw a text as SVG on white, `size` × `size` pixels, whatever the text is.

        Raises:
            RendererError: no worker process can be started.
        """
        if len(text) > MAX_LENGTH:
            return Drawing(None, f"the SVG has {len(text)} characters; at most {MAX_LENGTH} are allowed")
        with self._slots:
            for _ in range(2):
                worker = self._take()
                try:
                    drawing = worker.draw(text, size)
                except _Died as died:
                    started = worker.ready
                    self._drop(worker)
                    if died.timed_out and started:
                        self._give(_Worker(self.seconds, self.memory))  # starts up while nobody waits
                        limit = f"{self.seconds:g} seconds"
                        return Drawing(None, f"the SVG can't be drawn: it takes longer than {limit}")
                    continue
                except BaseException:
                    self._drop(worker)
                    raise
                self._give(worker)
                return drawing
        if started:
            return Drawing(None, "the SVG can't be drawn: it makes the drawing process fail")
        raise RendererError(f"the drawing process does not start; try `{sys.executable} -m vagen_envs.svg.worker 2 0`")

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes now."""
        with self._lock:
            return tuple(worker.process.pid for worker in self._all)

    def _take(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        worker = _Worker(self.seconds, self.memory)
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


def _readable(pipe: int, seconds: float) -> bool:
    if sys.platform == "win32":  # select takes only sockets there; the process's own limits remain
        return True
    poll = select.poll()
    poll.register(pipe, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(seconds * 1000))


_shared: Renderer | None = None
_shared_lock = threading.Lock()


def shared_renderer() -> Renderer:
    """The renderer that all environments of this process use."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Renderer()
        return _shared
