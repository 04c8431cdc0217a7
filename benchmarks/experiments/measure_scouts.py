"""Measure what memory is worth in the world of the experiment `memory` to one who sees perfectly.

    .venv/bin/python benchmarks/experiments/measure_scouts.py

A scout turns right until the object is in a picture that it is still shown, then takes a shortest
way. It is told which objects are in a picture, as nobody who looks at pictures is; what it lacks is
memory of earlier ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import gymnasium as gym

from vagen_envs.seeding import HashStream
from vagen_experiments.experiment import load_experiment

EPISODES = 64
PLAYERS = {"scout, last:0": 0, "scout, last:1": 1, "scout, last:2": 2, "scout, all": 99}
"""Earlier pictures that a scout is shown."""


def solved(player: str, episodes: int, env_id: str, options: dict[str, object]) -> Iterator[bool]:
    """Whether the player solves each of the first test levels."""
    env = gym.make(env_id, **{**options, "observation": "text"})  # nobody looks at the pictures
    core = env.unwrapped
    for seed in range(episodes):
        env.reset(seed=seed, options={"split": "test"})
        stream, seen, over = HashStream("scouts", seed), list[bool](), False
        while not over:
            state = core.true_state
            seen.append(any(kind == state.target_type for kind, _, _ in state.visible_objects))
            if player == "random":
                reply = core.grammar.render(list(core.random_actions(stream, 1)))
            elif player == "without pictures":
                reply = core.text_only_reply()
            elif player == "oracle" or any(seen[-1 - PLAYERS[player] :]):
                reply = core.oracle_reply()
            else:
                reply = core.grammar.render(["rotateright"])
            _, _, terminated, truncated, info = env.step(reply)
            over = terminated or truncated
        yield info["turn"].success


def main() -> int:
    """The command; returns the exit status."""
    experiment = load_experiment("memory")
    for player in ("random", "without pictures", *PLAYERS, "oracle"):
        found = list(solved(player, EPISODES, experiment.env, dict(experiment.options)))
        sys.stdout.write(f"{player:18} {sum(found) / len(found):.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
