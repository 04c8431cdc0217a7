"""Inverse kinematics of the arm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sapien
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LOWEST = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
HIGHEST = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
"""Limits of the seven joints, in radians, from the Panda's URDF."""


class InverseKinematics:
    """Joint angles for hand poses of an articulation, 0.2 ms each."""

    def __init__(self, articulation: Any) -> None:
        self._model = articulation.create_pinocchio_model()
        names = [link.name for link in articulation.links]
        self._hand = next(i for i, name in enumerate(names) if name.endswith("panda_hand_tcp"))
        self._moving = np.array([1] * 7 + [0] * (articulation.dof - 7))
        self._rest = np.full(articulation.dof, 0.04)

    def solve(self, guess: Floats, at: Floats, turn: float) -> Floats | None:
        """The nearest joint angles, or `None` if the arm can't get there within its limits.

        Args:
            guess: (7,) joint angles to begin from, in radians.
            at: (3,) of the point between the fingertips, in metres, seen from the arm's base.
            turn: about the vertical, in radians; 0 spreads the fingers along y.
        """
        self._rest[:7] = guess
        down = sapien.Pose(at, [0.0, math.cos(turn / 2), math.sin(turn / 2), 0.0])
        joints, solved, _ = self._model.compute_inverse_kinematics(
            self._hand, down, initial_qpos=self._rest, active_qmask=self._moving, max_iterations=200
        )
        found: Floats = joints[:7]
        is_within = bool(np.all((found >= LOWEST) & (found <= HIGHEST)))
        return found if solved and is_within else None
