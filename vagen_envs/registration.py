"""The ids of this package and where their environments are."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

ENTRY_POINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "vagen/Sokoban-v0": ("vagen_envs.sokoban.env:SokobanEnv", {}),
    "vagen/FrozenLake-v0": ("vagen_envs.frozen_lake.env:FrozenLakeEnv", {}),
    "vagen/Navigation-v0": ("vagen_envs.navigation.env:NavigationEnv", {}),
    "vagen/PrimitiveSkillPlace-v0": ("vagen_envs.primitive_skill.env:PrimitiveSkillEnv", {"task": "place"}),
    "vagen/PrimitiveSkillStack-v0": ("vagen_envs.primitive_skill.env:PrimitiveSkillEnv", {"task": "stack"}),
    "vagen/PrimitiveSkillDrawer-v0": ("vagen_envs.primitive_skill.env:PrimitiveSkillEnv", {"task": "drawer"}),
    "vagen/PrimitiveSkillAlign-v0": ("vagen_envs.primitive_skill.env:PrimitiveSkillEnv", {"task": "align"}),
    "vagen/PrimitiveSkill-v0": ("vagen_envs.primitive_skill.env:PrimitiveSkillEnv", {}),
    "vagen/SVGReconstruction-v0": ("vagen_envs.svg.env:SvgEnv", {}),
    "vagen/Sample-v0": ("vagen_envs.sample.env:SampleEnv", {}),
}
"""Id, entry point (imported when the environment is made, not before), and options of the id."""

ENV_IDS: tuple[str, ...] = tuple(ENTRY_POINTS)

FOLDERS = frozenset(entry_point.split(".")[1] for entry_point, _ in ENTRY_POINTS.values())
"""Packages of this one with an environment; the kind of its states has the same name."""


def declared(env_id: str) -> tuple[EnvSpec, Any]:
    """What Gymnasium knows of an id, and the class or function that makes its environment.

    Args:
        env_id: a registered id, or `module:id`, for which the module is imported; `gym.spec` alone doesn't do that.

    Raises:
        gymnasium.error.Error: there is no such id.
        ImportError: there is no such module.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        importlib.import_module(module)
    spec = gym.spec(name)
    entry = spec.entry_point
    return spec, load_env_creator(entry) if isinstance(entry, str) else entry


def register_all() -> None:
    """Register every id with Gymnasium. May be called twice."""
    for env_id, (entry_point, options) in ENTRY_POINTS.items():
        if env_id not in gym.registry:
            gym.register(id=env_id, entry_point=entry_point, kwargs=options)
