"""The scenes, built from boxes, discs and a sphere: no downloads. Or the published drawer scene, from its files.

Imported only by `simulator.py`, which imports ManiSkill, SAPIEN and torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sapien
import torch
from mani_skill.envs.sapien_env import BaseEnv
from mani_skill.sensors.camera import CameraConfig
from mani_skill.utils import sapien_utils
from mani_skill.utils.structs.pose import Pose

from vagen_envs.errors import ConfigError
from vagen_envs.primitive_skill.levels import (
    APPLE_RADIUS,
    CUBE,
    TARGET_RADIUS,
    TARGETS,
    TRAVEL,
    Cabinet,
    ManipulationLevel,
)
from vagen_envs.primitive_skill.published import STANDS, TURN, PublishedCabinet
from vagen_envs.primitive_skill.view import DRAWER, PUBLISHED, TABLE

Colour = tuple[float, float, float]

COLOURS: dict[str, Colour] = {
    "red_cube": (0.8, 0.05, 0.04),
    "green_cube": (0.05, 0.5, 0.08),
    "yellow_cube": (0.95, 0.7, 0.04),
    "blue_cube": (0.03, 0.16, 0.7),
    "purple_cube": (0.3, 0.06, 0.42),
    "white_cube": (0.9, 0.9, 0.9),
}
HOME_JOINTS = (0.0, -0.3, 0.0, -2.55, 0.0, 2.25, math.pi / 4)
"""Joint angles, in radians, with the hand drawn back and pointing straight down."""

# The cabinet, in metres, as seen along +y, the way its drawer opens.
_WIDTH, _DEPTH, _HEIGHT, _WALL = 0.22, 0.2, 0.112, 0.008
_HANDLE = (0.05, 0.02, 0.014)
_BOX = (_WIDTH / 2 - 0.02, _DEPTH / 2 - 0.01, 0.03)
# What `levels.Cabinet` says of the box and the handle follows from these.
_BOX_MIDDLE = -_DEPTH / 2
_HANDLE_MIDDLE, _HANDLE_HEIGHT = _BOX_MIDDLE + _BOX[1] + 1.5 * _WALL + _HANDLE[1], 0.045
_APART = 29
"""A collision bit: things that have it don't collide. ManiSkill's cabinets have it, for their parts overlap."""


class ManipulationScene(BaseEnv):  # type: ignore[misc]
    """A Panda arm and what a level needs.

    Attributes:
        level: set it before `reset`.
    """

    SUPPORTED_ROBOTS = ("panda",)

    def __init__(self, level: ManipulationLevel, picture_size: int, **options: Any) -> None:
        self.level, cabinet = level, level.cabinet
        self._published = cabinet if isinstance(cabinet, PublishedCabinet) else None
        self._picture_size = picture_size
        super().__init__(
            num_envs=1, robot_uids="panda", obs_mode="none", reward_mode="none", control_mode="pd_joint_pos", **options
        )

    @property
    def _default_sensor_configs(self) -> list[CameraConfig]:
        view = PUBLISHED if self._published else DRAWER if self.level.task == "drawer" else TABLE
        eye, target = ([value / 1000 for value in point] for point in (view.eye, view.target))
        pose = sapien_utils.look_at(eye, target)
        return [
            CameraConfig(
                "third_person",
                pose,
                self._picture_size,
                self._picture_size,
                view.field,
                0.05,
                10.0,
                shader_pack="default",
            )
        ]

    def _load_agent(self, options: dict[str, Any]) -> None:
        super()._load_agent(options, sapien.Pose(p=[self.level.arm_x / 1000, 0, 0]))

    def _load_lighting(self, options: dict[str, Any]) -> None:
        self.scene.set_ambient_light([0.45, 0.45, 0.47])
        self.scene.add_directional_light(
            [-0.5, 0.35, -1],
            [1.5, 1.45, 1.35],
            shadow=True,
            shadow_scale=1.6,
            shadow_near=-3,
            shadow_far=3,
            shadow_map_size=512,
        )

    def _load_scene(self, options: dict[str, Any]) -> None:
        level = self.level
        if self._published:
            self._fixed_box("floor", (6, 6, 0.05), (0, 0, -0.05), (0.62, 0.5, 0.37))
        else:
            self._fixed_box("table", (0.75, 1.2, 0.05), (-0.15, 0, -0.05), (0.62, 0.5, 0.37))
            self._fixed_box("floor", (6, 6, 0.05), (0, 0, -0.9), (0.42, 0.45, 0.5))
        self._fixed_box("wall", (0.05, 6, 3), (-1.9, 0, 1.5), (0.62, 0.66, 0.7))
        self.bodies = {body.name: self._cube(body.name) for body in level.bodies if body.name != "apple"}
        if level.cabinet:
            apple = _build_apple(self.scene, self._published) if self._published else self._apple()
            for body in apple._bodies:  # a perfect sphere would roll for ever
                body.set_angular_damping(20.0)
                body.set_linear_damping(0.5)
            self.bodies["apple"] = apple
        self.cabinet: Any = None
        self._slide = 0
        if self._published:
            self.cabinet = _build_published_cabinet(self.scene, self._published)
            self._slide = [joint.name for joint in self.cabinet.active_joints].index(self._published.joint)
        elif level.cabinet:
            self.cabinet = self._build_cabinet()
        for name in level.targets:
            self._disc(name)
        if level.task == "align":
            self._fixed_box("line", (0.004, 0.22, 0.0005), (0, 0, 0), (0.95, 0.95, 0.95), solid=False)

    def _initialize_episode(self, env_idx: torch.Tensor, options: dict[str, Any]) -> None:
        self.agent.reset(torch.tensor([[*HOME_JOINTS, 0.04, 0.04]]))
        for body in self.level.bodies:
            turn = math.radians(body.yaw) / 2
            at = torch.tensor([body.at]) / 1000
            quaternion = torch.tensor([[math.cos(turn), 0, 0, math.sin(turn)]])
            self.bodies[body.name].set_pose(Pose.create_from_pq(at, quaternion))
        cabinet = self.level.cabinet
        if isinstance(cabinet, Cabinet):
            self.cabinet.set_pose(Pose.create_from_pq(torch.tensor([[cabinet.x, cabinet.front, 0.0]]) / 1000))
        if cabinet:
            joints = self.cabinet.get_qlimits()[:, :, 0].clone()
            joints[:, self._slide] += torch.tensor(float(cabinet.opened)) / 1000
            self.cabinet.set_qpos(joints)
            self.cabinet.set_qvel(torch.zeros_like(joints))

    def opened(self) -> float:
        """How far the drawer is pulled out, in metres."""
        return float((self.cabinet.get_qpos() - self.cabinet.get_qlimits()[:, :, 0])[0, self._slide])

    def control(self, targets: torch.Tensor) -> None:
        """Simulate one control step of 50 ms.

        `BaseEnv.step` would besides observe and reward, and warn at each step through NumPy 2.

        Args:
            targets: (1, 8) of the seven joints in radians and of the fingers from -1 to 1.
        """
        self.agent.controller.set_action(targets)
        for _ in range(self._sim_steps_per_control):
            self.scene.step()

    # -- the things --------------------------------------------------------------------------------

    def _fixed_box(
        self, name: str, half: Sequence[float], at: Sequence[float], colour: Colour, *, solid: bool = True
    ) -> None:
        builder = self.scene.create_actor_builder()
        if solid:
            builder.add_box_collision(half_size=half)
        self._draw(builder, "box", colour, half_size=half)
        builder.initial_pose = sapien.Pose(p=at)
        builder.build_static(name=name)

    def _disc(self, name: str) -> None:
        builder = self.scene.create_actor_builder()
        flat = sapien.Pose(q=[math.sqrt(0.5), 0, math.sqrt(0.5), 0])  # SAPIEN's cylinders lie along x
        for part, colour in ((1.0, (0.1, 0.25, 0.7)), (0.72, (0.92, 0.92, 0.95)), (0.42, (0.1, 0.25, 0.7))):
            radius, half = TARGET_RADIUS * part / 1000, 0.0012 - 0.0006 * part
            self._draw(builder, "cylinder", colour, pose=flat, radius=radius, half_length=half)
        builder.initial_pose = sapien.Pose(p=[value / 1000 for value in TARGETS[name]])
        builder.build_static(name=name)

    def _cube(self, name: str) -> Any:
        builder = self.scene.create_actor_builder()
        half = [CUBE / 2000] * 3
        builder.add_box_collision(half_size=half)
        self._draw(builder, "box", COLOURS[name], half_size=half)
        builder.initial_pose = sapien.Pose(p=[0, 0, 1])
        return builder.build(name=name)

    def _apple(self) -> Any:
        builder = self.scene.create_actor_builder()
        radius = APPLE_RADIUS / 1000
        builder.add_sphere_collision(radius=radius, density=600)
        self._draw(builder, "sphere", (0.72, 0.04, 0.05), 0.35, radius=radius)
        stem = sapien.Pose([0, 0, radius], [math.sqrt(0.5), 0, math.sqrt(0.5), 0])
        self._draw(builder, "cylinder", (0.25, 0.13, 0.05), pose=stem, radius=0.0025, half_length=0.011)
        leaf = sapien.Pose([0.009, 0, radius + 0.005])
        self._draw(builder, "box", (0.1, 0.45, 0.08), pose=leaf, half_size=[0.009, 0.005, 0.0012])
        builder.initial_pose = sapien.Pose(p=[0, 0, 1])
        return builder.build(name="apple")

    def _build_cabinet(self) -> Any:
        builder = self.scene.create_articulation_builder()
        shell = builder.create_link_builder()
        shell.set_name("cabinet")
        wood, front = (0.36, 0.22, 0.12), (0.55, 0.36, 0.2)
        back = -_DEPTH / 2 - _WALL / 2
        side = (_WALL, _DEPTH / 2 + _WALL / 2, _HEIGHT / 2)
        for half, at in (
            (side, (_WIDTH / 2, back, _HEIGHT / 2)),
            (side, (-_WIDTH / 2, back, _HEIGHT / 2)),
            ((_WIDTH / 2, _WALL / 2, _HEIGHT / 2), (0, -_DEPTH - _WALL / 2, _HEIGHT / 2)),
            ((_WIDTH / 2 + _WALL, side[1], _WALL / 2), (0, back, _HEIGHT - _WALL / 2)),
            ((_WIDTH / 2, side[1], _WALL / 4), (0, back, _WALL / 4)),
        ):
            self._add_box(shell, half, at, wood)
        drawer = builder.create_link_builder(shell)
        drawer.set_name("drawer")
        x, y, z = _BOX
        middle, floor = _BOX_MIDDLE, 2 * _WALL
        for half, at in (
            ((x, y, _WALL / 2), (0, middle, floor)),
            ((_WALL / 2, y, z), (x, middle, floor + z)),
            ((_WALL / 2, y, z), (-x, middle, floor + z)),
            ((x, _WALL / 2, z), (0, middle - y, floor + z)),
            ((_WIDTH / 2, _WALL / 2, z + _WALL), (0, middle + y + _WALL, floor + z)),
        ):
            self._add_box(drawer, half, at, front)
        self._add_box(drawer, _HANDLE, (0, _HANDLE_MIDDLE, _HANDLE_HEIGHT), (0.75, 0.76, 0.78))
        along_y = [math.sqrt(0.5), 0, 0, math.sqrt(0.5)]  # a joint slides along its own x
        drawer.set_joint_name("slide")
        drawer.set_joint_properties(
            "prismatic",
            [[0, TRAVEL / 1000]],
            sapien.Pose(q=along_y),
            sapien.Pose(q=along_y),
            friction=0.3,
            damping=15.0,
        )
        builder.initial_pose = sapien.Pose(p=[-0.3, -0.33, 0])
        return builder.build(name="cabinet", fix_root_link=True)

    def _add_box(self, link: Any, half: Sequence[float], at: Sequence[float], colour: Colour) -> None:
        pose = sapien.Pose(p=at)
        link.add_box_collision(pose=pose, half_size=half, density=300)
        self._draw(link, "box", colour, pose=pose, half_size=half)

    def _draw(self, builder: Any, shape: str, colour: Colour, roughness: float = 0.8, **where: Any) -> None:
        """Give a thing a look. Without pictures there is no driver perhaps, and SAPIEN can't even make a colour."""
        if self.scene.can_render():
            paint = sapien.render.RenderMaterial(base_color=[*colour, 1.0], roughness=roughness, specular=0.3)
            getattr(builder, f"add_{shape}_visual")(material=paint, **where)


