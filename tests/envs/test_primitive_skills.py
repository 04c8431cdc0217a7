"""The skills' waypoints and words, with a hand that does as it is told, or doesn't; and how the arm reaches them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_envs.primitive_skill.skills import CONTACT, STANDOFF, Arrived, pick, place, push


def follow(skill, *, grasps="", obstacle_at=None, reaches=lambda at: True):
    """Drive a skill: what it said, and where it sent the hand."""
    went, hand, holding = [], (0.0, 0.0, 300.0), ""
    try:
        waypoint = next(skill)
        while True:
            went.append(waypoint)
            reachable = waypoint.at is None or reaches(waypoint.at)
            blocked = (
                obstacle_at is not None and waypoint.at is not None and waypoint.at[2] < obstacle_at
            )
            if waypoint.at is not None and reachable:
                hand = (
                    (*waypoint.at[:2], float(obstacle_at))
                    if blocked
                    else tuple(map(float, waypoint.at))
                )
            holding = grasps if waypoint.closed else ""
            waypoint = skill.send(Arrived(hand, reachable, holding))
    except StopIteration as end:
        return end.value, went


numbers = st.integers(-200, 200)


@given(numbers, numbers, st.integers(10, 200))
def test_pick_comes_from_above_and_takes_the_object_home(x, y, z):
    said, went = follow(pick(x, y, z, holding=""), grasps="red_cube")
    assert said == ""
    assert [waypoint.at for waypoint in went[1:3]] == [(x, y, z)] * 2
    assert [waypoint.closed for waypoint in went] == [False, False, True, True, True]
    assert went[0].at == went[3].at == (x, y, z + 100)
    assert went[-1].at is None


@given(numbers, numbers, numbers, numbers)
def test_push_goes_along_the_line_with_the_fingers_across(x1, y1, x2, y2):
    said, went = follow(push(x1, y1, 45, x2, y2, 45, holding=""))
    length = math.hypot(x2 - x1, y2 - y1)
    if length < 1:
        assert "do not differ" in said
        assert went == []
        return
    assert said == ""
    start, end = went[1].at, went[2].at
    assert math.isclose(math.dist(start, (x1, y1, 45)), STANDOFF)
    assert math.isclose(math.dist(end, (x2, y2, 45)), CONTACT, abs_tol=1e-6)
    turn = went[1].turn
    assert abs(turn) <= math.pi / 2 + 1e-9
    across = (-math.sin(turn), math.cos(turn))
    assert abs(across[0] * (x2 - x1) + across[1] * (y2 - y1)) < 1e-6 * length


@pytest.mark.parametrize(
    ("skill", "how", "told"),
    [
        (
            pick(1, 2, 20, holding=""),
            {"reaches": lambda at: False},
            "The arm can't reach (1, 2, 20).",
        ),
        (
            pick(1, 2, 20, holding=""),
            {"reaches": lambda at: at[2] > 100},
            "can't bend that way: the hand stopped at (1, 2, 120)",
        ),
        (
            place(1, 2, 20, holding="red_cube"),
            {"obstacle_at": 60},
            "the object was let go there, not at (1, 2, 20).",
        ),
        (
            place(1, 2, 20, holding="red_cube"),
            {"reaches": lambda at: False},
            "still in the gripper",
        ),
        (push(0, 0, 20, 50, 0, 20, holding="apple"), {}, "place the object first"),
    ],
)
def test_failures_are_told(skill, how, told):
    said, went = follow(skill, **how)
    assert told in said
    if "still in the gripper" in told:
        assert all(waypoint.closed for waypoint in went)
    elif "first" in told:
        assert went == []


@pytest.fixture(scope="module")
def arm():
    pytest.importorskip("mani_skill")
    from vagen_envs.primitive_skill.levels import draw_level
    from vagen_envs.primitive_skill.simulator import ManipulationSimulator
    from vagen_envs.seeding import HashStream

    simulator = ManipulationSimulator(0)
    simulator.run(draw_level("place", HashStream("arm"), "train"), [])
    yield simulator._scene.agent
    simulator.close()


@pytest.mark.sim
def test_the_whole_table_is_reached_and_nothing_beyond(arm):
    from vagen_envs.primitive_skill.cabinets import ARM_X
    from vagen_envs.primitive_skill.kinematics import HIGHEST, LOWEST, InverseKinematics
    from vagen_envs.primitive_skill.levels import TABLE
    from vagen_envs.primitive_skill.scene import HOME_JOINTS

    solver, model = InverseKinematics(arm.robot), arm.robot._objs[0].create_pinocchio_model()
    hand = next(i for i, link in enumerate(arm.robot.links) if link.name == "panda_hand_tcp")
    limits = (TABLE.x, TABLE.y, (TABLE.z[0], TABLE.z[1] + 100))
    grid = (
        np.array(np.meshgrid(*(np.linspace(*limit, 3) for limit in limits)), float).reshape(3, -1).T
        / 1000
    )
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
