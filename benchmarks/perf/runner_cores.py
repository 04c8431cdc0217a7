"""What a second process brings a run: `python -m perf.runner_cores`.

Processor time is of those who play and of the one who stores, without their start: what 64 episodes take is taken off
what 1,500 take. Wall time is told beside it; an endpoint that answers at once takes its part of the cores, too.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from perf.endpoint import endpoint
from vagen_benchmarks.agents.factory import Asked
from vagen_benchmarks.notebook import bench
from vagen_benchmarks.runs.runner import Policy

FEW, MANY = 64, 1500


class Spent(NamedTuple):
    """Turns, and seconds: of processor time in the processes that play and in this one, and of the wall."""

    turns: float
    players: float
    here: float
    wall: float


def spent(url: str, episodes: int, workers: int, flight: int = 64) -> Spent:
    """What a run takes with so many processes and requests in flight."""
    before = _processor(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = bench("openai:m", "sokoban", episodes=episodes, workers=workers, out=Path(folder) / "run",
                    asked=Asked(base_url=url), policy=Policy(flight))  # fmt: skip
        wall = time.perf_counter() - before[1]
        players, here = (now - then for now, then in zip(_processor(), before[0], strict=True))
        return Spent(sum(len(episode.turns) for episode in run.episodes()), players, here, wall)


def _processor() -> tuple[float, float]:
    children, this = (resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    return children.ru_utime + children.ru_stime, this.ru_utime + this.ru_stime


def main() -> None:
    """Measure and print."""
    with endpoint(0.0) as url:
        spent(url, FEW, 1)
        least = []
        for workers in (1, 2):
            few, many = spent(url, FEW, workers), spent(url, MANY, workers)
            turns, players, here, wall = (each - first for first, each in zip(few, many, strict=True))
            sys.stdout.write(
                f"{workers} process(es): {1e3 * players / turns:.2f} ms of CPU a turn in those that play, "
                f"{1e3 * here / turns:.2f} here; {turns / wall:.0f} turns a second\n"
            )
            least.append((max(players / workers, here) / turns, wall / turns))
        (alone, wall_alone), (longest, wall_two) = least
        sys.stdout.write(
            f"the busiest process of two: {alone / longest:.2f} times less; the wall: {wall_alone / wall_two:.2f}\n"
        )


if __name__ == "__main__":
    main()
