"""Several runs of one protocol as one, to be looked at side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.results.compare import read_conditions, refuse_differing
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.run_folder import RunFolder


class Together(RunFolder):
    """Runs that differ only in who played.

    An agent that several of them have is called by its run too, as in `gpt-4o (run-2)`.

    Raises:
        ProtocolError: they were played under different protocols.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(paths[0])
        self._runs = [self, *map(RunFolder, paths[1:])]
        for other in self._runs[1:]:
            refuse_differing(str(self.path), read_conditions(self), str(other.path), read_conditions(other))
        everyone = [str(agent["name"]) for run in self._runs for agent in run.protocol.agents]
        self._names = {
            (i, name): f"{name} ({run.path.resolve().name})" if everyone.count(name) > 1 else name
            for i, run in enumerate(self._runs)
            for name in [str(agent["name"]) for agent in run.protocol.agents]
        }
        agents = tuple(
            {**agent, "name": self._names[i, agent["name"]]}
            for i, run in enumerate(self._runs)
            for agent in run.protocol.agents
        )
        tasks = tuple(  # an environment's own agent still plays nothing else
            dataclasses.replace(
                task, baselines=[name for (_, old), name in self._names.items() if old in task.baselines]
            )
            for task in self.protocol.tasks
        )
        self.protocol = dataclasses.replace(self.protocol, tasks=tasks, agents=agents)

    def episodes(self) -> Iterator[Episode]:
        """Every episode of every run."""
        damaged = 0
        for i, run in enumerate(self._runs):
            for episode in RunFolder.episodes(run):
                name = self._names[i, episode.agent]
                yield dataclasses.replace(episode, agent=name, key=episode.key.replace(episode.agent, name, 1))
            damaged += run.damaged
        self.damaged = damaged

    def picture(self, sha256: str) -> bytes:
        """The PNG of that name, from whichever run has it."""
        for run in self._runs:
            try:
                return RunFolder.picture(run, sha256)
            except RunFolderError:
                continue
        raise RunFolderError(f"picture {sha256} is missing from {', '.join(str(run.path) for run in self._runs)}")
