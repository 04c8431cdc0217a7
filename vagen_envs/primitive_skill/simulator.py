"""The only way from here to ManiSkill: levels go in, skills are carried out, positions and pictures
come out.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vagen_envs.errors import MissingExtraError, SimulatorError
from vagen_envs.pictures import Pixels
from vagen_envs.primitive_skill import ENV_ID
from vagen_envs.primitive_skill.levels import TARGETS, ManipulationLevel
from vagen_envs.primitive_skill.skills import SKILLS, Arrived, SkillCall, Waypoint
from vagen_envs.primitive_skill.state import PrimitiveSkillState

try:
    import mani_skill  # noqa: F401 - named first in the error if it is missing
    import torch
except ModuleNotFoundError as error:
    raise MissingExtraError(ENV_ID, "primitive-skill", error.name or "mani_skill") from error
except ImportError as error:  # SAPIEN and OpenCV are there, and lack a library of the system
    cause = (
        f"{error}. Its libraries come with Mesa's Vulkan drivers: run `vagen setup vulkan` as root"
    )
    raise SimulatorError(ENV_ID, cause) from error

from vagen_envs.primitive_skill import scene
from vagen_envs.primitive_skill.kinematics import Floats, InverseKinematics
from vagen_envs.primitive_skill.rendering import renderer

OPEN = 1.0
CLOSED = -1.0
"""Targets of the fingers, as ManiSkill scales them: 80 mm apart, and pressing against each
other.
"""
_STRAIGHT = 0.016
_FREE = 0.09
"""Metres and radians that a control step of 50 ms moves the hand along a line, and a joint along
the shortest way.
"""
_AT_HAND = 0.15
"""Metres from the fingertips beyond which nothing is asked whether it is held: to ask takes 1.6 ms
an object, which was a sixth of a skill among six cubes."""


class ManipulationSimulator:
    """Plays levels the same, bit for bit, in every process and after any other level. Physics is
    computed on the CPU.

    Args:
        picture_size: height and width in pixels; 0 needs no Vulkan driver and takes no pictures.
        device: `"cpu"` or `"gpu"`, which renders. Raises SimulatorError if it has no driver.
    """

    def __init__(self, picture_size: int, device: str = "cpu") -> None:
        logging.getLogger("mani_skill").setLevel(logging.ERROR)
        if picture_size:
            renderer(device)
        self._picture_size = picture_size
        self._device = device
        self._scene: Any = None
        self._level: ManipulationLevel | None = None
        self._calls: list[SkillCall] = []
        self._results: list[tuple[str, PrimitiveSkillState]] = []

    def run(
        self, level: ManipulationLevel, calls: Sequence[SkillCall]
    ) -> tuple[str, PrimitiveSkillState]:
        """What the last of the skills reports as failed, if anything, and the state then.

        What is missing is played. What was played before, further skills among it, is remembered.
        """
        # unknown, should the simulator break
        known = self._level
        self._level = None
        shared = min(len(calls), len(self._calls))
        if known != level or self._calls[:shared] != list(calls[:shared]):
            self._load(level)
            self._calls = []
            self._results = [("", self._state(level))]
        for call in calls[len(self._calls) :]:
            failed = self._play(call)
            self._calls.append(call)
            self._results.append((failed, self._state(level)))
        self._level = level
        return self._results[len(calls)]

    def picture(self, level: ManipulationLevel, calls: Sequence[SkillCall]) -> Pixels:
        """What the camera sees after the skills: uint8 (size, size, 3), a fresh array."""
        if len(self._calls) > len(calls):
            self._level = None  # the scene is further on
        self.run(level, calls)
        self._scene.scene.update_render()
        camera = self._scene._sensors["third_person"]
        camera.capture()
        rgb = camera.get_obs(rgb=True, depth=False, position=False, segmentation=False)["rgb"]
        pixels: Pixels = rgb[0].cpu().numpy().copy()
        return pixels

    def close(self) -> None:
        """Free the scene."""
        if self._scene is not None:
            self._scene.close()
            self._scene = self._level = None

    # -- moving ------------------------------------------------------------------------------------

    def _load(self, level: ManipulationLevel) -> None:
        """Start a level. The scene is built anew: otherwise physics would depend on what was played
        before.
        """
        if self._scene is None:
            backend = self._device if self._picture_size else "none"
            self._scene = scene.ManipulationScene(
                level, self._picture_size or 1, sim_backend="cpu", render_backend=backend
            )
        else:
            self._scene.level = level
            self._scene.reset(seed=0, options={"reconfigure": True})
        self._agent = self._scene.agent
        self._foot = (level.arm_x / 1000, 0, 0)
        self._targets = np.array([*scene.HOME_JOINTS, OPEN])
        self._ik = InverseKinematics(self._agent.robot._objs[0])
        self._settle()

    def _play(self, call: SkillCall) -> str:
        """Carry out a skill. Returns what failed, or nothing."""
        name, numbers = call
        skill = SKILLS[name](*numbers, holding=self._held())
        try:
            waypoint = next(skill)
            while True:
                waypoint = skill.send(self._move(waypoint))
        except StopIteration as end:
            failed: str = end.value
        self._settle()
        return failed

    def _move(self, goal: Waypoint) -> Arrived:
        """Bring the hand to a waypoint, then move its fingers."""
        path, reachable = self._path(goal)
        for joints in path:
            self._targets[:7] = joints
            self._control_step()
        # Of 160 waits of the oracle's (place, stack) 80 took all ten steps, 16 a single one, the
        # others 6 to 9.
        self._wait(most=10)
        fingers = CLOSED if goal.closed else OPEN
        if self._targets[7] != fingers:
            self._targets[7] = fingers
            # A quarter of a second first: fingers that begin to move are as slow as fingers that
            # have arrived.
            for _ in range(5):
                self._control_step()
            # 16 of 32 waits, of fingers that opened, were still at once; those that close press on
            # and take all six.
            self._wait(most=6)
        x, y, z = self._hand() * 1000
        return Arrived(
            (float(x), float(y), float(z)), reachable, self._held() if goal.closed else ""
        )

    def _path(self, goal: Waypoint) -> tuple[list[Floats], bool]:
        """The joint angles along the way, and whether the arm can go it; if not, they end where it
        can't go on.
        """
        home = np.array(scene.HOME_JOINTS)
        if goal.at is None:
            return self._free(home), True
        hand = self._hand()
        end = np.array(goal.at, float) / 1000
        count = (
            max(1, math.ceil(float(np.linalg.norm(end - hand)) / _STRAIGHT)) if goal.straight else 1
        )
        last = self._targets[:7].copy() if goal.straight else home
        path: list[Floats] = []
        for share in np.linspace(0, 1, count + 1)[1:]:
            joints = self._ik.solve(last, hand + share * (end - hand) - self._foot, goal.turn)
            if joints is None:
                return path, False
            path.append(joints)
            last = joints
        return (path if goal.straight else self._free(last)), True

    def _free(self, end: Floats) -> list[Floats]:
        start = self._targets[:7].copy()
        count = max(1, math.ceil(float(np.abs(end - start).max()) / _FREE))
        return [start + share * (end - start) for share in np.linspace(0, 1, count + 1)[1:]]

    def _wait(self, most: int) -> None:
        """Until the arm stands still, or for `most` control steps."""
        for _ in range(most):
            self._control_step()
            # Radians a second: in a control step, 0.05 s, a hand 0.8 m out then moves by 0.8 mm.
            if float(np.abs(_row(self._agent.robot.get_qvel())).max()) < 0.02:
                return

    def _settle(self) -> None:
        """Until what fell lies still, or for two seconds."""
        bodies = list(self._scene.bodies.values())
        # What a gripper holds is never that still: while a cube is carried all 40 steps are taken.
        for _ in range(40):
            self._control_step()
            # Metres a second, which is 0.15 mm in a control step; positions are told in whole
            # millimetres.
            if max(float(np.abs(_row(body.linear_velocity)).max()) for body in bodies) < 0.003:
                return

    def _control_step(self) -> None:
        self._scene.control(torch.as_tensor(self._targets, dtype=torch.float32)[None])

    # -- measuring ---------------------------------------------------------------------------------

    def _state(self, level: ManipulationLevel) -> PrimitiveSkillState:
        bodies = self._scene.bodies.items()
        positions = {
            name: tuple(np.rint(1000 * _row(body.pose.p)).astype(int).tolist())
            for name, body in bodies
        }
        opened = None
        if level.cabinet is not None:
            opened = round(1000 * self._scene.opened())
            positions |= {
                "drawer": level.cabinet.box_at(opened),
                "handle": level.cabinet.handle_at(opened),
            }
        positions |= {name: TARGETS[name] for name in level.targets}
        x, y, z = np.rint(1000 * self._hand()).astype(int).tolist()
        fingers = round(1000 * float(_row(self._agent.robot.get_qpos())[7:].sum()))
        turns = {name: _turn(_row(body.pose.q)) for name, body in bodies}
        return PrimitiveSkillState(
            level.task, positions, self._held(), opened, (x, y, z), fingers, turns
        )

    def _hand(self) -> Floats:
        return _row(self._agent.tcp.pose.p)

    def _held(self) -> str:
        if self._targets[7] != CLOSED:
            return ""
        hand = self._hand()
        for name, body in self._scene.bodies.items():
            near = np.abs(_row(body.pose.p) - hand).max() < _AT_HAND
            if near and bool(self._agent.is_grasping(body)[0]):
                return str(name)
        return ""


def _row(tensor: Any) -> Floats:
    row: Floats = tensor.cpu().numpy()[0].astype(float)
    return row


def _turn(quaternion: Floats) -> tuple[int, int, int]:
    """Roll, pitch and yaw in whole degrees."""
    w, x, y, z = quaternion
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    sine = 2 * (w * y - z * x)
    pitch = math.asin(max(-1.0, min(1.0, sine)))
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    whole_roll = round(math.degrees(roll))
    whole_pitch = round(math.degrees(pitch))
    whole_yaw = round(math.degrees(yaw))
    return whole_roll, whole_pitch, whole_yaw
