"""Levels from the room generator of gym-sokoban 0.0.6, as VAGEN's released code draws them.

Importing that package imports the old `gym`, which doesn't run beside NumPy 2. Its room generator
is one module that needs NumPy alone, so that file is executed by itself, with generators that draw
from a `HashStream` in place of the process's.
"""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vagen_envs.errors import LevelError
from vagen_envs.extras import need
from vagen_envs.seeding import HashStream, Split
from vagen_envs.sokoban.levels import Level, canonical_board, cells
from vagen_envs.sokoban.solver import Solutions
from vagen_envs.sokoban.splits import split_of_board

_MOST_ROOMS = 2_000
"""Rooms of one box in 6x6 cells before a window counts as empty: three in four take one to five
moves, and half of the boards are of the split `test`. Of larger rooms, which take up to half a
second each, there are fewer.
"""
_KEPT = 1_024
"""Levels that are remembered: a restore draws its level again, which takes 20 ms here."""
_TARGET = 2
_BOX = 4
_PLAYER = 5


class _FromStream:
    """The calls to `random` and `numpy.random` that the generator makes, drawn from a stream."""

    def __init__(self, stream: HashStream) -> None:
        self.random = stream.random
        self.sample = stream.sample
        self._below = stream.below

    def randint(self, low: int, high: int | None = None) -> int:
        """`random.randint` includes `high`; `numpy.random.randint` has one argument here."""
        return self._below(low) if high is None else low + self._below(high - low + 1)


class _Numpy:
    """NumPy with another `random`."""

    def __init__(self, random: _FromStream) -> None:
        self.random = random

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class GymSokobanRooms:
    """The room generator. Each instance has a copy of the module: it keeps its search in globals.

    Raises:
        MissingExtraError: gym-sokoban isn't installed.
    """

    def __init__(self) -> None:
        need('generator="gym-sokoban"', "gym-sokoban", "gym_sokoban")
        package = importlib.util.find_spec("gym_sokoban")
        assert package is not None and package.submodule_search_locations  # noqa: S101, PT018 - `need` found it
        path = Path(package.submodule_search_locations[0], "envs", "room_utils.py")
        source = importlib.util.spec_from_file_location("gym_sokoban_room_utils", path)
        assert source is not None and source.loader is not None  # noqa: S101, PT018 - for the type checker
        self._module: Any = importlib.util.module_from_spec(source)
        source.loader.exec_module(self._module)
        self._drawn: dict[tuple[object, ...], Level] = {}

    def draw(
        self,
        stream: HashStream,
        split: Split,
        *,
        size: Sequence[int],
        num_boxes: int,
        shortest: int,
        longest: int,
    ) -> Level:
        """The first room of `split` whose shortest solution is in the window.

        As in the released code, short solutions are as frequent as the generator makes them, and no
        box begins on a target.

        Raises:
            LevelError: none was found; the message says what to change.
        """
        # A child of the stream is a function of its key, and so tells streams apart.
        key = (stream.child(0).bits(128), split, *size, num_boxes, shortest, longest)
        if key not in self._drawn:
            if len(self._drawn) >= _KEPT:
                self._drawn.clear()
            self._drawn[key] = self._draw(stream, split, size, num_boxes, (shortest, longest))
        return self._drawn[key]

    def _draw(
        self,
        stream: HashStream,
        split: Split,
        size: Sequence[int],
        num_boxes: int,
        lengths: tuple[int, int],
    ) -> Level:
        shortest, longest = lengths
        module: types.ModuleType = self._module
        drawn = _FromStream(stream)
        module.random = drawn  # type: ignore[attr-defined]
        module.np = _Numpy(drawn)  # type: ignore[attr-defined]
        most = _MOST_ROOMS * 36 // (size[0] * size[1] * num_boxes)
        for _ in range(most):
            try:
                fixed, room, _ = self._module.generate_room(
                    tuple(size), num_steps=int(1.7 * sum(size)), num_boxes=num_boxes
                )
            except (RuntimeError, RuntimeWarning):  # too few cells, or no box can be pulled
                continue
            level = _level(fixed, room)
            if split_of_board(cells(level.floor), cells(level.targets), level.width) != split:
                continue
            solutions = Solutions(level.width, level.floor, level.targets)
            solutions.extend(longest)
            bit = 1 << level.player
            window = solutions.layers[shortest : longest + 1]
            if any(layer.get(level.boxes, 0) & bit for layer in window):
                return level
        raise LevelError(
            f"none of {most} rooms of gym-sokoban with {num_boxes} boxes in {size[0]}x"
            f"{size[1]} cells has a shortest solution of {shortest} to {longest} moves; widen the "
            "window"
        )


def _level(fixed: Any, room: Any) -> Level:
    """A room of the generator as a level."""
    height, width = fixed.shape
    floor = _mask(fixed != 0)
    targets = _mask(fixed == _TARGET)
    player = int(np.flatnonzero(room == _PLAYER)[0])
    board = canonical_board(width, floor, targets)
    return Level(height, width, floor, targets, _mask(room == _BOX), player, board)


def _mask(chosen: Any) -> int:
    return sum([1 << int(cell) for cell in np.flatnonzero(chosen)])
