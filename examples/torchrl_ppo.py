"""TorchRL's PPO on pictures, one numbered move per turn.

    python examples/torchrl_ppo.py --total-turns 20480

Needs the extra torchrl. A small convolutional policy learns four levels of FrozenLake.
"""

from __future__ import annotations

import argparse
import time

import gymnasium as gym
import numpy as np
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper, SerialEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.moves import Moves


class Body(nn.Module):
    """Sees the picture at an eighth of its size: four by four pixels for each tile."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.AvgPool2d(8),
            nn.Conv2d(3, 32, 4, stride=4),  # one tile at a time
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 16, 128),
            nn.ReLU(),
            nn.Linear(128, outputs),
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        pictures = pixels.reshape(-1, *pixels.shape[-3:]).movedim(-1, 1).float() / 255
        return self.layers(pictures).reshape(*pixels.shape[:-3], -1)


def make_env() -> GymWrapper:
    options = {"difficulty": 0, "num_levels": 4, "is_slippery": False, "max_turns": 20}
    moves = Moves(gym.make("vagen/FrozenLake-v0", **options))
    return GymWrapper(moves, categorical_action_encoding=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--total-turns", type=int, default=20_480)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    envs = SerialEnv(16, make_env)
    policy = TensorDictModule(Body(4), in_keys=["pixels"], out_keys=["logits"])
    actor = ProbabilisticActor(
        policy,
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
        spec=envs.action_spec,
    )
    critic = ValueOperator(Body(1), in_keys=["pixels"])
    weights = {"entropy_coeff": 0.01, "critic_coeff": 0.5, "normalize_advantage": True}
    losses = ClipPPOLoss(actor, critic, **weights)
    advantages = GAE(gamma=0.95, lmbda=0.9, value_network=critic)
    optimizer = torch.optim.Adam(losses.parameters(), lr=1e-3)
    collector = Collector(envs, actor, frames_per_batch=1024, total_frames=args.total_turns)
    solved: list[bool] = []
    for update, data in enumerate(collector, 1):
        over = data["next", "done"]
        solved += (data["next", "reward"][over] > 5).tolist()  # a solved episode earns 10
        data["next", "reward"] *= 0.1
        for _ in range(4):
            with torch.no_grad():
                advantages(data)
            flat = data.reshape(-1)
            for rows in torch.randperm(len(flat)).split(256):
                found = losses(flat[rows])
                loss = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(losses.parameters(), 0.5)
                optimizer.step()
        success, seconds = float(np.mean(solved[-200:] or [0])), time.process_time()
        print(f"turns {1024 * update}, success {success:.2f}, {seconds:.0f} CPU s", flush=True)
    collector.shutdown()


if __name__ == "__main__":
    main()
