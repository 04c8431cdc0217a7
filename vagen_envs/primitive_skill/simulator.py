"""The only way from here to ManiSkill: levels go in, skills are carried out, positions and pictures come out."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vagen_envs.errors import MissingExtraError, SimulatorError
from vagen_envs.primitive_skill import ENV_ID
from vagen_envs.primitive_skill.levels import Facts, Level, Vector
from vagen_envs.primitive_skill.skills import SKILLS, Arrived, Call, Skill, Waypoint

try:
    import mani_skill  # noqa: F401 - named first in the error if it is missing
    import torch
except ModuleNotFoundError as error:
    raise MissingExtraError(ENV_ID, "primitive-skill", error.name or "mani_skill") from error
except ImportError as error:  # SAPIEN and OpenCV are there, and lack a library of the system
    cause = f"{error}. Its libraries come with Mesa's Vulkan drivers: run scripts/setup_vulkan.sh as root"
    raise SimulatorError(ENV_ID, cause) from error

from vagen_envs.primitive_skill import scene
from vagen_envs.primitive_skill.drivers import check_gpu, renderer
from vagen_envs.primitive_skill.kinematics import BatchedIK, Floats, InverseKinematics, PinocchioIK

OPEN, CLOSED = 1.0, -1.0
"""Targets of the fingers, as ManiSkill scales them: 80 mm apart, and pressing against each other."""
_STRAIGHT, _FREE = 0.016, 0.09
"""Metres and radians that a control step of 50 ms moves the hand along a line, and a joint along the shortest way."""
_AT_HAND = 0.15
"""Metres from the fingertips beyond which nothing is asked whether it is held: to ask takes 1.6 ms a thing, which was a
sixth of a skill among six cubes."""


class Simulator:
    """Copies of one task's scene that play their levels at the same time.

    On a CPU there is one copy, and a level plays the same, bit for bit, in every process and after
    anything else. On a GPU there may be many; they move in lockstep, and physics repeats only nearly.

    Args:
        levels: one a copy, all of one task; they decide which scene is built.
        picture_size: height and width in pixels; 0 needs no Vulkan driver and takes no pictures.
        device: `"cpu"` or `"gpu"`.

    Raises:
        SimulatorError: no driver for pictures, or no GPU; the message says how to get one.
    """

    def __init__(self, levels: Sequence[Level], picture_size: int, device: str = "cpu") -> None:
        logging.getLogger("mani_skill").setLevel(logging.ERROR)
        if picture_size:
            renderer(device)
        if device == "gpu":
            check_gpu()
        elif len(levels) != 1:
            raise ValueError(f"{len(levels)} levels at once need device='gpu'; a CPU simulates one")
        self._device = device
        self._scene = scene.Scene(
            levels, picture_size or 1, sim_backend=device, render_backend=device if picture_size else "none"
        )
        self._begin()
        self._settle(range(len(levels)))

    def load(self, levels: Mapping[int, Level]) -> None:
        """Put copies back to the start of these levels. On a CPU everything is built anew, so that it is exact."""
        if self._device == "cpu":
            self._scene.levels = [levels[0]]
            self._scene.reset(seed=0, options={"reconfigure": True})
            self._begin()
        else:
            for copy, level in levels.items():
                self._scene.levels[copy] = level
            which = torch.tensor(sorted(levels), device=self._scene.device)
            self._scene.reset(seed=0, options={"env_idx": which})
            self._targets[sorted(levels)] = [*scene.HOME_JOINTS, OPEN]
        self._settle(sorted(levels))

    def run(self, calls: Mapping[int, Call]) -> dict[int, str]:
        """Carry out one skill in each of these copies; what each has to say of what failed."""
        said: dict[int, str] = {}
        skills: dict[int, Skill] = {}
        goals: dict[int, Waypoint] = {}
        for copy, (name, numbers) in calls.items():
            skills[copy] = SKILLS[name](*numbers, holding=self._held(copy))
            self._advance(skills, copy, None, goals, said)
        while goals:
            for copy, arrived in self._move(goals).items():
                self._advance(skills, copy, arrived, goals, said)
        self._settle(sorted(calls))
        return said

    def facts(self, copy: int = 0) -> Facts:
        """What is true in a copy now."""
        positions = {name: _millimetres(self._row(body.pose.p, copy)) for name, body in self._scene.bodies.items()}
        opened = None
        cabinet = self._scene.levels[copy].cabinet
        if cabinet is not None:
            opened = round(1000 * float(self._rows(self._scene.opened())[copy]))
            positions["drawer"], positions["handle"] = cabinet.box_at(opened), cabinet.handle_at(opened)
        return Facts(positions, self._held(copy), opened)

    def pictures(self) -> NDArray[np.uint8]:
        """One picture of each copy, uint8 (copies, size, size, 3). Fresh arrays."""
        self._scene.scene.update_render()
        camera = self._scene._sensors["third_person"]
        camera.capture()
        rgb = camera.get_obs(rgb=True, depth=False, position=False, segmentation=False)["rgb"]
        pixels: NDArray[np.uint8] = rgb.cpu().numpy().copy()
        return pixels

    def close(self) -> None:
        """Free the scene."""
        self._scene.close()

    # -- moving ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._arm = self._scene.agent.robot
        self._foot = (self._scene.levels[0].arm_x / 1000, 0, 0)
        count = len(self._scene.levels)
        self._targets = np.tile([*scene.HOME_JOINTS, OPEN], (count, 1))
        self._ik: InverseKinematics = (
            PinocchioIK(self._arm._objs[0])
            if self._device == "cpu"
            else BatchedIK(self._scene.agent.urdf_path, str(self._scene.device))
        )

    def _advance(
        self,
        skills: dict[int, Skill],
        copy: int,
        arrived: Arrived | None,
        goals: dict[int, Waypoint],
        said: dict[int, str],
    ) -> None:
        try:
            goals[copy] = next(skills[copy]) if arrived is None else skills[copy].send(arrived)
        except StopIteration as end:
            goals.pop(copy, None)
            said[copy] = end.value

    def _move(self, goals: Mapping[int, Waypoint]) -> dict[int, Arrived]:
        """Bring each hand to its waypoint, then move its fingers; the others stay as they are."""
        paths, reachable = self._paths(goals)
        for step in range(max(map(len, paths.values()))):
            for copy, path in paths.items():
                if step < len(path):
                    self._targets[copy, :7] = path[step]
            self._control_step()
        copies = list(goals)
        # Of 160 waits of the oracle's (place, stack) 80 took all ten steps, 16 a single one, the others 6 to 9.
        self._wait(copies, most=10)
        moved = False
        for copy, goal in goals.items():
            fingers = CLOSED if goal.closed else OPEN
            moved |= bool(self._targets[copy, 7] != fingers)
            self._targets[copy, 7] = fingers
        if moved:
            # A quarter of a second first: fingers that begin to move are as slow as fingers that have arrived.
            for _ in range(5):
                self._control_step()
            # 16 of 32 waits, of fingers that opened, were still at once; those that close press on and take all six.
            self._wait(copies, most=6)
        hands = self._rows(self._scene.agent.tcp.pose.p) * 1000
        return {
            copy: Arrived(tuple(hands[copy].tolist()), reachable[copy], self._held(copy) if goal.closed else "")
            for copy, goal in goals.items()
        }

    def _paths(self, goals: Mapping[int, Waypoint]) -> tuple[dict[int, list[Floats]], dict[int, bool]]:
        """The joint angles along each way. A way that the arm can't go ends where it stops being possible."""
        hands = self._rows(self._scene.agent.tcp.pose.p)
        lines: dict[int, Floats] = {}
        for copy, goal in goals.items():
            if goal.at is None:
                continue
            end = np.array(goal.at, float) / 1000
            distance = float(np.linalg.norm(end - hands[copy]))
            count = max(1, math.ceil(distance / _STRAIGHT)) if goal.straight else 1
            shares = np.linspace(0, 1, count + 1)[1:, None]
            lines[copy] = hands[copy] + shares * (end - hands[copy])
        paths: dict[int, list[Floats]] = {copy: [] for copy in goals}
        reachable = dict.fromkeys(goals, True)
        last = {copy: self._targets[copy, :7].copy() if goal.straight else np.array(scene.HOME_JOINTS)
                for copy, goal in goals.items()}  # fmt: skip
        for i in range(max(map(len, lines.values()), default=0)):
            rows = [copy for copy, line in lines.items() if i < len(line) and reachable[copy]]
            if not rows:
                break
            at = np.array([lines[copy][i] for copy in rows]) - self._foot
            turns = np.array([goals[copy].turn for copy in rows])
            found, good = self._ik.solve(np.array([last[copy] for copy in rows]), at, turns)
            for copy, joints, solved in zip(rows, found, good, strict=True):
                if solved:
                    paths[copy].append(joints)
                    last[copy] = joints
                else:
                    reachable[copy] = False
        for copy, goal in goals.items():
            if goal.at is None:
                paths[copy] = self._free(copy, np.array(scene.HOME_JOINTS))
            elif not goal.straight and reachable[copy]:
                paths[copy] = self._free(copy, last[copy])
        return paths, reachable

    def _free(self, copy: int, end: Floats) -> list[Floats]:
        start = self._targets[copy, :7].copy()
        count = max(1, math.ceil(float(np.abs(end - start).max()) / _FREE))
        return [start + share * (end - start) for share in np.linspace(0, 1, count + 1)[1:]]

    def _wait(self, copies: Sequence[int], most: int) -> None:
        """Until the arms stand still, or for `most` control steps."""
        for _ in range(most):
            self._control_step()
            # Radians a second: in a control step, 0.05 s, a hand 0.8 m out then moves by 0.8 mm.
            if float(np.abs(self._rows(self._arm.get_qvel())[copies]).max()) < 0.02:
                return

    def _settle(self, copies: Sequence[int]) -> None:
        """Until what fell lies still, or for two seconds."""
        bodies = list(self._scene.bodies.values())
        # What a gripper holds is never that still: while a cube is carried all 40 steps are taken.
        for _ in range(40):
            self._control_step()
            speeds = [float(np.abs(self._rows(body.linear_velocity)[copies]).max()) for body in bodies]
            # Metres a second, which is 0.15 mm in a control step; positions are told in whole millimetres.
            if max(speeds) < 0.003:
                return

    def _control_step(self) -> None:
        self._scene.control(torch.as_tensor(self._targets, dtype=torch.float32, device=self._scene.device))

    # -- measuring ---------------------------------------------------------------------------------

    def _held(self, copy: int) -> str:
        if self._targets[copy, 7] != CLOSED:
            return ""
        hand = self._row(self._scene.agent.tcp.pose.p, copy)
        for name, body in self._scene.bodies.items():
            near = np.abs(self._row(body.pose.p, copy) - hand).max() < _AT_HAND
            if near and bool(self._scene.agent.is_grasping(body)[copy]):
                return str(name)
        return ""

    def _rows(self, tensor: Any) -> Floats:
        rows: Floats = tensor.cpu().numpy().astype(float)
        return rows

    def _row(self, tensor: Any, copy: int) -> Floats:
        row: Floats = self._rows(tensor)[copy]
        return row


def _millimetres(metres: Sequence[float] | Floats) -> Vector:
    x, y, z = (round(float(value) * 1000) for value in metres)
    return x, y, z
