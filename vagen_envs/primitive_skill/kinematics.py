"""Inverse kinematics of the Panda arm, hand pointing straight down: one interface, for a CPU and for batches."""

from __future__ import annotations

import contextlib
import io
import math
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import sapien
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOWEST = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
HIGHEST = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
"""Limits of the seven joints, in radians, from the Panda's URDF."""


class InverseKinematics(Protocol):
    """Joint angles for hand poses."""

    def solve(self, guess: Floats, at: Floats, turn: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Solve a batch.

        Args:
            guess: (n, 7) joint angles to begin from, in radians; the nearest solution is wanted.
            at: (n, 3) of the point between the fingertips, in metres, seen from the arm's base.
            turn: (n,) about the vertical, in radians; 0 spreads the fingers along y.

        Returns:
            (n, 7) joint angles, and (n,) whether they get there within the joints' limits.
        """


class PinocchioIK:
    """SAPIEN's Pinocchio solver, one row after the other: 0.2 ms a row on a CPU."""

    def __init__(self, articulation: Any) -> None:
        self._model = articulation.create_pinocchio_model()
        names = [link.name for link in articulation.links]
        self._hand = next(i for i, name in enumerate(names) if name.endswith("panda_hand_tcp"))
        self._moving = np.array([1] * 7 + [0] * (articulation.dof - 7))
        self._rest = np.full(articulation.dof, 0.04)

    def solve(self, guess: Floats, at: Floats, turn: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        found, good = np.empty_like(guess), np.empty(len(guess), bool)
        for i in range(len(guess)):
            self._rest[:7] = guess[i]
            pose = sapien.Pose(at[i], pointing_down(turn[i]))
            joints, solved, _ = self._model.compute_inverse_kinematics(
                self._hand, pose, initial_qpos=self._rest, active_qmask=self._moving, max_iterations=200
            )
            found[i] = joints[:7]
            good[i] = solved and bool(np.all((found[i] >= LOWEST) & (found[i] <= HIGHEST)))
        return found, good


class BatchedIK:
    """Damped least squares over pytorch_kinematics, all rows at once, on a GPU or a CPU.

    Args:
        urdf: path of the arm's URDF.
        device: of the tensors, such as `"cuda"`.
    """

    ITERATIONS = 60
    DAMPING = 1e-2
    LONGEST_STEP = 0.3
    """Radians a joint may turn in one iteration."""

    def __init__(self, urdf: str, device: str) -> None:
        import pytorch_kinematics  # here, since it is slow to import, and only a GPU's batches need it

        names = io.StringIO()  # it prints every attribute that it doesn't know
        with Path(urdf).open("rb") as file, contextlib.redirect_stdout(names), contextlib.redirect_stderr(names):
            self._chain = pytorch_kinematics.build_serial_chain_from_urdf(file.read(), "panda_hand_tcp")
        self._chain = self._chain.to(dtype=torch.float64, device=device)
        self._device = device

    def solve(self, guess: Floats, at: Floats, turn: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        joints, target = self._tensor(guess), self._tensor(at)
        low, high = self._tensor(LOWEST), self._tensor(HIGHEST)
        cos, sin, zero = np.cos(turn), np.sin(turn), np.zeros_like(turn)
        rows = [[cos, sin, zero], [sin, -cos, zero], [zero, zero, zero - 1]]
        wanted = self._tensor(np.moveaxis(np.array(rows), -1, 0))
        damping = self.DAMPING**2 * torch.eye(6, dtype=torch.float64, device=self._device)
        for _ in range(self.ITERATIONS):
            error, jacobian = self._error(joints, target, wanted), self._chain.jacobian(joints)
            # A micrometre, or a microradian: below what float32 targets can say.
            if float(error.norm(dim=1).max()) < 1e-6:
                break
            across = jacobian.transpose(1, 2)
            step = across @ torch.linalg.solve(jacobian @ across + damping, error.unsqueeze(-1))
            step = step.squeeze(-1)
            step *= (self.LONGEST_STEP / step.abs().amax(1, keepdim=True).clamp_min(1e-12)).clamp_max(1.0)
            joints = (joints + step).clamp(low, high)
        # A tenth of a millimetre; skills are told whole millimetres.
        good = self._error(joints, target, wanted).norm(dim=1) < 1e-4
        return joints.cpu().numpy(), good.cpu().numpy()

    def _error(self, joints: torch.Tensor, target: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        matrix = self._chain.forward_kinematics(joints).get_matrix()
        turned = wanted @ matrix[:, :3, :3].transpose(1, 2)
        axis = 0.5 * torch.stack(
            (turned[:, 2, 1] - turned[:, 1, 2], turned[:, 0, 2] - turned[:, 2, 0], turned[:, 1, 0] - turned[:, 0, 1]), 1
        )
        return torch.cat((target - matrix[:, :3, 3], axis), 1)

    def _tensor(self, values: Floats) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values, np.float64), device=self._device)


def pointing_down(turn: float) -> list[float]:
    """The quaternion (w, x, y, z) of a hand that points down, turned about the vertical."""
    return [0.0, math.cos(turn / 2), math.sin(turn / 2), 0.0]
