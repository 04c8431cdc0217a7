"""Plays an episode by the environment's own solver and prints its return: `python
validation/oracle.py [SEED]`.
"""

from __future__ import annotations

import sys

import gymnasium as gym

import vagen_envs

gym.register_envs(vagen_envs)
env = gym.make("vagen/Sokoban-v0")
env.reset(seed=int(sys.argv[1]) if len(sys.argv) > 1 else 7)
total, over = 0.0, False
while not over:
    _, reward, terminated, truncated, info = env.step(env.unwrapped.oracle_reply())  # type: ignore[attr-defined]
    total, over = total + float(reward), terminated or truncated
sys.stdout.write(f"{total} {info['turn'].success}\n")
