"""How often a diagnosis names the fault that an oracle was given.

    python -m perf.diagnosis_power [RUNS]

Oracles that see, foresee or plan wrongly in 20, 50 and 100 % of their turns play 64 levels under
each condition; other levels and other turns each run. Prints the share of runs whose main cause is
the fault. A run takes about a second.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from perf.impaired import FAULTS, Impaired
from vagen_benchmarks.agents.base import Agent
from vagen_benchmarks.diagnosis import Diagnosis, diagnose, diagnosis_tasks
from vagen_benchmarks.runs.job import make_job
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import run

LEVELS = 64


def diagnosed(
    agent: Agent, env_id: str, levels: int = LEVELS, split: str = "test", first_seed: int = 0
) -> Diagnosis:
    """The diagnosis of an agent that plays into a temporary folder."""
    tasks = diagnosis_tasks([env_id], {"representation": "structured"}, split, first_seed, levels)
    with tempfile.TemporaryDirectory() as place:
        job = make_job(Path(place) / "run", tasks, [agent])
        with RunWriter(job.path, job.protocol, new=True) as folder:
            run(folder, job.agents)
        return diagnose(RunFolder(job.path))[0]


def power(env_id: str, runs: int) -> dict[tuple[str, float], int]:
    """In how many runs the fault was named, by fault and its share of the turns."""
    named: dict[tuple[str, float], int] = {}
    for fault in FAULTS:
        for share in (0.2, 0.5, 1.0):
            found = [
                diagnosed(
                    Impaired(fault, share, salt=number), env_id, LEVELS, "train", number * LEVELS
                ).main_cause
                for number in range(runs)
            ]
            named[fault, share] = found.count(fault)
    return named


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for name in ("vagen/FrozenLake-v0", "vagen/Sokoban-v0"):
        for (what, part), count in power(name, asked).items():
            sys.stdout.write(
                f"{name}: {what} faulty in {part:.0%} of the turns: named in {count} of {asked} "
                "runs\n"
            )
