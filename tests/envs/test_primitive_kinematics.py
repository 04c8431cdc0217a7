"""Both solvers bring the hand where they say, checked by a third party's forward kinematics."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(importlib.util.find_spec("mani_skill") is None, reason="needs the extra primitive-skill"),
]


@pytest.fixture(scope="module")
def arm():
    from vagen_envs.primitive_skill.levels import draw_level
    from vagen_envs.primitive_skill.simulator import Simulator
    from vagen_envs.seeding import HashStream

    simulator = Simulator([draw_level("place", HashStream("arm"), "train")], 0)
    yield simulator._scene.agent
    simulator.close()


@pytest.fixture(params=["pinocchio", "batched"])
def solver(request, arm):
    from vagen_envs.primitive_skill.kinematics import BatchedIK, PinocchioIK

    return PinocchioIK(arm.robot) if request.param == "pinocchio" else BatchedIK(arm.urdf_path, "cpu")


def poses(arm, joints):
    """Hand positions seen from the base, and how far the hand points down (1 is straight), by SAPIEN's own model."""
    model = arm.robot._objs[0].create_pinocchio_model()
    hand = next(i for i, link in enumerate(arm.robot.links) if link.name == "panda_hand_tcp")
    at, down, across = [], [], []
    for row in joints:
        model.compute_forward_kinematics(np.array([*row, 0.04, 0.04]))
        pose = model.get_link_pose(hand)
        matrix = pose.to_transformation_matrix()
        at.append(pose.p)
        down.append(-matrix[2, 2])
        across.append(matrix[:2, 1])
    return np.array(at), np.array(down), np.array(across)


def test_the_whole_table_is_reached(arm, solver):
    from vagen_envs.primitive_skill.kinematics import HIGHEST, LOWEST
    from vagen_envs.primitive_skill.levels import ARM_X, TABLE
    from vagen_envs.primitive_skill.scene import HOME_JOINTS

    grid = np.array(
        np.meshgrid(*(np.linspace(*limit, 3) for limit in (TABLE.x, TABLE.y, (TABLE.z[0], TABLE.z[1] + 100)))), float
    ).reshape(3, -1).T / 1000 - (ARM_X / 1000, 0, 0)  # fmt: skip
    guess = np.tile(np.array(HOME_JOINTS), (len(grid), 1))
    for turn in (0.0, np.pi / 2):
        joints, good = solver.solve(guess, grid, np.full(len(grid), turn))
        low = grid[:, 2] <= 0.2
        assert good[low].all() or turn, f"not reached: {grid[low & ~good]}"
        assert good.mean() > 0.8
        assert ((joints[good] >= LOWEST) & (joints[good] <= HIGHEST)).all()
        at, down, across = poses(arm, joints[good])
        assert np.abs(at - grid[good]).max() < 1e-3
        assert down.min() > 0.9999
        fingers = np.array([-np.sin(turn), np.cos(turn)])
        assert np.abs(np.abs(across @ fingers) - 1).max() < 1e-3


def test_what_is_out_of_reach_is_said(arm, solver):
    from vagen_envs.primitive_skill.scene import HOME_JOINTS

    guess = np.tile(np.array(HOME_JOINTS), (2, 1))
    _, good = solver.solve(guess, np.array([[0.4, 0.0, 0.2], [2.0, 0.0, 0.2]]), np.zeros(2))
    assert good.tolist() == [True, False]
