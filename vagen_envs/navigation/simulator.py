"""The embedded simulator: a furnished room in MuJoCo. Only this file and `camera` touch MuJoCo.

MuJoCo tests moves (collision of a swept hull), sees (rays) and renders.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import mujoco as mj
import numpy as np
from numpy.typing import NDArray

from vagen_envs.navigation.camera import draw
from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.house import House
from vagen_envs.navigation.mjcf import AGENT_RADIUS, WALL_HEIGHT, scene
from vagen_envs.navigation.scene import (
    ACTIONS,
    EYE_Y,
    HORIZONS,
    MOVES,
    VISIBILITY_DISTANCE,
    Pose,
    SceneObject,
    heading,
)
from vagen_envs.pictures import Pixels

_CEILING = 2
"""Its group of geoms in `mjcf.scene`."""
_MAP_DISTANCE = 20.0
"""Metres from which the map is seen, so that walls hardly lean."""
RASTER = 51
SEEN = 2
"""A thing is visible if 2 or more of 51 by 51 rays through the picture meet it first: of a picture
of 255 by 255 pixels, about 50. A ray is cast through the middle of every fifth pixel of such a
picture, whatever the resolution that is shown, and needs no OpenGL."""
_FIRST = np.zeros((RASTER, RASTER), np.bool_)
"""The rays that are cast first, every fourth along each side: they meet most of what is visible.
The others are cast only where something may be that these didn't meet."""
_FIRST[2::4, 2::4] = True
_PART = np.array((-0.9, -0.3, 0.3, 0.9))
"""Where lines of sight end, along each side of the box around a part of a thing: 64 points."""
_LATTICE = np.stack(np.meshgrid(_PART, _PART, _PART), -1).reshape(-1, 3)
_CORNERS = np.array(tuple(itertools.product((-1.0, 1.0), repeat=3)))
_CLOSE = 0.001
"""Metres ahead of the camera from which a thing counts as in front of it."""


