"""Pictures of MuJoCo scenes without a screen: OpenGL through EGL or OSMesa."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from vagen_envs.errors import MissingExtraError, SimulatorError
from vagen_envs.navigation import ENV_ID
from vagen_envs.pictures import Pixels

_GL_HELP = (
    "no OpenGL without a screen: {causes}. Install the Debian packages libegl1 and libgl1-mesa-dri (EGL) or "
    "libosmesa6 (OSMesa); the environment variable MUJOCO_GL=egl or osmesa chooses one"
)


def mujoco() -> Any:
    """The module. Raises MissingExtraError where it isn't installed."""
    try:
        return importlib.import_module("mujoco")
    except ModuleNotFoundError as error:
        raise MissingExtraError(ENV_ID, "navigation", "mujoco") from error


class Camera:
    """An OpenGL context of one environment, into which rooms are loaded as they come.

    It may be used by several threads one after the other, and is made anew in a forked process: Mesa's
    software renderer is told to do without threads, which a fork would lose.
    """

    def __init__(self, resolution: int) -> None:
        self.resolution = resolution
        self._process = 0
        self._gl: Any = None
        self._renderer: Any = None
        self._loaded: Any = None

    def picture(self, model: Any, scene: Any, update: Any) -> Pixels:
        """Render what `update()` puts into `scene`."""
        mj = mujoco()
        if self._process != os.getpid():
            self._gl = self._renderer = self._loaded = None
            self._gl, self._process = _context(self.resolution), os.getpid()
        with self._gl.as_current():
            if self._loaded is not model:
                if self._renderer is not None:
                    self._renderer.free()
                self._renderer = mj.MjrContext(model, mj.mjtFontScale.mjFONTSCALE_50)
                mj.mjr_setBuffer(mj.mjtFramebuffer.mjFB_OFFSCREEN, self._renderer)
                self._loaded = model
            update()
            view = mj.MjrRect(0, 0, self.resolution, self.resolution)
            pixels = np.empty((self.resolution, self.resolution, 3), np.uint8)
            mj.mjr_render(view, scene, self._renderer)
            mj.mjr_readPixels(pixels, None, view, self._renderer)
        return np.ascontiguousarray(pixels[::-1])

    def close(self) -> None:
        """Free the context. May be called twice."""
        if self._gl is not None and self._process == os.getpid():
            with self._gl.as_current():
                if self._renderer is not None:
                    self._renderer.free()
            self._gl.free()
        self._gl = self._renderer = self._loaded = None
        self._process = 0


def _context(resolution: int) -> Any:
    os.environ.setdefault("LP_NUM_THREADS", "0")
    asked = os.environ.get("MUJOCO_GL", "").lower()
    causes = []
    for name in (asked,) if asked in ("egl", "osmesa") else ("egl", "osmesa"):
        try:
            if os.environ.get("PYOPENGL_PLATFORM", name) != name:  # as the last try left it
                del os.environ["PYOPENGL_PLATFORM"]
            return importlib.import_module(f"mujoco.{name}").GLContext(resolution, resolution)
        except (ImportError, AttributeError, RuntimeError, OSError) as error:
            causes.append(f"{name}: {error}")
    raise SimulatorError(ENV_ID, _GL_HELP.format(causes="; ".join(causes)))
