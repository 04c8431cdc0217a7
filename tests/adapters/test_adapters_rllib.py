"""RLlib's env runner, which makes a vector environment of Gymnasium's that resets by itself."""

from __future__ import annotations

from typing import ClassVar

import gymnasium as gym
import pytest

pytest.importorskip("tree", reason="needs the extra rllib")
pytest.importorskip("ray.rllib.algorithms.ppo", reason="needs the extra rllib")

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune.registry import register_env

from vagen_adapters.moves import Moves


class Seen(gym.Wrapper):
    """Notes the split of each episode's level."""

    splits: ClassVar[list[str]] = []

    def reset(self, **kwargs):
        first = super().reset(**kwargs)
        self.splits.append(self.unwrapped.level["split"])
        return first


def lake(config):
    env = gym.make("vagen/FrozenLake-v0", is_slippery=False, max_turns=2, **config)
    return gym.wrappers.FlattenObservation(Seen(Moves(env)))


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_configured_split_holds_through_automatic_resets(split, monkeypatch):
    monkeypatch.setattr(Seen, "splits", [])
    register_env("lake", lake)
    config = (
        PPOConfig()
        .environment("lake", env_config={"split": split})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
    )
    runner = SingleAgentEnvRunner(config=config)
    runner.sample(num_episodes=6, random_actions=True)
    runner.stop()
    assert len(Seen.splits) >= 6
    assert set(Seen.splits) == {split}