class HouseSimulator:
    """A house, the agent in it and its camera."""

    def __init__(self, house: House, start: Pose, config: NavigationConfig) -> None:
        self.house = house
        self.pose = start
        self.step_length = config.step_length
        self.field_of_view = config.fov
        self.resolution = config.resolution
        self._cast_shadows = config.cast_shadows
        xml, files = scene(house, self.step_length, self.field_of_view, self._cast_shadows)
        self._model = mj.MjModel.from_xml_string(xml, files)
        self._data = mj.MjData(self._model)
        # Where things and lamps are. Forces would be solved for, too, by mj_forward: the agent is
        # in a corner of the room now, and a hundred contacts with what stands there take more
        # memory than a scene has.
        mj.mj_kinematics(self._model, self._data)
        mj.mj_camlight(self._model, self._data)
        self._agent = self._model.nbody - 1
        self._known: dict[tuple[float, float, int], bool] = {}
        self._sights: dict[tuple[float, float, str], bool] = {}
        self._scene: Any = None
        self.objects = []
        for it in house.objects:
            x = it.x / 100
            y = it.y / 100
            z = it.z / 100
            self.objects.append(
                SceneObject(f"{it.kind}|{x:+06.2f}|{z:+06.2f}|{y:+06.2f}", it.kind, x, y)
            )
        self._bodies = {each.name: 1 + i for i, each in enumerate(self.objects)}
        self._boxes = np.array([self._box(body) for body in self._bodies.values()])

    # -- acting ------------------------------------------------------------------------------------

    def step(self, action: str) -> bool:
        """Carry out one of AI2-THOR's eight actions, all or nothing. Whether it succeeded. Raises
        ValueError.
        """
        if action not in ACTIONS.values():
            raise ValueError(
                f"{action!r} is not an action; use one of {', '.join(ACTIONS.values())}"
            )
        after = self.pose.after(action, self.step_length)
        stopped = action in MOVES and self.blocked(self.pose, action)
        if stopped or after.horizon not in HORIZONS:
            return False
        self.pose = after
        return True

    def teleport(self, pose: Pose) -> None:
        """Put the agent somewhere."""
        self.pose = pose

    def blocked(self, pose: Pose, action: str) -> bool:
        """Whether a move from this pose would touch something on its way. Remembered: searches ask
        again.
        """
        way = (pose.rotation + MOVES[action]) % 360
        key = (round(pose.x, 3), round(pose.z, 3), way)
        if key not in self._known:
            self._data.qpos[:] = (pose.x, pose.z, -math.radians(way))
            mj.mj_kinematics(self._model, self._data)
            mj.mj_collision(self._model, self._data)
            self._known[key] = self._data.ncon > 0
        return self._known[key]

    # -- seeing ------------------------------------------------------------------------------------

    def _axes(self) -> NDArray[np.float64]:
        """The camera's axes as rows: to the right, ahead, up."""
        dx, dz = heading(self.pose.rotation)
        tilt = math.radians(self.pose.horizon)
        flat = math.cos(tilt)
        down = math.sin(tilt)
        return np.array(
            ((dz, -dx, 0.0), (dx * flat, dz * flat, -down), (dx * down, dz * down, flat))
        )

    def visible(self) -> NDArray[np.bool_]:
        """Which objects at least `SEEN` rays of the raster meet first, within
        `VISIBILITY_DISTANCE`.
        """
        rays = _raster(self.field_of_view) @ self._axes()
        count = len(self.objects)
        met = self._met(self.pose, rays[_FIRST.ravel()])[1 : count + 1]
        rest = self._raster_of(met < SEEN) & ~_FIRST
        if rest.any():
            met = met + self._met(self.pose, rays[rest.ravel()])[1 : count + 1]
        seen: NDArray[np.bool_] = met >= SEEN
        return seen

    def _raster_of(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The rays that may meet some of the wanted objects: (RASTER, RASTER)."""
        eye = np.array((self.pose.x, self.pose.z, EYE_Y))
        boxes = self._boxes[wanted] - eye
        gaps = np.maximum(0, np.maximum(boxes.min(1), -boxes.max(1)))
        turned = boxes @ self._axes().T
        low = turned.min(1)
        high = turned.max(1)
        is_near = np.linalg.norm(gaps, axis=1) <= VISIBILITY_DISTANCE
        is_ahead = high[:, 1] > _CLOSE
        near = is_near & is_ahead
        low = low[near]
        high = high[near]
        # A quotient of two intervals: to the right, or up, by ahead.
        nearest = np.maximum(low[:, 1:2], _CLOSE)
        farthest = high[:, 1:2]
        least = low / np.where(low > 0, farthest, nearest)
        most = high / np.where(high > 0, nearest, farthest)
        middles = _raster(self.field_of_view)[:RASTER, 0]
        columns = (middles >= least[:, :1]) & (middles <= most[:, :1])
        rows = (-middles >= least[:, 2:]) & (-middles <= most[:, 2:])
        rays: NDArray[np.bool_] = np.einsum("or,oc->rc", rows, columns)
        return rays

    def in_sight(self, pose: Pose, name: str) -> bool:
        """Whether a free line leads from the camera to some part of an object, whichever way the
        agent looks.
        """
        key = (round(pose.x, 3), round(pose.z, 3), name)
        if key not in self._sights:
            body = self._bodies[name]
            rays = self._points(body) - (pose.x, pose.z, EYE_Y)
            rays /= np.linalg.norm(rays, axis=1, keepdims=True)
            # Most things that are in sight are so for some of a few rays.
            self._sights[key] = any(self._met(pose, some)[body] for some in (rays[::8], rays))
        return self._sights[key]

    def height(self, name: str) -> float:
        """The height of an object's middle above the floor, in metres."""
        return float(self._points(self._bodies[name])[:, 2].mean())

    def _box(self, body: int) -> NDArray[np.float64]:
        """The corners of a box along the room's axes in which a body is: (8, 3), in metres."""
        points = self._points(body, _CORNERS)
        grown = 0.001  # for the rounding of rays
        low = points.min(0) - grown
        high = points.max(0) + grown
        box: NDArray[np.float64] = np.where(_CORNERS < 0, low, high)
        return box

    def _points(self, body: int, lattice: NDArray[np.float64] = _LATTICE) -> NDArray[np.float64]:
        """Points in the boxes of the parts of a body: (n, 3), in metres."""
        model = self._model
        data = self._data
        first = model.body_geomadr[body]
        points = []
        for geom in range(first, first + model.body_geomnum[body]):
            middle, half = np.split(model.geom_aabb[geom], 2)
            turn = data.geom_xmat[geom].reshape(3, 3)
            points.append(data.geom_xpos[geom] + (middle + lattice * half) @ turn.T)
        return np.concatenate(points)

    def _met(self, pose: Pose, rays: NDArray[np.float64]) -> NDArray[np.intp]:
        """How many rays from the camera, (n, 3), meet each body first, within
        `VISIBILITY_DISTANCE`.
        """
        count = len(rays)
        hits = np.empty(count, np.int32)
        far = np.empty(count)
        mj.mj_multiRay(
            self._model,
            self._data,
            np.array((pose.x, pose.z, EYE_Y)),
            rays.ravel(),
            None,
            True,
            self._agent,
            hits,
            far,
            None,
            count,
            VISIBILITY_DISTANCE,
        )
        # The world's count comes first.
        return np.bincount(self._model.geom_bodyid[hits[hits >= 0]], minlength=self._model.nbody)

    def seen(self) -> list[SceneObject]:
        """The objects that are `visible`."""
        return [self.objects[i] for i in np.flatnonzero(self.visible())]

    # -- rendering ---------------------------------------------------------------------------------

    def frame(self) -> Pixels:
        """What the agent sees: uint8 (resolution, resolution, 3)."""
        pose = self.pose
        ahead = self._axes()[1]
        view = mj.MjvCamera()
        view.lookat[:] = (pose.x + ahead[0], pose.z + ahead[1], EYE_Y + ahead[2])
        view.distance = 1.0
        view.azimuth = 90.0 - pose.rotation
        view.elevation = -float(pose.horizon)
        return self._picture(view, mj.MjvOption())

    def map_frame(self) -> Pixels:
        """The room from above, without its ceiling, north on top."""
        shown = self._model.vis.global_
        wide = self.house.width / 100
        deep = self.house.depth / 100
        view = mj.MjvCamera()
        option = mj.MjvOption()
        option.geomgroup[_CEILING] = 0
        view.lookat[:] = (wide / 2, deep / 2, 0.0)
        view.distance = _MAP_DISTANCE
        view.azimuth = 90.0
        view.elevation = -90.0
        reach = max(wide, deep) / 2 + 0.15
        shown.fovy = 2 * math.degrees(math.atan(reach / (_MAP_DISTANCE - WALL_HEIGHT)))
        try:
            return self._picture(view, option)
        finally:
            shown.fovy = self.field_of_view

    def _picture(self, view: Any, option: Any) -> Pixels:
        if self._scene is None:
            self._scene = mj.MjvScene(self._model, maxgeom=self._model.ngeom + 50)
            for flag in ("REFLECTION", "HAZE"):  # each takes its time, and nothing here has them
                self._scene.flags[getattr(mj.mjtRndFlag, f"mjRND_{flag}")] = 0
        mj.mjv_updateScene(
            self._model, self._data, option, None, view, mj.mjtCatBit.mjCAT_ALL, self._scene
        )
        return draw(self._model, self._scene, self.resolution, self._cast_shadows)


@functools.cache
def _raster(field_of_view: float) -> NDArray[np.float64]:
    """Rays through the raster's middles, row by row from the top: to the right, ahead (always 1),
    up.
    """
    edge = math.tan(math.radians(field_of_view / 2))
    from_middle = (np.arange(RASTER) + 0.5) * 2 / RASTER - 1  # from -1 to 1
    middles = edge * from_middle
    across, up = np.meshgrid(middles, -middles)
    return np.stack((across, np.ones_like(across), up), -1).reshape(-1, 3)


def free_pose(simulator: HouseSimulator, pose: Pose) -> bool:
    """Whether the agent can stand here: one can leave it in some direction, so nothing touches
    it.
    """
    wide = simulator.house.width / 100
    deep = simulator.house.depth / 100
    inside = all(
        AGENT_RADIUS <= at <= side - AGENT_RADIUS for at, side in ((pose.x, wide), (pose.z, deep))
    )
    return inside and not all(simulator.blocked(pose, action) for action in MOVES)
