"""The ids of this package and where their environments are."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import (
    EnvSpec,
    find_highest_version,
    get_env_id,
    load_env_creator,
    parse_env_id,
)

from vagen_envs.errors import ConfigError, did_you_mean, shown

ENTRY_POINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "vagen/Sokoban-v0": ("vagen_envs.sokoban.env:SokobanEnv", {}),
    "vagen/FrozenLake-v0": ("vagen_envs.frozen_lake.env:FrozenLakeEnv", {}),
    "vagen/Navigation-v0": ("vagen_envs.navigation.env:NavigationEnv", {}),
    "vagen/PrimitiveSkillPlace-v0": (
        "vagen_envs.primitive_skill.env:PrimitiveSkillEnv",
        {"task": "place"},
    ),
    "vagen/PrimitiveSkillStack-v0": (
        "vagen_envs.primitive_skill.env:PrimitiveSkillEnv",
        {"task": "stack"},
    ),
    "vagen/PrimitiveSkillDrawer-v0": (
        "vagen_envs.primitive_skill.env:PrimitiveSkillEnv",
        {"task": "drawer"},
    ),
    "vagen/PrimitiveSkillAlign-v0": (
        "vagen_envs.primitive_skill.env:PrimitiveSkillEnv",
        {"task": "align"},
    ),
    "vagen/PrimitiveSkill-v0": ("vagen_envs.primitive_skill.env:PrimitiveSkillEnv", {}),
    "vagen/SVGReconstruction-v0": ("vagen_envs.svg.env:SvgEnv", {}),
    "vagen/Sample-v0": ("vagen_envs.sample.env:SampleEnv", {}),
}
"""Id, entry point (imported when the environment is made, not before), and options of the id."""

ENV_IDS: tuple[str, ...] = tuple(ENTRY_POINTS)

FOLDERS = frozenset(entry_point.split(".")[1] for entry_point, _ in ENTRY_POINTS.values())
"""Packages of this one with an environment; the kind of its states has the same name."""


def spec_of(env_id: str) -> EnvSpec:
    """What Gymnasium knows of an id, of its latest version if it names none. Imports and raises as
    `declared`.
    """
    module, _, name = str(env_id).rpartition(":")
    try:
        if module:
            __import__(module)  # `import_module` raises TypeError for a relative name
        space, bare, version = parse_env_id(name)
        newest = find_highest_version(space, bare) if version is None else None
        return gym.spec(name if newest is None else get_env_id(space, bare, newest))
    except (gym.error.Error, ModuleNotFoundError) as error:
        why = f" ({error})" if module else ""
        own = "Import the module that registers your own first, or name it MODULE:ID"
        raise ConfigError(
            f"unknown environment {shown(env_id)}{why}.{did_you_mean(name, ENV_IDS)} {own}"
        ) from None


def declared(env_id: str) -> tuple[EnvSpec, Any]:
    """What Gymnasium knows of an id, and the class or function that makes its environment.

    Args:
        env_id: a registered id, or `module:id`, for which the module is imported; `gym.spec` alone
            doesn't do that.

    Raises:
        ConfigError: there is no such id or module.
    """
    spec = spec_of(env_id)
    entry = spec.entry_point
    return spec, load_env_creator(entry) if isinstance(entry, str) else entry


def register_all() -> None:
    """Register every id with Gymnasium. May be called twice."""
    for env_id, (entry_point, options) in ENTRY_POINTS.items():
        if env_id not in gym.registry:
            gym.register(id=env_id, entry_point=entry_point, kwargs=options)
