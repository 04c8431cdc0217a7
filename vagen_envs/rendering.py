"""A window for `render_mode="human"`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from vagen_envs.errors import MissingExtraError
from vagen_envs.pictures import Pixels

_SMALLEST = 384  # pixels of a window's longer side that a person can see well


class Window:
    """A pygame window that shows one picture at a time, enlarged by a whole factor to a visible size.

    Raises:
        MissingExtraError: pygame isn't installed.
    """

    def __init__(self, title: str, width: int, height: int) -> None:
        try:
            self._pygame: Any = importlib.import_module("pygame")
        except ImportError as error:
            raise MissingExtraError('render_mode="human"', "human", "pygame") from error
        self._factor = max(1, -(-_SMALLEST // max(width, height)))
        self._pygame.display.init()
        self._screen = self._pygame.display.set_mode((width * self._factor, height * self._factor))
        self._pygame.display.set_caption(title)
        self._clock = self._pygame.time.Clock()

    def show(self, pixels: Pixels, fps: int) -> None:
        """Show uint8 pixels of shape (height, width, 3) and wait for the frame's time."""
        large = np.kron(pixels, np.ones((self._factor, self._factor, 1), np.uint8))
        surface = self._pygame.surfarray.make_surface(large.swapaxes(0, 1))
        self._screen.blit(surface, (0, 0))
        self._pygame.event.pump()
        self._pygame.display.flip()
        self._clock.tick(fps)

    def close(self) -> None:
        """Close the window."""
        self._pygame.display.quit()
