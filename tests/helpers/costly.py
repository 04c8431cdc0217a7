"""A lake some of whose levels cost too much: `costly:test/Costly-v0`."""

from __future__ import annotations

import time

import gymnasium as gym
import numpy as np

from vagen_envs.frozen_lake.env import FrozenLakeEnv

SPINS, HOARDS, GRABS, SWALLOWS, SLOW = 1001, 1002, 1003, 1004, 2000
"""Seeds of such levels."""


class CostlyEnv(FrozenLakeEnv):
    """What a hostile or unlucky level does, on demand."""

    id = "test/Costly-v0"

    def reset(self, *, seed=None, options=None):
        self.hoard = []
        if seed is not None and seed >= SLOW:
            time.sleep(0.6)
        if seed == SPINS:
            while True:
                pass
        if seed == SWALLOWS:
            while True:
                try:
                    sum(range(1000))
                except Exception:  # noqa: S112 - as a careless simulator would
                    continue
        if seed == HOARDS:
            while True:
                self.hoard.append(bytes(1 << 20))
        if seed == GRABS:
            self.hoard.append(np.ones(1 << 40, np.uint8))
        return super().reset(seed=seed, options=options)


if "test/Costly-v0" not in gym.registry:
    gym.register("test/Costly-v0", "costly:CostlyEnv")
