"""Pictures of MuJoCo scenes without a screen: OpenGL through EGL or OSMesa."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vagen_envs.errors import MissingExtraError, SimulatorError
from vagen_envs.navigation import ENV_ID
from vagen_envs.navigation.mjcf import empty_scene
from vagen_envs.pictures import Pixels

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

START_SECONDS = 60.0
"""By the clock, until the making of an OpenGL context counts as hung; a busy machine needs some."""
_GL_HELP = (
    "no OpenGL without a screen: {causes}. Install the Debian packages libegl1 and libgl1-mesa-dri (EGL) or "
    "libosmesa6 (OSMesa); the environment variable MUJOCO_GL=egl or osmesa chooses one"
)
_FINER = 2
"""Pictures are drawn this many times as large and averaged. On a CPU that takes half the time of OpenGL's own four
samples a pixel (12 ms, 25 ms), and evens out textures too."""


def mujoco() -> Any:
    """The module. Raises MissingExtraError where it isn't installed."""
    try:
        return importlib.import_module("mujoco")
    except ModuleNotFoundError as error:
        raise MissingExtraError(ENV_ID, "navigation", "mujoco") from error


class Camera:
    """Takes pictures of one size. It holds nothing itself: all cameras of a process share its `_Screens`.

    Args:
        resolution: height and width in pixels.
        cast_shadows: for rooms whose lamps cast shadows.
    """

    def __init__(self, resolution: int, cast_shadows: bool = False) -> None:
        self.resolution, self.cast_shadows = resolution, cast_shadows

    def picture(self, scene: Any, update: Callable[[], None]) -> Pixels:
        """Draw what `update()` puts into `scene`: uint8 (resolution, resolution, 3)."""
        return _averaged(self._drawn(scene, update, _FINER * self.resolution))

    def exact(self, scene: Any, update: Callable[[], None]) -> Pixels:
        """The same without averaging, for pixels that mean something."""
        return np.ascontiguousarray(self._drawn(scene, update, self.resolution)[::-1])

    def _drawn(self, scene: Any, update: Callable[[], None], side: int) -> Pixels:
        mj = mujoco()
        view = mj.MjrRect(0, 0, side, side)
        pixels = np.empty((side, side, 3), np.uint8)
        with _SCREENS.one() as screen:
            renderer = screen.renderer(_FINER * self.resolution, self.cast_shadows)
            update()
            mj.mjr_render(view, scene, renderer)
            mj.mjr_readPixels(pixels, None, view, renderer)
        return pixels


def _averaged(fine: Pixels) -> Pixels:
    """Each four pixels as their average, half rounded up, and the first row last: OpenGL begins at the bottom.

    What Pillow's `reduce(2)` gives, in two thirds of the time: it has no pixels of three bytes and copies them first.
    """
    side = len(fine) // 2
    pairs = fine.reshape(side, 2, 6 * side)[::-1]
    sums = np.add(pairs[:, 0], pairs[:, 1], dtype=np.uint16).reshape(-1)
    total = sums + 2
    total[:-3] += sums[3:]  # the pixel to the right; of each two sums the first is wanted
    total >>= 2
    pixels = total.astype(np.uint8).view("V3")[::2]
    return pixels.copy().view(np.uint8).reshape(side, side, 3)


