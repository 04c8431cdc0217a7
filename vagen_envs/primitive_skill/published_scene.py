"""Builds the published drawer scene's things. Imported only by `scene.py`."""

from __future__ import annotations

import math
from typing import Any

import sapien

from vagen_envs.errors import ConfigError
from vagen_envs.primitive_skill.published import STANDS, TURN, PublishedCabinet

_APART = 29
"""A collision bit: things that have it don't collide. ManiSkill's cabinets have it, for their parts overlap."""


def build_apple(scene: Any, cabinet: PublishedCabinet) -> Any:
    """YCB's apple."""
    builder = scene.create_actor_builder()
    collision, look = cabinet.apple_files
    size = [cabinet.apple_scale] * 3
    builder.add_multiple_convex_collisions_from_file(collision, scale=size, density=cabinet.apple_density)
    builder.add_visual_from_file(look, scale=size)
    builder.initial_pose = sapien.Pose(p=[0, 0, 1])
    apple = builder.build(name="apple")
    _check(apple._bodies, collision)
    return apple


def build_cabinet(scene: Any, cabinet: PublishedCabinet) -> Any:
    """PartNet-Mobility's cabinet, closed."""
    loader = scene.create_urdf_loader()
    loader.fix_root_link = True
    loader.scale = cabinet.scale
    loader.load_multiple_collisions_from_file = True
    loader.set_material(static_friction=1, dynamic_friction=1, restitution=0)
    sapien.set_log_level("off")  # it warns of every long thin board
    builder = loader.parse(cabinet.urdf)["articulation_builders"][0]
    builder.initial_pose = sapien.Pose([*STANDS, cabinet.lift], [math.cos(TURN / 2), 0, 0, math.sin(TURN / 2)])
    built = builder.build(name="cabinet")
    sapien.set_log_level("warn")
    _check([body for link in built.links for body in link._bodies], cabinet.urdf)
    for link in built.links:
        link.set_collision_group_bit(group=2, bit_idx=_APART, bit=1)
    for joint in built.active_joints:  # PartNet's have neither, and would open of themselves
        joint.set_friction(0.3)
        joint.set_drive_properties(0.0, 15.0)
    return built


def _check(bodies: list[Any], file: str) -> None:
    """SAPIEN leaves out a collision mesh that it can't read, and the thing would fall through the floor."""
    if not any(body.get_collision_shapes() for body in bodies):
        raise ConfigError(f"SAPIEN can't read the collision meshes of {file}; download them again")
