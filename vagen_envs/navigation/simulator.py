"""The embedded simulator: a furnished room in MuJoCo. Only this file and `camera` touch MuJoCo.

MuJoCo tests moves (collision of a swept hull), sees (rays) and renders.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vagen_envs.errors import SimulatorError
from vagen_envs.navigation import ENV_ID
from vagen_envs.navigation.camera import Camera, mujoco
from vagen_envs.navigation.house import House
from vagen_envs.navigation.mjcf import AGENT_RADIUS, WALL_HEIGHT, scene
from vagen_envs.navigation.scene import (
    ACTIONS,
    HIGHEST_LOOK,
    LOOK_STEP,
    LOWEST_LOOK,
    MOVES,
    TURN_STEP,
    VISIBILITY_DISTANCE,
    Metadata,
    Pose,
    heading,
)
from vagen_envs.pictures import Pixels

AGENT_Y = 0.9
EYE_Y = 1.576
"""Metres; AI2-THOR's default agent."""
_CEILING = 2
"""Its group of geoms in `mjcf.scene`."""
_MAP_DISTANCE = 20.0
"""Metres from which the map is seen, so that walls hardly lean."""
_PARTS = 4
"""Largest parts of a thing that are looked for: each at its middle and near its ends."""


class HouseSimulator:
    """One room and the agent in it.

    Args:
        house: the room.
        start: the agent's first pose.
        camera: where pictures are made; `None` if none will be asked for.
        step_length: metres of a move.
        field_of_view: of the camera, vertically and horizontally, in degrees.
        cast_shadows: have the lamp throw shadows, which takes a CPU four times as long.
    """

    def __init__(
        self,
        house: House,
        start: Pose,
        camera: Camera | None = None,
        *,
        step_length: float = 0.25,
        field_of_view: float = 100.0,
        cast_shadows: bool = False,
    ) -> None:
        self._mj = mj = mujoco()
        self.house, self.pose, self.camera = house, start, camera
        self.step_length, self.field_of_view = step_length, field_of_view
        resolution = camera.resolution if camera else 8
        xml, files = scene(house, step_length, field_of_view, resolution, cast_shadows)
        self._model = mj.MjModel.from_xml_string(xml, files)
        self._data = mj.MjData(self._model)
        mj.mj_forward(self._model, self._data)
        self._agent = self._model.nbody - 1
        self._last = ("Initialize", True, "")
        self._scene: Any = None
        self._points, self._owners = self._visibility_points()
        self._ids = [
            f"{each.kind}|{each.x / 100:+06.2f}|{each.z / 100:+06.2f}|{each.y / 100:+06.2f}" for each in house.things
        ]

    # -- acting ------------------------------------------------------------------------------------

    def step(self, action: str) -> bool:
        """Carry out one of AI2-THOR's eight actions, all or nothing. Whether it succeeded. Raises ValueError."""
        pose, error = self.pose, ""
        if action in MOVES:
            blocker = self._blocker(pose, action)
            if blocker:
                error = f"{blocker} is blocking the agent from moving"
            else:
                pose = pose.moved(action, self.step_length)
        elif action in ("RotateRight", "RotateLeft"):
            turn = TURN_STEP if action == "RotateRight" else -TURN_STEP
            pose = Pose(pose.x, pose.z, (pose.rotation + turn) % 360, pose.horizon)
        elif action in ("LookUp", "LookDown"):
            horizon = pose.horizon + (LOOK_STEP if action == "LookDown" else -LOOK_STEP)
            if HIGHEST_LOOK <= horizon <= LOWEST_LOOK:
                pose = Pose(pose.x, pose.z, pose.rotation, horizon)
            else:
                error = f"the camera can't look beyond {HIGHEST_LOOK} or {LOWEST_LOOK} degrees"
        else:
            raise ValueError(f"{action!r} is not an action; use one of {', '.join(ACTIONS.values())}")
        self.pose = pose
        self._last = (action, not error, error)
        return not error

    def teleport(self, pose: Pose) -> None:
        """Put the agent somewhere."""
        self.pose = pose

    def blocked(self, pose: Pose, action: str) -> bool:
        """Whether a move from this pose would touch something on its way."""
        return bool(self._blocker(pose, action))

    def _blocker(self, pose: Pose, action: str) -> str:
        """What the agent would touch first, or nothing."""
        mj, data = self._mj, self._data
        data.qpos[:] = (pose.x, pose.z, -math.radians((pose.rotation + MOVES[action]) % 360))
        mj.mj_kinematics(self._model, data)
        mj.mj_collision(self._model, data)
        if not data.ncon:
            return ""
        contact = data.contact[int(np.argmin(data.contact.dist))]
        body = self._model.geom_bodyid[contact.geom1]
        if body == self._agent:
            body = self._model.geom_bodyid[contact.geom2]
        return "Wall" if body == 0 else self.house.things[body - 1].kind

    # -- seeing ------------------------------------------------------------------------------------

    def _visibility_points(self) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Points within each thing, and which thing each belongs to: a ray to one meets its thing, or what hides it."""
        model, data = self._model, self._data
        points, owners = [], []
        for i in range(len(self.house.things)):
            geoms = np.flatnonzero(model.geom_bodyid == i + 1)
            for geom in geoms[np.argsort(-model.geom_rbound[geoms], kind="stable")][:_PARTS]:
                reach = 0.9 * model.geom_aabb[geom, 3:]
                axes = data.geom_xmat[geom].reshape(3, 3) * reach
                middle = data.geom_xpos[geom]
                points += [middle, *(middle + side * axes[:, axis] for axis in (0, 1, 2) for side in (-1, 1))]
                owners += [i] * 7
        return np.array(points), np.array(owners)

    def visible(self) -> NDArray[np.bool_]:
        """Which things have a point in the view that nothing hides, within `VISIBILITY_DISTANCE`."""
        pose = self.pose
        eye = np.array((pose.x, pose.z, EYE_Y))
        rays = self._points - eye
        dx, dz = heading(pose.rotation)
        tilt = math.radians(pose.horizon)
        level = rays[:, 0] * dx + rays[:, 1] * dz
        right = rays[:, 0] * dz - rays[:, 1] * dx
        deep = level * math.cos(tilt) - rays[:, 2] * math.sin(tilt)
        up = level * math.sin(tilt) + rays[:, 2] * math.cos(tilt)
        reach = deep * math.tan(math.radians(self.field_of_view / 2))
        inside = (deep > 0) & (np.abs(right) <= reach) & (np.abs(up) <= reach)
        inside &= np.einsum("ij,ij->i", rays, rays) <= VISIBILITY_DISTANCE**2
        seen = np.zeros(len(self.house.things), np.bool_)
        chosen = np.flatnonzero(inside)
        if chosen.size:
            hits, far = np.empty(chosen.size, np.int32), np.empty(chosen.size)
            self._mj.mj_multiRay(self._model, self._data, eye, rays[chosen].ravel(), None, True, self._agent, hits, far,
                                 None, chosen.size, VISIBILITY_DISTANCE)  # fmt: skip
            owners = self._owners[chosen]
            seen[owners[self._model.geom_bodyid[hits] == owners + 1]] = True
        return seen

    def metadata(self) -> Metadata:
        """The scene as AI2-THOR describes it."""
        action, success, error = self._last
        pose = self.pose
        seen = self.visible().tolist()
        return {
            "lastAction": action,
            "lastActionSuccess": success,
            "errorMessage": error,
            "agent": {
                "position": {"x": pose.x, "y": AGENT_Y, "z": pose.z},
                "rotation": {"x": 0.0, "y": float(pose.rotation), "z": 0.0},
                "cameraHorizon": float(pose.horizon),
            },
            "objects": [
                {
                    "objectId": name,
                    "objectType": thing.kind,
                    "position": {"x": thing.x / 100, "y": thing.z / 100, "z": thing.y / 100},
                    "visible": visible,
                }
                for name, thing, visible in zip(self._ids, self.house.things, seen, strict=True)
            ],
        }

    # -- rendering ---------------------------------------------------------------------------------

    def frame(self) -> Pixels:
        """What the agent sees: uint8 (resolution, resolution, 3)."""
        pose, mj = self.pose, self._mj
        dx, dz = heading(pose.rotation)
        view = mj.MjvCamera()
        flat = math.cos(math.radians(pose.horizon))
        view.lookat[:] = (pose.x + dx * flat, pose.z + dz * flat, EYE_Y - math.sin(math.radians(pose.horizon)))
        view.distance, view.azimuth, view.elevation = 1.0, 90.0 - pose.rotation, -float(pose.horizon)
        return self._render(view, mj.MjvOption())

    def map_frame(self) -> Pixels:
        """The room from above, without its ceiling, north on top."""
        mj, shown = self._mj, self._model.vis.global_
        wide, deep = self.house.width / 100, self.house.depth / 100
        view, option = mj.MjvCamera(), mj.MjvOption()
        option.geomgroup[_CEILING] = 0
        view.lookat[:] = (wide / 2, deep / 2, 0.0)
        view.distance, view.azimuth, view.elevation = _MAP_DISTANCE, 90.0, -90.0
        reach = max(wide, deep) / 2 + 0.15
        shown.fovy = 2 * math.degrees(math.atan(reach / (_MAP_DISTANCE - WALL_HEIGHT)))
        try:
            return self._render(view, option)
        finally:
            shown.fovy = self.field_of_view

    def segmentation(self) -> NDArray[np.intp]:
        """For each pixel the index of the thing in `house.things`, or -1: an independent look at what is visible."""
        mj = self._mj
        flags = self._scene_of().flags
        flags[mj.mjtRndFlag.mjRND_SEGMENT] = flags[mj.mjtRndFlag.mjRND_IDCOLOR] = 1
        try:
            code = self.frame().astype(np.intp)
        finally:
            flags[mj.mjtRndFlag.mjRND_SEGMENT] = flags[mj.mjtRndFlag.mjRND_IDCOLOR] = 0
        segment = code[..., 0] + 256 * code[..., 1] + 65536 * code[..., 2]
        bodies = np.full(self._scene.ngeom + 1, -1)
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.objtype == mj.mjtObj.mjOBJ_GEOM:
                bodies[geom.segid + 1] = self._model.geom_bodyid[geom.objid] - 1
        things: NDArray[np.intp] = bodies[segment]
        return things

    def _scene_of(self) -> Any:
        if self._scene is None:
            self._scene = self._mj.MjvScene(self._model, maxgeom=self._model.ngeom + 50)
        return self._scene

    def _render(self, view: Any, option: Any) -> Pixels:
        mj, drawn = self._mj, self._scene_of()
        if self.camera is None:
            raise SimulatorError(ENV_ID, "a picture was asked of a room without a camera")

        def update() -> None:
            mj.mjv_updateScene(self._model, self._data, option, None, view, mj.mjtCatBit.mjCAT_ALL, drawn)

        return self.camera.picture(self._model, drawn, update)


def free_pose(simulator: HouseSimulator, pose: Pose) -> bool:
    """Whether the agent can stand here: one can leave it in some direction, so nothing touches it."""
    margin = AGENT_RADIUS
    wide, deep = simulator.house.width / 100, simulator.house.depth / 100
    if not (margin <= pose.x <= wide - margin and margin <= pose.z <= deep - margin):
        return False
    return any(not simulator.blocked(pose, action) for action in MOVES)
