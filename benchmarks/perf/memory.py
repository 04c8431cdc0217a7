"""Whether a run's memory grows with its episodes: `python -m perf.memory [EPISODES]`."""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path

from perf.endpoint import endpoint
from perf.processes import resident
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.report import write_report
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import Policy, run
from vagen_benchmarks.runs.tasks import make_tasks


def main(episodes: int) -> None:
    """Play so many episodes of a model and print the memory as they pass."""
    played = 0

    def told(_: Episode) -> None:
        nonlocal played
        played += 1
        if played % max(1, episodes // 10) == 0:
            gc.collect()
            sys.stdout.write(f"{played:6} episodes {resident() / 1e6:7.1f} MB\n")
            sys.stdout.flush()

    with endpoint(0.0) as url, tempfile.TemporaryDirectory() as folder:
        agent = ChatAgent(Registry().find("openai:m", url), base_url=url)
        tasks, _ = make_tasks(["sokoban"], episodes=episodes)
        path = Path(folder) / "run"
        with RunWriter(path, Protocol(tuple(tasks), (agent.describe(),))) as writer:
            run(writer, [agent], policy=Policy(8), told=told)
        report = write_report(RunFolder(path))
        sys.stdout.write(
            f"report {resident() / 1e6:7.1f} MB, a page of {report.stat().st_size / 1e6:.1f} MB\n"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
