"""SkyRL-Gym's own `make` and metrics on our environments."""

from __future__ import annotations

import gymnasium as gym
import pytest

pytest.importorskip("skyrl_gym", reason="needs the extra skyrl")

import skyrl_gym
from oracle import picture_of
from other_rows import CHANGES, says_both
from skyrl_gym.metrics import aggregate_for_environment

from vagen_adapters.skyrl_env import NAME, levels
from vagen_envs import Turn
from vagen_envs.errors import ConfigError


@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
def test_episodes_equal_those_of_gymnasium(env_id):
    alone = gym.make(env_id, strategy="grounding")
    metrics = []
    for row in levels(env_id, split="test", first_seed=3, num_levels=2, strategy="grounding"):
        env = skyrl_gym.make(row["env_class"], extras=row)
        messages, info = env.init(row["prompt"])
        shown, expected = alone.reset(seed=row["seed"], options={"split": "test"})
        assert info["level"] == expected["level"]
        assert [message["role"] for message in messages] == ["system", "user"]
        assert messages[0]["content"] == alone.unwrapped.system_prompt
        assert picture_of(messages[1]).pixels.tobytes() == shown["image"].tobytes()
        done = False
        while not done:
            reply = alone.unwrapped.oracle_reply()
            _, reward, terminated, truncated, info = alone.step(reply)
            output = env.step(reply)
            done = output["done"]
            assert (output["reward"], done) == (reward, terminated or truncated)
            assert (output["metadata"]["terminated"], output["metadata"]["truncated"]) == (
                terminated,
                truncated,
            )
            (message,) = output["observations"]
            assert picture_of(message).sha256 == info["turn"].result.picture.sha256
            assert Turn.from_json(output["metadata"]["turn"]) == info["turn"]
        metrics.append(env.get_metrics())
        env.close()
    means = aggregate_for_environment(NAME, metrics)
    assert means["action_is_valid"] == 1.0
    assert means["success"] == pytest.approx(sum(each["success"] for each in metrics) / 2)
    assert means["turns"] == pytest.approx(sum(each["turns"] for each in metrics) / 2)


def test_nothing_played_is_no_success():
    (row,) = levels("vagen/Sokoban-v0", num_levels=1)
    env = skyrl_gym.make(NAME, extras=row)
    env.init(row["prompt"])
    none = {"success": 0.0, "turns": 0, "terminated": 0.0, "truncated": 1.0}
    assert env.get_metrics() == none


def test_prompts_show_all_turns_and_no_other_policy_is_taken():
    assert list(levels("vagen/FrozenLake-v0", num_levels=1, context="all"))
    with pytest.raises(ConfigError, match=r"context='last:2' is not possible with SkyRL"):
        list(levels("vagen/FrozenLake-v0", num_levels=1, context="last:2"))


@pytest.mark.parametrize("change", CHANGES)
def test_a_row_of_another_environment_is_refused(change):
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1)
    with pytest.raises(ConfigError) as refused:
        skyrl_gym.make(NAME, extras={**row, **change})
    assert says_both(str(refused.value), row, change)
