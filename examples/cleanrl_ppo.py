"""PPO on pictures in one file, in CleanRL's style.

    python examples/cleanrl_ppo.py --total-turns 40000 --csv curve.csv

Needs torch. A small convolutional policy plays FrozenLake, one move per turn; `--num-levels 0`
draws ever new levels. The last lines say how often the policy solves levels of training and test.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Categorical

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.moves import Moves


class Agent(nn.Module):
    """Sees the picture at an eighth of its size: four by four pixels for each tile."""

    def __init__(self, envs: gym.vector.VectorEnv) -> None:
        super().__init__()
        height, width, _ = envs.single_observation_space.shape
        cells = (height // 32) * (width // 32)
        self.body = nn.Sequential(
            nn.AvgPool2d(8),
            nn.Conv2d(3, 32, 4, stride=4),  # one tile at a time
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * cells, 128),
            nn.ReLU(),
        )
        self.actor = nn.Linear(128, int(envs.single_action_space.n))
        self.critic = nn.Linear(128, 1)
        nn.init.orthogonal_(self.actor.weight, 0.01)

    def forward(self, pictures: np.ndarray | torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        pixels = torch.as_tensor(pictures).movedim(-1, 1).float() / 255
        hidden = self.body(pixels)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(1)


def make_envs(args: argparse.Namespace, split: str) -> gym.vector.VectorEnv:
    # SAME_STEP: the step that ends an episode shows the next one's first picture, so that every
    # row is a turn that was played. NEXT_STEP would add a row without one after each episode.
    return gym.make_vec(
        args.env_id,
        num_envs=args.num_envs,
        vectorization_mode="sync",
        wrappers=[Moves],
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        split=split,
        difficulty=args.difficulty,
        num_levels=args.num_levels or None if split == "train" else None,
        max_turns=args.max_turns,
        is_slippery=False,
    )


def evaluate(agent: Agent, args: argparse.Namespace, split: str, episodes: int = 200) -> float:
    """The share of levels that the policy solves, sampling its moves."""
    envs = make_envs(args, split)
    pictures, _ = envs.reset(seed=0)
    solved: list[bool] = []
    while len(solved) < episodes:
        with torch.no_grad():
            actions = agent(pictures)[0].sample().numpy()
        pictures, _, terminated, truncated, infos = envs.step(actions)
        over = terminated | truncated
        if over.any():
            solved += infos["final_info"]["is_success"][over].tolist()
    envs.close()
    return float(np.mean(solved))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-id", default="vagen/FrozenLake-v0")
    parser.add_argument("--num-levels", type=int, default=4)
    parser.add_argument("--difficulty", type=int, default=0)
    parser.add_argument("--max-turns", type=int, default=20)
    parser.add_argument("--total-turns", type=int, default=40_000)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--num-steps", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="file for the learning curve")
    args = parser.parse_args()
    gamma, lam, clip, epochs, batch, entropy_weight, scale = 0.95, 0.9, 0.2, 4, 256, 0.01, 0.1

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = make_envs(args, "train")
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
    shape = args.num_steps, args.num_envs
    pictures = np.zeros((*shape, *envs.single_observation_space.shape), np.uint8)
    actions = torch.zeros(shape, dtype=torch.long)
    logprobs, rewards, values, next_values = (torch.zeros(shape) for _ in range(4))
    ends = torch.zeros(shape, dtype=torch.bool)
    picture, _ = envs.reset(seed=args.seed)
    curve: list[tuple[int, float, float]] = []
    recent: list[bool] = []

    for update in range(args.total_turns // (args.num_steps * args.num_envs)):
        for step in range(args.num_steps):
            with torch.no_grad():
                policy, values[step] = agent(picture)
                actions[step] = policy.sample()
                logprobs[step] = policy.log_prob(actions[step])
            pictures[step] = picture
            picture, reward, terminated, truncated, infos = envs.step(actions[step].numpy())
            over = terminated | truncated
            rewards[step] = torch.as_tensor(reward) * scale
            ends[step] = torch.as_tensor(over)
            following = picture.copy()
            if over.any():
                following[over] = np.stack(infos["final_obs"][over])
                recent += infos["final_info"]["is_success"][over].tolist()
            with torch.no_grad():  # a limit of turns isn't the end of the game
                next_values[step] = agent(following)[1].masked_fill(torch.as_tensor(terminated), 0)

        advantages = torch.zeros(shape)
        later = torch.zeros(args.num_envs)
        for step in reversed(range(args.num_steps)):
            delta = rewards[step] + gamma * next_values[step] - values[step]
            later = delta + gamma * lam * later.masked_fill(ends[step], 0)
            advantages[step] = later
        returns = (advantages + values).flatten()

        flat = torch.as_tensor(pictures).flatten(0, 1)
        for _ in range(epochs):
            for rows in torch.randperm(len(flat)).split(batch):
                policy, value = agent(flat[rows])
                ratio = (policy.log_prob(actions.flatten()[rows]) - logprobs.flatten()[rows]).exp()
                gain = advantages.flatten()[rows]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                policy_loss = -torch.min(gain * ratio, gain * ratio.clamp(1 - clip, 1 + clip))
                value_loss = 0.5 * (value - returns[rows]).square()
                loss = (policy_loss + value_loss - entropy_weight * policy.entropy()).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        recent = recent[-200:]
        turns = (update + 1) * args.num_steps * args.num_envs
        curve.append((turns, float(np.mean(recent or [0])), time.process_time()))
        print("turns {}, success {:.2f}, {:.0f} CPU s".format(*curve[-1]))

    envs.close()
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows([("turns", "success", "cpu_seconds"), *curve])
    for split in ("train", "test"):
        print(f"success on {split} levels: {evaluate(agent, args, split):.2f}")


if __name__ == "__main__":
    main()
