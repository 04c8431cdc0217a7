"""What is in a picture of Navigation, by MuJoCo's own segmentation."""

from __future__ import annotations

import functools
import math

import mujoco
import numpy as np

from vagen_envs.navigation.camera import _Painter
from vagen_envs.navigation.scene import EYE_Y

painter = functools.cache(_Painter)


def segmented(simulator, side=255):
    """For each of side x side pixels the index of the object in `house.objects`, or -1."""
    model, pose, camera = simulator._model, simulator.pose, mujoco.MjvCamera()
    turn, tilt = math.radians(pose.rotation), math.radians(pose.horizon)
    ahead = (math.sin(turn) * math.cos(tilt), math.cos(turn) * math.cos(tilt), -math.sin(tilt))
    camera.lookat[:] = np.array((pose.x, pose.z, EYE_Y)) + ahead
    camera.distance, camera.azimuth, camera.elevation = 1.0, 90.0 - pose.rotation, -pose.horizon
    scene = mujoco.MjvScene(model, maxgeom=model.ngeom + 50)
    scene.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = scene.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = 1
    mujoco.mjv_updateScene(
        model, simulator._data, mujoco.MjvOption(), None, camera, mujoco.mjtCatBit.mjCAT_ALL, scene
    )
    pixels = painter().draw(model, scene, side, False).astype(int)
    bodies = np.full(scene.ngeom + 1, -1)
    for geom in scene.geoms[: scene.ngeom]:
        if geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
            bodies[geom.segid + 1] = model.geom_bodyid[geom.objid] - 1
    bodies[bodies >= len(simulator.house.objects)] = -1
    return bodies[pixels @ (1, 256, 65536)]
