"""The solver brings the hand where it says, checked by SAPIEN's own forward kinematics."""

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
    from vagen_envs.primitive_skill.simulator import ManipulationSimulator
    from vagen_envs.seeding import HashStream

    simulator = ManipulationSimulator(draw_level("place", HashStream("arm"), "train"), 0)
    yield simulator._scene.agent
    simulator.close()


def test_the_whole_table_is_reached_and_nothing_beyond(arm):
    from vagen_envs.primitive_skill.levels import ARM_X, TABLE
    from vagen_envs.primitive_skill.scene import HOME_JOINTS
    from vagen_envs.primitive_skill.simulator import HIGHEST, LOWEST, InverseKinematics

    solver, model = InverseKinematics(arm.robot), arm.robot._objs[0].create_pinocchio_model()
    hand = next(i for i, link in enumerate(arm.robot.links) if link.name == "panda_hand_tcp")
    limits = (TABLE.x, TABLE.y, (TABLE.z[0], TABLE.z[1] + 100))
    grid = np.array(np.meshgrid(*(np.linspace(*limit, 3) for limit in limits)), float).reshape(3, -1).T / 1000
    for turn in (0.0, np.pi / 2):
        reached = 0
        for point in grid - (ARM_X / 1000, 0, 0):
            joints = solver.solve(np.array(HOME_JOINTS), point, turn)
            if joints is None:
                assert turn or point[2] > 0.2, f"not reached: {point}"
                continue
            reached += 1
            assert ((joints >= LOWEST) & (joints <= HIGHEST)).all()
            model.compute_forward_kinematics(np.array([*joints, 0.04, 0.04]))
            matrix = model.get_link_pose(hand).to_transformation_matrix()
            assert np.abs(matrix[:3, 3] - point).max() < 1e-3
            assert matrix[2, 2] < -0.9999
            fingers = np.array([-np.sin(turn), np.cos(turn)])
            assert abs(abs(matrix[:2, 1] @ fingers) - 1) < 1e-3
        assert reached > 0.8 * len(grid)
    assert solver.solve(np.array(HOME_JOINTS), np.array([2.0, 0.0, 0.2]), 0.0) is None