class _Screen:
    """An OpenGL context, and what MuJoCo keeps in it for each size of pictures: 20 MB with Mesa's software renderer."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.gl = _context()
        self._renderers: dict[tuple[int, bool], Any] = {}

    def renderer(self, side: int, cast_shadows: bool) -> Any:
        """What draws pictures of up to `side` pixels of any room: all have the same materials."""
        mj, key = mujoco(), (side, cast_shadows)
        if key not in self._renderers:
            empty = mj.MjModel.from_xml_string(*empty_scene(side, cast_shadows))
            self._renderers[key] = mj.MjrContext(empty, mj.mjtFontScale.mjFONTSCALE_50)
        renderer = self._renderers[key]
        mj.mjr_setBuffer(mj.mjtFramebuffer.mjFB_OFFSCREEN, renderer)
        return renderer


class _Screens:
    """This process's screens, as many as it has processors; a thread takes one for as long as it draws.

    A screen remembers nothing of a picture, so any will do. All are made anew in a forked process (Mesa's
    software renderer is told to do without threads, which a fork would lose), and where something else
    ended EGL for the whole process, as SDL does when its last window is closed.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._free: list[_Screen] = []
        self._lost: list[_Screen] = []
        self._count = self._generation = 0
        self._most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def forked(self) -> None:
        """Leave the screens that belong to the process before the fork alone, without freeing them."""
        lost = [*self._lost, *self._free]
        self._begin()
        self._lost = lost

    @contextlib.contextmanager
    def one(self) -> Iterator[_Screen]:
        """A screen that this thread may draw on. Raises SimulatorError where there can be none."""
        with contextlib.ExitStack() as stack:
            screen = self._take()
            try:
                stack.enter_context(screen.gl.as_current())
            except Exception:  # PyOpenGL's, of many classes
                self._lose(screen)
                screen = self._take()
                try:
                    stack.enter_context(screen.gl.as_current())
                except Exception:
                    self._lose(screen)
                    raise
            try:
                yield screen
            finally:
                with contextlib.suppress(Exception):  # ended while it was in use: seen when it is next taken
                    stack.close()
                with self._changed:
                    self._free.append(screen)
                    self._changed.notify()

    def _take(self) -> _Screen:
        with self._changed:
            while True:
                if self._free:
                    return self._free.pop()
                if self._count < self._most:
                    screen = _Screen(self._generation)
                    self._count += 1
                    return screen
                self._changed.wait()

    def _lose(self, screen: _Screen) -> None:
        """Forget a screen, and with the first of its generation the display that they were made on."""
        with self._changed:
            self._count -= 1
            self._lost.append(screen)
            screen.gl._context = None  # it is gone; freeing it would raise
            if screen.generation == self._generation:
                self._generation += 1
                egl = importlib.import_module(type(screen.gl).__module__)
                if getattr(egl, "EGL_DISPLAY", None) is not None:
                    egl.EGL_DISPLAY = None  # type: ignore[attr-defined] # MuJoCo initializes it once more
            self._changed.notify()


_SCREENS = _Screens()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SCREENS.forked)


def _context() -> Any:
    os.environ.setdefault("LP_NUM_THREADS", "0")
    asked = os.environ.get("MUJOCO_GL", "").lower()
    causes = []
    for name in (asked,) if asked in ("egl", "osmesa") else ("egl", "osmesa"):
        try:
            if os.environ.get("PYOPENGL_PLATFORM", name) != name:  # as the last try left it
                del os.environ["PYOPENGL_PLATFORM"]
            module = importlib.import_module(f"mujoco.{name}")
            with _one_process_at_a_time():
                return _watched(functools.partial(module.GLContext, 64, 64))
        except (ImportError, AttributeError, RuntimeError, OSError) as error:
            causes.append(f"{name}: {error}")
    raise SimulatorError(ENV_ID, _GL_HELP.format(causes="; ".join(causes)))


def _watched(make: Callable[[], Any]) -> Any:
    """What `make` returns, made in a thread of its own, since a driver that hangs can't be interrupted.

    Tried once more after `START_SECONDS`. Raises RuntimeError if that hangs, too.
    """
    for _ in range(2):
        answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

        def attempt(answers: queue.SimpleQueue[tuple[Any, Exception | None]] = answers) -> None:
            try:
                answers.put((make(), None))
            except Exception as raised:
                answers.put((None, raised))

        threading.Thread(target=attempt, name="opengl-context", daemon=True).start()
        with contextlib.suppress(queue.Empty):
            context, error = answers.get(timeout=START_SECONDS)
            if error is not None:
                raise error
            return context
    raise RuntimeError(f"the driver made no context within {START_SECONDS:g} s, twice; restart its processes")


@contextlib.contextmanager
def _one_process_at_a_time() -> Iterator[None]:
    """EGL of some drivers hangs where several processes initialize it at once (MuJoCo's issue 3444)."""
    if fcntl is None:  # Windows
        yield  # type: ignore[unreachable]
        return
    with Path(tempfile.gettempdir(), f"vagen-opengl-{os.getuid()}.lock").open("a") as file:
        for _ in range(int(START_SECONDS * 20)):  # one that hangs must not hold up all others for ever
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.05)
        yield
