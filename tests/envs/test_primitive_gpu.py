"""Many environments in one batch: the lockstep with simulators on a CPU side by side, and the GPU where there is one."""

from __future__ import annotations

import importlib.util

import gymnasium as gym
import numpy as np
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.errors import ConfigError

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(importlib.util.find_spec("mani_skill") is None, reason="needs the extra primitive-skill"),
]

PLACE = "vagen/PrimitiveSkillPlace-v0"


class SideBySide:
    """Copies as a GPU has them, each simulated on the CPU. Notes which copies were asked at once."""

    made = 0

    def __init__(self, levels, picture_size):
        from vagen_envs.primitive_skill.simulator import Simulator

        type(self).made += 1
        type(self).last = self
        self.copies = [Simulator([level], picture_size) for level in levels]
        self.asked = []
        self.breaks = False

    def load(self, levels):
        self.asked.append(("load", sorted(levels)))
        for copy, level in levels.items():
            self.copies[copy].load({0: level})

    def run(self, calls):
        self.asked.append(("run", sorted(calls)))
        if self.breaks:
            raise RuntimeError("an illegal memory access was encountered")
        return {copy: self.copies[copy].run({0: call})[0] for copy, call in calls.items()}

    def facts(self, copy=0):
        return self.copies[copy].facts()

    def pictures(self):
        self.asked.append(("pictures", list(range(len(self.copies)))))
        return np.concatenate([copy.pictures() for copy in self.copies])

    def close(self):
        for copy in self.copies:
            copy.close()


@pytest.fixture
def side_by_side(monkeypatch):
    from vagen_envs.primitive_skill import batch, drivers

    monkeypatch.setattr(drivers, "check_gpu", lambda: None)
    monkeypatch.setattr(batch, "start", SideBySide)


def test_a_batch_moves_in_lockstep_and_plays_as_single_environments_do(side_by_side):
    envs = gym.make_vec(PLACE, num_envs=2, vectorization_mode="vector_entry_point", device="gpu", picture_size=64)
    inner = envs.unwrapped
    shown, _ = envs.reset(seed=[3, 4])
    copies = SideBySide.last
    assert copies.asked == [("pictures", [0, 1])]
    copies.asked.clear()
    replies = [env.oracle_reply() for env in inner.envs]
    one_skill = replies[1].partition("|")[0] + "</answer>"
    after, rewards, *_, info = envs.step([replies[0], one_skill])
    assert copies.asked == [("run", [0, 1]), ("run", [0]), ("pictures", [0, 1])]
    assert min(rewards) > 1
    assert [turn.env_id for turn in info["turn"]] == [PLACE, PLACE]
    for seed, reply, i in ((3, replies[0], 0), (4, one_skill, 1)):
        alone = gym.make(PLACE, workers=0, picture_size=64).unwrapped
        assert np.array_equal(alone.reset(seed=seed)[0]["image"], shown["image"][i])
        assert np.array_equal(alone.step(reply)[0]["image"], after["image"][i])
        assert alone.true_state == info["state"][i]
        alone.close()
    copies.breaks = True
    *_, truncated, info = envs.step(["<think>x</think><answer>pick(0,0,20)</answer>"] * 2)
    assert truncated.all()
    assert "illegal memory access" in info["simulator_error"][0]
    made = SideBySide.made
    envs.step(["", ""])  # both begin anew, with a new simulator
    assert SideBySide.made == made + 1
    *_, terminated, _, _ = envs.step([env.oracle_reply() for env in inner.envs])
    *_, terminated, _, _ = envs.step([env.oracle_reply() for env in inner.envs])
    assert terminated.all()
    envs.close()


def test_the_skills_work_with_the_batched_kinematics():
    from vagen_envs.primitive_skill import tasks
    from vagen_envs.primitive_skill.kinematics import BatchedIK
    from vagen_envs.primitive_skill.levels import draw_level
    from vagen_envs.primitive_skill.simulator import Simulator
    from vagen_envs.primitive_skill.state import PrimitiveSkillState
    from vagen_envs.seeding import HashStream

    level = draw_level("drawer", HashStream("batched"), "train")  # it has a push, with a turned hand
    simulator = Simulator([level], 0)
    simulator._ik = BatchedIK(simulator._scene.agent.urdf_path, "cpu")

    def state():
        facts = simulator.facts()
        return PrimitiveSkillState(level.task, dict(facts.positions), facts.held, facts.opened)

    for action in tasks.plan(level, state()):
        name, _, numbers = action.rstrip(")").partition("(")
        said = simulator.run({0: (name, tuple(map(int, numbers.split(","))))})
        assert "The arm" not in said[0], said  # can't reach, can't bend
    assert tasks.solved(level, state())
    simulator.close()


def test_a_gpu_is_refused_where_there_is_none():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match=r"device='gpu' needs an NVIDIA GPU.*Use device='cpu'"):
        gym.make(PLACE, device="gpu")
    with pytest.raises(ConfigError, match="device='gpu' needs an NVIDIA GPU"):
        gym.make_vec(PLACE, num_envs=2, vectorization_mode="vector_entry_point", device="gpu")


@pytest.mark.gpu
@pytest.mark.parametrize("task", ["Place", "Stack", "Drawer", "Align"])
def test_a_gpu_plays_many_at_once(task):
    count = 16
    envs = gym.make_vec(f"vagen/PrimitiveSkill{task}-v0", num_envs=count, vectorization_mode="vector_entry_point",
                        device="gpu")  # fmt: skip
    shown, _ = envs.reset(seed=0)
    assert shown["image"].shape == (count, 300, 300, 3)
    assert len({picture.tobytes() for picture in shown["image"]}) == count
    assert np.ptp(shown["image"], axis=(1, 2, 3)).min() > 100
    solved = np.zeros(count, bool)
    for _ in range(3):
        replies = ["" if done else env.oracle_reply() for done, env in zip(solved, envs.unwrapped.envs, strict=True)]
        *_, terminated, _, info = envs.step(replies)
        assert all(cause is None for cause in info.get("simulator_error", [None]))
        solved |= terminated
        if solved.all():
            break
    assert solved.sum() >= count - 1
    envs.close()