# -- the published drawer scene ----------------------------------------------------------------------


def _build_apple(scene: Any, cabinet: PublishedCabinet) -> Any:
    """YCB's apple."""
    builder = scene.create_actor_builder()
    collision, look = cabinet.apple_files
    size = [cabinet.apple_scale] * 3
    builder.add_multiple_convex_collisions_from_file(collision, scale=size, density=cabinet.apple_density)
    builder.add_visual_from_file(look, scale=size)
    builder.initial_pose = sapien.Pose(p=[0, 0, 1])
    apple = builder.build(name="apple")
    _check_collisions(apple._bodies, collision)
    return apple


def _build_published_cabinet(scene: Any, cabinet: PublishedCabinet) -> Any:
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
    _check_collisions([body for link in built.links for body in link._bodies], cabinet.urdf)
    for link in built.links:
        link.set_collision_group_bit(group=2, bit_idx=_APART, bit=1)
    for joint in built.active_joints:  # PartNet's have neither, and would open of themselves
        joint.set_friction(0.3)
        joint.set_drive_properties(0.0, 15.0)
    return built


def _check_collisions(bodies: list[Any], file: str) -> None:
    """SAPIEN leaves out a collision mesh that it can't read, and the thing would fall through the floor."""
    if not any(body.get_collision_shapes() for body in bodies):
        raise ConfigError(f"SAPIEN can't read the collision meshes of {file}; download them again")
