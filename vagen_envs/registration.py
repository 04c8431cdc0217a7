"""The ids of this package and where their environments are."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

ENTRY_POINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "vagen/Sokoban-v0": ("vagen_envs.sokoban.env:SokobanEnv", {}),
    "vagen/FrozenLake-v0": ("vagen_envs.frozen_lake.env:FrozenLakeEnv", {}),
    "vagen/SVGReconstruction-v0": ("vagen_envs.svg.env:SvgEnv", {}),
}
"""Id, entry point (imported when the environment is made, not before), and options of the id."""

ENV_IDS: tuple[str, ...] = tuple(ENTRY_POINTS)


def register_all() -> None:
    """Register every id with Gymnasium. May be called twice."""
    for env_id, (entry_point, options) in ENTRY_POINTS.items():
        if env_id not in gym.registry:
            gym.register(id=env_id, entry_point=entry_point, kwargs=options)
