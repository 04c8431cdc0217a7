"""torchrl's own wrapper, rollouts and collector over environments of ours."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

pytest.importorskip("torchrl")

import torch
from oracle import oracle_episode
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector

from vagen_adapters.torchrl_env import make

WORDS = (
    "<think><observation>a</observation><reasoning>b</reasoning><prediction>c</prediction></think>"
)
MOVES = ("Left", "Down", "Right", "Up")


@pytest.mark.parametrize("env_id", ["vagen/FrozenLake-v0", "vagen/Sokoban-v0"])
def test_an_episode_is_the_same_as_in_gymnasium(env_id):
    replies, turns = oracle_episode(gym.make(env_id, split="test"), 3, "test")
    env = make(env_id, split="test")
    now = env.reset(seed=3)
    for reply, turn in zip(replies, turns, strict=True):
        now["action"] = reply
        now = env.step(now)["next"]
        assert now["text"] == turn.result.text
        assert (now["image"].numpy() == turn.result.picture.pixels).all()
        assert now["reward"].item() == pytest.approx(turn.reward, abs=1e-6)
        assert (now["terminated"].item(), now["truncated"].item()) == (
            turn.terminated,
            turn.truncated,
        )
    env.close()


class Policy(torch.nn.Module):
    """Looks at the picture, and writes one of four moves."""

    def __init__(self):
        super().__init__()
        self.look = torch.nn.Sequential(
            torch.nn.AvgPool2d(8),
            torch.nn.Flatten(-3),
            torch.nn.Linear(3 * 16 * 16, 32),
            torch.nn.Tanh(),
            torch.nn.Linear(32, 4),
        )

    def odds(self, image):
        return torch.distributions.Categorical(
            logits=self.look(image.movedim(-1, -3).float() / 255)
        )

    def forward(self, image):
        move = self.odds(image).sample()
        return f"{WORDS}<answer>{MOVES[int(move)]}</answer>", move


def test_three_updates_from_the_collector():
    torch.manual_seed(0)
    policy = Policy()
    collector = Collector(
        lambda: make("vagen/FrozenLake-v0", difficulty=0),
        TensorDictModule(policy, in_keys=["image"], out_keys=["action", "move"]),
        frames_per_batch=24,
        total_frames=72,
    )
    optimiser, before = (
        torch.optim.Adam(policy.parameters(), 1e-2),
        [each.clone() for each in policy.parameters()],
    )
    batches = 0
    for batch in collector:
        rewards = batch["next", "reward"].flatten()
        assert len(rewards) == 24
        assert rewards.any()
        advantages = rewards - rewards.mean()
        loss = -(policy.odds(batch["image"]).log_prob(batch["move"]) * advantages).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        batches += 1
    collector.shutdown()
    assert batches == 3
    assert any(
        not torch.equal(old, new) for old, new in zip(before, policy.parameters(), strict=True)
    )


def test_a_named_split_holds_through_automatic_resets():
    env = make("vagen/FrozenLake-v0", max_turns=1, observation="text")
    now = env.reset(options={"split": "test"})
    splits = []
    for _ in range(4):
        splits.append(env.unwrapped.level["split"])
        now["action"] = "<answer>Up</answer>"
        _, now = env.step_and_maybe_reset(now)
    assert splits == ["test"] * 4
    env.close()


def test_info_is_read_as_torchrl_registers_it():
    env = make("vagen/FrozenLake-v0", max_turns=3).auto_register_info_dict()
    replies, turns = oracle_episode(gym.make("vagen/FrozenLake-v0", max_turns=3), 3, "train")
    now = env.reset(seed=3)
    assert now["level"] == env.level
    assert (env.level["split"], env.level["seed"]) == ("train", 3)
    assert now["turn"] is None
    now["action"] = replies[0]
    now = env.step(now)["next"]
    assert now["turn"] == turns[0]
    policy = TensorDictModule(Policy(), in_keys=["image"], out_keys=["action", "move"])
    rollout = env.rollout(5, policy, break_when_any_done=False)
    played = [each["next", "turn"] for each in rollout]
    assert [turn.reward for turn in played] == pytest.approx(
        rollout["next", "reward"].flatten().tolist()
    )
    env.close()


def test_its_ppo_trains_on_numbered_moves():
    """The example of the page, for one update; how far it learns stands on the page."""
    example = Path(__file__).parent.parent.parent / "examples" / "torchrl_ppo.py"
    command = [sys.executable, "-W", "ignore", str(example), "--total-turns", "1024"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"turns 1024, success 0\.\d\d, \d+ CPU s\n", done.stdout)
