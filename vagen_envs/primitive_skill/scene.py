"""The scenes, built from boxes, discs and a sphere: no downloads. Or the published drawer scene,
from its files.

Imported only by `simulator.py`, which imports ManiSkill, SAPIEN and torch.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sapien
import torch
from mani_skill.envs.sapien_env import BaseEnv
from mani_skill.sensors.camera import CameraConfig
from mani_skill.utils import sapien_utils

from vagen_envs.errors import ConfigError
from vagen_envs.primitive_skill.cabinets import STANDS, TRAVEL, TURN, Cabinet, PublishedCabinet
from vagen_envs.primitive_skill.levels import APPLE_RADIUS, CUBE, TARGETS, ManipulationLevel
from vagen_envs.primitive_skill.view import view_of

_DATA = tomllib.loads(Path(__file__).with_name("scene.toml").read_text(encoding="utf-8"))

HOME_JOINTS = (0.0, -0.3, 0.0, -2.55, 0.0, 2.25, math.pi / 4)
"""Joint angles, in radians, with the hand drawn back and pointing straight down."""
_ABOVE = sapien.Pose(p=[0, 0, 1])
"""Where things that can be moved are until the episode begins."""
_APART = 29
"""A collision bit: things that have it don't collide. ManiSkill's cabinets have it, for their parts
overlap.
"""


class ManipulationScene(BaseEnv):  # type: ignore[misc]
    """A Panda arm and what `level` needs, which may be set before a `reset`."""

    SUPPORTED_ROBOTS = ("panda",)

    def __init__(self, level: ManipulationLevel, picture_size: int, **options: Any) -> None:
        self.level = level
        cabinet = level.cabinet
        self._published = cabinet if isinstance(cabinet, PublishedCabinet) else None
        self._picture_size = picture_size
        super().__init__(
            num_envs=1,
            robot_uids="panda",
            obs_mode="none",
            reward_mode="none",
            control_mode="pd_joint_pos",
            **options,
        )

    @property
    def _default_sensor_configs(self) -> list[CameraConfig]:
        view = view_of(self.level.task, self._published is not None)
        eye = [value / 1000 for value in view.eye]
        target = [value / 1000 for value in view.target]
        pose = sapien_utils.look_at(eye, target)
        side = self._picture_size
        return [
            CameraConfig(
                "third_person", pose, side, side, view.field, 0.05, 10.0, shader_pack="default"
            )
        ]

    def _load_agent(self, options: dict[str, Any]) -> None:
        super()._load_agent(options, _pose((self.level.arm_x, 0, 0)))

    def _load_lighting(self, options: dict[str, Any]) -> None:
        self.scene.set_ambient_light([0.45, 0.45, 0.47])
        self.scene.add_directional_light(**_DATA["light"])

    def _load_scene(self, options: dict[str, Any]) -> None:
        level = self.level
        published = self._published
        for thing in _DATA["surroundings"]["published" if published else "simple"]:
            self._fixed(**thing)
        self.bodies = {body.name: self._movable(body.name) for body in level.bodies}
        self.cabinet: Any = None
        if level.cabinet:
            self.cabinet = (
                _build_published_cabinet(self.scene, published)
                if published
                else self._build_cabinet()
            )
            slides = published.joint if published else "slide"
            self._slide = [joint.name for joint in self.cabinet.active_joints].index(slides)
        for name in level.targets:
            self._fixed(name, [value / 1000 for value in TARGETS[name]], _DATA["looks"]["target"])
        if level.task == "align":
            self._fixed(**_DATA["surroundings"]["line"])

    def _initialize_episode(self, env_idx: torch.Tensor, options: dict[str, Any]) -> None:
        self.agent.reset(torch.tensor([[*HOME_JOINTS, 0.04, 0.04]]))
        for body in self.level.bodies:
            turn = math.radians(body.yaw) / 2
            upright = [math.cos(turn), 0, 0, math.sin(turn)]
            self.bodies[body.name].set_pose(_pose(body.at, upright))
        cabinet = self.level.cabinet
        if isinstance(cabinet, Cabinet):
            self.cabinet.set_pose(_pose((cabinet.x, cabinet.front, 0)))
        if cabinet:
            joints = self.cabinet.get_qlimits()[:, :, 0].clone()
            joints[:, self._slide] += torch.tensor(float(cabinet.opened)) / 1000
            self.cabinet.set_qpos(joints)
            self.cabinet.set_qvel(torch.zeros_like(joints))

    def opened(self) -> float:
        """How far the drawer is pulled out, in metres."""
        return float(
            (self.cabinet.get_qpos() - self.cabinet.get_qlimits()[:, :, 0])[0, self._slide]
        )

    def control(self, targets: torch.Tensor) -> None:
        """Simulate one control step of 50 ms.

        `BaseEnv.step` would besides observe and reward, and warn at each step through NumPy 2. The
        (1, 8) targets are of the seven joints in radians and of the fingers from -1 to 1.
        """
        self.agent.controller.set_action(targets)
        for _ in range(self._sim_steps_per_control):
            self.scene.step()

    # -- the things --------------------------------------------------------------------------------

    def _fixed(
        self, name: str, at: Sequence[float], parts: list[dict[str, Any]], *, solid: bool = False
    ) -> None:
        builder = self.scene.create_actor_builder()
        for part in parts:
            self._draw(builder, **part)
            if solid:
                builder.add_box_collision(half_size=part["half_size"])
        builder.initial_pose = sapien.Pose(p=at)
        builder.build_static(name=name)

    def _movable(self, name: str) -> Any:
        builder = self.scene.create_actor_builder()
        builder.initial_pose = _ABOVE
        if name != "apple":
            half = [CUBE / 2000] * 3
            builder.add_box_collision(half_size=half)
            self._draw(builder, _DATA["cubes"][name], half_size=half)
            return builder.build(name=name)
        if self._published:
            collision, look = self._published.apple_files
            size = [self._published.apple_scale] * 3
            density = self._published.apple_density
            builder.add_multiple_convex_collisions_from_file(collision, scale=size, density=density)
            builder.add_visual_from_file(look, scale=size)
        else:
            builder.add_sphere_collision(radius=APPLE_RADIUS / 1000, density=600)
            for part in _DATA["looks"]["apple"]:
                self._draw(builder, **part)
        apple = builder.build(name=name)
        if self._published:
            _check_collisions(apple._bodies, collision)
        for body in apple._bodies:  # a perfect sphere would roll for ever
            body.set_angular_damping(20.0)
            body.set_linear_damping(0.5)
        return apple

    def _build_cabinet(self) -> Any:
        builder = self.scene.create_articulation_builder()
        shell = builder.create_link_builder()
        shell.set_name("cabinet")
        drawer = builder.create_link_builder(shell)
        drawer.set_name("drawer")
        for link, name in ((shell, "shell"), (drawer, "drawer")):
            for board in _DATA["cabinet"][name]:
                link.add_box_collision(
                    pose=sapien.Pose(p=board["at"]), half_size=board["half_size"], density=300
                )
                self._draw(link, **board)
        # A joint slides along its own x.
        along_y = sapien.Pose(q=[math.sqrt(0.5), 0, 0, math.sqrt(0.5)])
        drawer.set_joint_name("slide")
        drawer.set_joint_properties(
            "prismatic", [[0, TRAVEL / 1000]], along_y, along_y, friction=0.3, damping=15.0
        )
        builder.initial_pose = sapien.Pose(p=[-0.3, -0.33, 0])
        return builder.build(name="cabinet", fix_root_link=True)

    def _draw(
        self,
        builder: Any,
        colour: Sequence[float],
        shape: str = "box",
        roughness: float = 0.8,
        at: Sequence[float] = (0, 0, 0),
        turn: Sequence[float] = (1, 0, 0, 0),
        **size: Any,
    ) -> None:
        """Give a thing a look. Without pictures there is no driver perhaps, and SAPIEN can't even
        make a colour.
        """
        if self.scene.can_render():
            paint = sapien.render.RenderMaterial(
                base_color=[*colour, 1.0], roughness=roughness, specular=0.3
            )
            getattr(builder, f"add_{shape}_visual")(
                pose=sapien.Pose(at, turn), material=paint, **size
            )


def _pose(at: Sequence[int], turn: Sequence[float] = (1, 0, 0, 0)) -> sapien.Pose:
    """A pose in millimetres, with a quaternion."""
    return sapien.Pose([value / 1000 for value in at], turn)


def _build_published_cabinet(scene: Any, cabinet: PublishedCabinet) -> Any:
    """PartNet-Mobility's cabinet, closed."""
    loader = scene.create_urdf_loader()
    loader.fix_root_link = True
    loader.scale = cabinet.scale
    loader.load_multiple_collisions_from_file = True
    loader.set_material(static_friction=1, dynamic_friction=1, restitution=0)
    sapien.set_log_level("off")  # it warns of every long thin board
    builder = loader.parse(cabinet.urdf)["articulation_builders"][0]
    builder.initial_pose = sapien.Pose(
        [*STANDS, cabinet.lift], [math.cos(TURN / 2), 0, 0, math.sin(TURN / 2)]
    )
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
    """SAPIEN leaves out a collision mesh that it can't read, and the thing would fall through the
    floor.
    """
    if not any(body.get_collision_shapes() for body in bodies):
        raise ConfigError(f"SAPIEN can't read the collision meshes of {file}; download them again")
