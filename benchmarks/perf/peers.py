"""Other people's environments, loaded to be compared with. Nothing here is needed to run ours.

gym-sokoban 0.0.6 needs the old `gym`, whose names Gymnasium still has, and `pkg_resources`, of
which it uses one function. Its modules are loaded from their files, around its `__init__`, with
both stood in for. Install it with `pip install --no-deps gym-sokoban==0.0.6` and `imageio`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import random
import sys
import types
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

_PACKAGE = "gym_sokoban_by_file"


@functools.cache
def gym_sokoban() -> types.ModuleType:
    """gym-sokoban's `sokoban_env` module. Raises PackageNotFoundError where it isn't installed."""
    folder = Path(
        str(importlib.metadata.distribution("gym-sokoban").locate_file("gym_sokoban/envs"))
    )
    package = types.ModuleType(_PACKAGE)
    package.__path__ = [str(folder)]
    resources: Any = types.ModuleType("pkg_resources")
    resources.resource_filename = lambda _, name: str(folder / name)
    stand_ins = {
        "gym": gymnasium,
        "gym.utils": gymnasium.utils,
        "gym.spaces": gymnasium.spaces,
        "gym.spaces.discrete": gymnasium.spaces.discrete,
        "pkg_resources": resources,
        "imageio": importlib.import_module("imageio.v2"),  # the interface of its day
    }
    displaced = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update({**stand_ins, _PACKAGE: package})
    try:
        module = importlib.import_module(f"{_PACKAGE}.sokoban_env")
        for name in ("render_utils", "room_utils"):
            setattr(module, name, importlib.import_module(f"{_PACKAGE}.{name}"))
    finally:
        for name, before in displaced.items():
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before
    return module


def sokoban_env(height: int = 6, width: int = 6, boxes: int = 1) -> Any:
    """A `SokobanEnv` of gym-sokoban that hasn't been reset."""
    return gym_sokoban().SokobanEnv(
        dim_room=(height, width), num_boxes=boxes, max_steps=10**9, reset=False
    )


def sokoban_reset_in_window(env: Any, seed: int, shortest: int, longest: int) -> int:
    """Reset until a breadth-first search finds a shortest solution in the window, as VAGEN's code
    does. Its length.
    """
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - its levels come from the global generators
    while True:
        env.reset()
        length = shortest_solution(env.room_fixed, env.room_state, longest)
        if length is not None and length >= shortest:
            return length


def shortest_solution(fixed: Any, state: Any, longest: int) -> int | None:
    """Forward breadth-first search over (player, boxes), independent of ours."""
    walls = {tuple(cell) for cell in np.argwhere(fixed == 0)}
    targets = frozenset(tuple(cell) for cell in np.argwhere(fixed == 2))
    boxes = frozenset(tuple(cell) for cell in np.argwhere((state == 4) | (state == 3)))
    player = tuple(np.argwhere(state == 5)[0])
    seen = {(player, boxes)}
    frontier = [(player, boxes)]
    for depth in range(longest + 1):
        if any(placed == targets for _, placed in frontier):
            return depth
        following = []
        for (row, column), placed in frontier:
            for rows, columns in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                to = (row + rows, column + columns)
                if to in walls:
                    continue
                moved = placed
                if to in placed:
                    beyond = (to[0] + rows, to[1] + columns)
                    if beyond in walls or beyond in placed:
                        continue
                    moved = placed - {to} | {beyond}
                if (to, moved) not in seen:
                    seen.add((to, moved))
                    following.append((to, moved))
        frontier = following
    return None
