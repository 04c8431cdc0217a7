"""Gymnasium's own recorder on these environments."""

from __future__ import annotations

import gymnasium as gym
import imageio.v2 as imageio
import numpy as np
import pytest
from gymnasium.wrappers import RecordVideo

import vagen_envs  # noqa: F401


@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
def test_an_episode_can_be_recorded(env_id, tmp_path):
    pytest.importorskip("moviepy")
    env = RecordVideo(
        gym.make(env_id, render_mode="rgb_array"), str(tmp_path / "videos"), episode_trigger=lambda _: True
    )
    seen = [env.reset(seed=3)[0]["image"]]
    over = False
    while not over:
        observation, _, terminated, truncated, _ = env.step(env.unwrapped.oracle_reply())
        seen.append(observation["image"])
        over = terminated or truncated
    env.close()
    (video,) = (tmp_path / "videos").glob("*.mp4")
    frames = [np.asarray(frame, float) for frame in imageio.mimread(video)]
    assert len(frames) == len(seen)
    for frame, shown in zip(frames, seen, strict=True):  # an MP4 keeps colours nearly
        others = [each for each in seen if not np.array_equal(each, shown)]
        assert all(np.abs(frame - shown).mean() < np.abs(frame - other).mean() for other in others)
