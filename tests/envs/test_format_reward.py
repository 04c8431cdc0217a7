"""What the format reward asks for: valid actions beside the structure, or the structure alone, as in the paper."""

from __future__ import annotations

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401

ACT = "<think>x</think><answer>{}</answer>"


@pytest.mark.parametrize(
    ("reply", "asks", "structure"),
    [
        (ACT.format("Up"), 0.5, 0.5),
        (ACT.format("Up,Jump"), 0.0, 0.5),
        (ACT.format("Jump"), 0.0, 0.5),
        ("<answer>Up</answer>", 0.0, 0.0),
        ("Up", 0.0, 0.0),
    ],
)
def test_one_unknown_action_keeps_the_reward_for_structure(reply, asks, structure):
    for needs, reward in ((True, asks), (False, structure)):
        env = gym.make("vagen/FrozenLake-v0", strategy="free_think", format_needs_actions=needs)
        env.reset(seed=3)
        turn = env.step(reply)[4]["turn"]
        assert sum(term.value for term in turn.rewards if term.name == "format") == reward
