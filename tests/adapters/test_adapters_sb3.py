"""Stable-Baselines3 over single moves and pictures, by `vagen_adapters.moves`."""

from __future__ import annotations

import gymnasium as gym
import pytest

pytest.importorskip("stable_baselines3")

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import vagen_envs
from vagen_adapters.moves import Moves


def made(env_id="vagen/FrozenLake-v0", **options):
    gym.register_envs(vagen_envs)
    return Moves(gym.make(env_id, **options))


@pytest.mark.parametrize("env_id", ["vagen/FrozenLake-v0", "vagen/Sokoban-v0"])
def test_its_own_checker_has_nothing_to_say(env_id):
    env = made(env_id)
    check_env(env, warn=False)
    env.close()


def test_moves_are_the_environments_own():
    env = made(is_slippery=False, max_turns=20)
    env.reset(seed=7)
    replies = env.unwrapped.grammar.parse(env.unwrapped.oracle_reply())
    over, success = False, False
    while not over:
        planned = env.unwrapped.grammar.parse(env.unwrapped.oracle_reply()).actions
        image, _, terminated, truncated, info = env.step(env.names.index(planned[0].name))
        over, success = terminated or truncated, info["is_success"]
    assert replies.well_formed
    assert success
    assert image.dtype == np.uint8


def test_updates_and_processes():
    envs = SubprocVecEnv([lambda: Monitor(made(is_slippery=False, max_turns=10)) for _ in range(2)])
    try:
        model = PPO("CnnPolicy", envs, n_steps=32, batch_size=32, n_epochs=1, seed=0)
        before = [each.clone() for each in model.policy.parameters()]
        model.learn(192)  # three updates
        rewards = [episode["r"] for episode in model.ep_info_buffer]
        assert rewards
        assert any(rewards)
        assert any(
            (old != new).any() for old, new in zip(before, model.policy.parameters(), strict=True)
        )
    finally:
        envs.close()


def test_a_named_split_holds_through_automatic_resets():
    envs = DummyVecEnv([lambda: made(max_turns=1) for _ in range(2)])
    envs.set_options({"split": "test"})
    envs.reset()
    for _ in range(4):
        assert [env.unwrapped.level["split"] for env in envs.envs] == ["test", "test"]
        envs.step([0, 1])
    envs.close()
