"""Tests of MyEnv. Run them with `python test_my_env.py`, or with pytest."""

from __future__ import annotations

import gymnasium as gym
import my_env  # type: ignore[import-not-found]  # noqa: F401  (registers the id)

from vagen_envs.conformance import check


def test_my_env_conforms() -> None:
    """Spaces, seeds, splits, snapshots, records, hostile replies; raises ConformanceError."""
    check("example/MyEnv-v0")


def test_the_oracle_solves_every_level() -> None:
    """Play five levels to their end."""
    env = gym.make("example/MyEnv-v0")
    for seed in range(5):
        env.reset(seed=seed)
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(env.unwrapped.oracle_reply())  # type: ignore[attr-defined]
            over = terminated or truncated
        assert info["turn"].success, f"seed {seed} was not solved"


if __name__ == "__main__":
    test_my_env_conforms()
    test_the_oracle_solves_every_level()
    print("MyEnv conforms")  # noqa: T201
