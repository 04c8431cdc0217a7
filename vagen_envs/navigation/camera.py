"""Pictures of MuJoCo scenes without a screen: OpenGL through EGL or OSMesa.

Every OpenGL context has a thread of its own, which alone draws with it. Environments may therefore
move between threads, and a driver that hangs, which nothing can interrupt, is given up together
with its thread.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import mujoco as mj
import numpy as np
from PIL import Image

from vagen_envs.errors import SimulatorError
from vagen_envs.navigation import ENV_ID
from vagen_envs.pictures import Pixels

HUNG_AFTER = 60.0
"""Seconds after which a driver that makes a context or a picture counts as hung; a busy machine
needs some.
"""
_GL_HELP = (
    "no OpenGL without a screen: {causes}. Install the Debian packages libegl1, libopengl0 and "
    "libgl1-mesa-dri (EGL) or libosmesa6 (OSMesa); the environment variable MUJOCO_GL=egl or "
    "osmesa chooses one"
)
_FINER = 2
"""Pictures are drawn this many times as large and averaged. On a CPU that takes half the time of
OpenGL's own four samples a pixel (12 ms, 25 ms), and evens out textures too."""
_MESA = {"LP_NUM_THREADS": "0", "MESA_SHADER_CACHE_DISABLE": "true"}
"""Have Mesa's software renderer start no threads. A forked process lacks them: with the shader
cache's thread one of four children died of a damaged heap. Without that cache the first picture of
a process takes 0.25 s longer."""


def draw(model: Any, scene: Any, resolution: int, cast_shadows: bool) -> Pixels:
    """Draw a scene of a room: uint8 (resolution, resolution, 3). Raises SimulatorError if OpenGL
    fails.
    """
    seats = _seats(os.getpid())
    for _ in range(2):
        painter = seats.get() or _Painter()
        left: _Painter | None = painter
        try:
            fine = painter.draw(model, scene, _FINER * resolution, cast_shadows)
            return np.array(Image.fromarray(fine).reduce(_FINER))
        except TimeoutError:
            left = None
        finally:
            seats.put(left)
    raise SimulatorError(
        ENV_ID,
        f"the OpenGL driver made no picture within {HUNG_AFTER:g} s, twice; restart the process, "
        "or draw on the CPU with the environment variable MUJOCO_GL=osmesa",
    )


class _Painter(threading.Thread):
    """A thread with an OpenGL context, and what MuJoCo keeps in it for each size of pictures: 20 MB
    with Mesa.
    """

    def __init__(self) -> None:
        super().__init__(name="opengl", daemon=True)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._gl: Any = None
        self._renderers: dict[tuple[int, bool], Any] = {}
        self.start()

    def draw(self, *request: Any) -> Pixels:
        """What `_pixels` returns or raises; TimeoutError if it hangs, after which the painter is
        lost.
        """
        answer: Future[Pixels] = Future()
        self._requests.put((request, answer))
        return answer.result(HUNG_AFTER)

    def run(self) -> None:
        while True:
            request, answer = self._requests.get()
            try:
                answer.set_result(self._pixels(*request))
            except Exception as error:
                answer.set_exception(error)
            del request, answer  # or the room would live on until the next picture

    def _pixels(self, model: Any, scene: Any, side: int, cast_shadows: bool) -> Pixels:
        self._make_current()
        key = (side, cast_shadows)
        if key not in self._renderers:  # it draws every room: all have the same materials
            shown = model.vis.global_
            shown.offwidth = shown.offheight = side
            self._renderers[key] = mj.MjrContext(model, mj.mjtFontScale.mjFONTSCALE_50)
        renderer = self._renderers[key]
        mj.mjr_setBuffer(mj.mjtFramebuffer.mjFB_OFFSCREEN, renderer)
        view = mj.MjrRect(0, 0, side, side)
        pixels = np.empty((side, side, 3), np.uint8)
        mj.mjr_render(view, scene, renderer)
        mj.mjr_readPixels(pixels, None, view, renderer)
        return pixels[::-1]  # OpenGL begins at the bottom

    def _make_current(self) -> None:
        """Make the context current, anew if something ended EGL for the process, as SDL does with
        its last window.
        """
        try:
            self._gl = self._gl or _context()
            self._gl.make_current()
        except SimulatorError:
            raise
        except Exception:  # PyOpenGL's, of many classes
            # The old one isn't freed, which would raise, and MuJoCo has to initialize EGL once
            # more.
            if self._gl is not None:
                self._gl._context = None
            _LOST.append((self._gl, self._renderers))
            egl: Any = sys.modules.get("mujoco.egl")
            if egl is not None:
                egl.EGL_DISPLAY = None
            self._gl = _context()
            self._renderers = {}
            self._gl.make_current()


def _context() -> Any:
    asked = os.environ.get("MUJOCO_GL", "").lower()
    known = ("egl", "osmesa")
    causes = []
    for name in (asked,) if asked in known else known:
        try:
            if os.environ.get("PYOPENGL_PLATFORM", name) != name:  # as the last try left it
                del os.environ["PYOPENGL_PLATFORM"]
            module = importlib.import_module(f"mujoco.{name}")
            with _alone_and_without_threads():
                return module.GLContext(64, 64)
        except Exception as error:  # PyOpenGL's, of many classes
            causes.append(f"{name}: {error}")
    raise SimulatorError(ENV_ID, _GL_HELP.format(causes="; ".join(causes)))


@contextlib.contextmanager
def _alone_and_without_threads() -> Iterator[None]:
    """Start OpenGL in one process at a time, with Mesa's variables set; a Vulkan driver in this
    process keeps its own.

    EGL of some drivers hangs where several processes initialize it at once (MuJoCo's issue 3444).
    """
    import fcntl  # here: Windows has neither this nor EGL, and plays without pictures

    absent = _MESA.keys() - os.environ.keys()
    with Path(tempfile.gettempdir(), f"vagen-opengl-{os.getuid()}.lock").open("a") as file:
        # A quarter of the time: a process that hangs must not stop all others.
        for _ in range(int(HUNG_AFTER * 5)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.05)
        os.environ.update({name: _MESA[name] for name in absent})
        try:
            yield
        finally:
            for name in absent:
                os.environ.pop(name, None)


_LOST: list[Any] = []
"""Contexts of a display that is gone: they must not be freed."""


@functools.cache  # for good: nor must contexts of the process before a fork be freed
def _seats(process: int) -> queue.LifoQueue[_Painter | None]:  # noqa: ARG001 - the cache's key
    """One seat per processor, with a painter once one was needed; a thread holds one while it waits
    for a picture.
    """
    seats: queue.LifoQueue[_Painter | None] = queue.LifoQueue()
    for _ in range(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ):
        seats.put(None)
    return seats
