"""Turns a second of a simulator in 1, 2, 4 and 8 processes, and what bounds them.

    python -m perf.many_at_once vagen/Navigation-v0 [SECONDS [PROCESSES …]]

Each process plays one environment of Gymnasium's asynchronous vector form. A turn is as many
actions as fit it, and a picture.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

import vagen_envs  # noqa: F401
from perf.processes import children, processor_seconds, resident

ANSWERS = {
    "navigation": ["moveahead", "moveback", "rotateright", "moveleft", "moveright"],
    "primitive_skill": ["pick(0, 0, 20)", "pick(-100, 200, 150)"],
}
"""Turns that end as they began, so that each is the same work."""


def rate(env_id: str, processes: int, seconds: float) -> tuple[float, float, float]:
    """Turns a second, cores in use meanwhile, and MB of a process."""
    plain: Any = gym.make(env_id).unwrapped
    answer = plain.grammar.render(
        ANSWERS[plain.prompt_folder], observation="a", reasoning="b", prediction="c"
    )
    endless: dict[str, Any] = {"max_turns": 10**9, "max_steps": 10**9}
    if plain.prompt_folder == "primitive_skill":
        endless["workers"] = 0
    envs = gym.make_vec(env_id, processes, "async", **endless)
    replies = (answer,) * processes
    envs.reset(seed=1)
    envs.step(replies)
    workers = children(os.getpid())
    used, began, turns = processor_seconds(os.getpid(), *workers), time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        envs.step(replies)
        turns += processes
    taken = time.perf_counter() - began
    cores = (processor_seconds(os.getpid(), *workers) - used) / taken
    held = resident(*workers) / len(workers) / 1e6
    envs.close()
    return turns / taken, cores, held


def main(env_id: str, seconds: float, counts: Sequence[int]) -> None:
    """Print a row for each number of processes."""
    sys.stdout.write(f"{env_id} on {os.cpu_count()} cores\n")
    for processes in counts:
        turns, cores, held = rate(env_id, processes, seconds)
        each = 1e3 * cores / turns
        sys.stdout.write(
            f"{processes} processes: {turns:.1f} turns/s with {cores:.2f} cores, so {each:.1f} "
            f"ms of a core a turn; {held:.0f} MB each\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], float((sys.argv[2:] or ["10"])[0]), [*map(int, sys.argv[3:])] or [1, 2, 4, 8])
