"""Play an agent of your own on test levels and print its success rate with a confidence interval.

The agent finds the player, the flag and the holes by their colours and steps towards the flag
unless a hole is in the way, so it sometimes gets stuck behind holes.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import vagen_envs
from vagen_benchmarks.results.stats import wilson

LEVELS, TILE = 100, 32
COLOURS = {"player": (46, 140, 70), "flag": (92, 74, 58), "hole": (24, 62, 110)}
MOVES = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}


def main() -> None:
    gym.register_envs(vagen_envs)
    env = gym.make("vagen/FrozenLake-v0", split="test", strategy="free_think")
    solved = 0
    for seed in range(LEVELS):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(reply_to(observation["image"]))
            over = terminated or truncated
        solved += info["turn"].success
    low, high = wilson(solved, LEVELS)
    print(f"solved {solved} of {LEVELS} levels ({100 * low:.0f} to {100 * high:.0f} % at 95 %)")


def reply_to(image: np.ndarray) -> str:
    """Return a reply with up to three steps towards the flag."""
    player, flag, holes = cells(image, "player")[0], cells(image, "flag")[0], cells(image, "hole")
    names: list[str] = []
    while player != flag and len(names) < 3:
        near = {
            name: (player[0] + down, player[1] + right) for name, (down, right) in MOVES.items()
        }
        better = [
            n
            for n, cell in near.items()
            if distance(cell, flag) < distance(player, flag) and cell not in holes
        ]
        if not better:
            break
        names.append(better[0])
        player = near[better[0]]
    return (
        "<think>These steps bring me closer to the "
        f"flag.</think><answer>{','.join(names) or 'Up'}</answer>"
    )


def cells(image: np.ndarray, thing: str) -> list[tuple[int, int]]:
    """Return the cells that contain a thing's colour, as (row, column)."""
    rows, columns = np.nonzero((image == COLOURS[thing]).all(axis=-1))
    return sorted(set(zip((rows // TILE).tolist(), (columns // TILE).tolist(), strict=True)))


def distance(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Return the number of moves between two cells without holes."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


if __name__ == "__main__":
    main()
