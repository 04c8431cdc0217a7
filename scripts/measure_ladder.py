"""Measure the rungs of an environment's ladder: success of three agents, and the time of a reset.

    python scripts/measure_ladder.py vagen/Sokoban-v0 --levels 256

`noisy` is the oracle with every fifth action drawn at random, `greedy` takes the action after which boxes or the
player are nearest to the targets as the crow flies, `random` doesn't look. None writes anything but actions.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import gymnasium as gym

import vagen_envs  # noqa: F401
from vagen_envs.errors import LevelError
from vagen_envs.seeding import HashStream

NAMES = ("Up", "Down", "Left", "Right")


def distance(state: Any) -> float:
    """How far from done a state looks: from boxes to targets, and a little from the player to what it has to reach."""
    if state.kind == "frozen_lake":
        return 1e9 if state.player in state.holes else apart(state.player, state.target)
    rest = [box for box in state.boxes if box not in state.targets]
    return sum(min(apart(box, target) for target in state.targets) for box in rest) + 0.1 * min(
        (apart(state.player, box) for box in rest), default=0
    )


def apart(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Steps between two cells if nothing were in the way."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def greedy(env: Any, dice: HashStream) -> list[str]:
    """One action, the nearest; a fifth of the time another one, which gets it out of circles."""
    order = list(NAMES)
    dice.shuffle(order)
    return [order[0]] if dice.below(5) == 0 else [min(order, key=lambda name: distance(env.imagine([name])))]


def noisy(env: Any, dice: HashStream) -> list[str]:
    """The oracle's next actions, each replaced by a random one with a chance of a fifth."""
    try:
        plan = list(env.plan())[: env.config.max_actions_per_turn]
    except LevelError:
        return [dice.choice(NAMES)]
    return [dice.choice(NAMES) if dice.below(5) == 0 else action for action in plan]


def blind(env: Any, dice: HashStream) -> list[str]:
    """A turn full of random actions."""
    return [dice.choice(NAMES) for _ in range(env.config.max_actions_per_turn)]


def oracle(env: Any, _dice: HashStream) -> list[str]:
    """The oracle's next actions."""
    return list(env.plan())[: env.config.max_actions_per_turn]


AGENTS = {"oracle": oracle, "noisy": noisy, "greedy": greedy, "random": blind}


def success(env_id: str, rung: int, agent: str, levels: int) -> float:
    """Share of the first test levels of a rung that an agent solves."""
    # The greedy one decides before each action; it has as many of them.
    options: dict[str, Any] = {"difficulty": rung, "split": "test", "observation": "text", "strategy": "no_think"}
    made: Any = gym.make(env_id, **options).unwrapped
    if agent == "greedy":
        actions = made.config.max_turns * made.config.max_actions_per_turn
        made = gym.make(env_id, **options, max_actions_per_turn=1, max_turns=actions).unwrapped
    solved = 0
    for seed in range(levels):
        made.reset(seed=seed)
        dice, over, info = HashStream(agent, rung, seed), False, {}
        while not over:
            reply = made.grammar.render(AGENTS[agent](made, dice))
            _, _, terminated, truncated, info = made.step(reply)
            over = terminated or truncated
        solved += info["turn"].success
    return solved / levels


def reset_time(env_id: str, rung: int, levels: int) -> tuple[float, float]:
    """Milliseconds of a reset on a rung: the median and the mean."""
    env = gym.make(env_id, difficulty=rung).unwrapped
    taken = []
    for seed in range(levels):
        began = time.perf_counter()
        env.reset(seed=seed)
        taken.append(1e3 * (time.perf_counter() - began))
    return median(taken), sum(taken) / levels


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env_id")
    parser.add_argument("--levels", type=int, default=256)
    arguments = parser.parse_args()
    print(
        "| rung | oracle | oracle, 20 % noise | greedy | random | reset, median and mean |\n|---|---|---|---|---|---|"
    )
    for rung in range(6):
        shares = [f"{100 * success(arguments.env_id, rung, agent, arguments.levels):.0f} %" for agent in AGENTS]
        times = "{:.1f} and {:.1f} ms".format(*reset_time(arguments.env_id, rung, arguments.levels))
        print(f"| {rung} | {' | '.join(shares)} | {times} |", flush=True)
