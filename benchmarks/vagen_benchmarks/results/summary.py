"""From episodes to the table: a cell for each task and agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from vagen_benchmarks.results.cell import Cell
from vagen_benchmarks.results.stats import Estimate
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_folder import RunFolder


def estimate(row: Mapping[str, Any]) -> Estimate:
    """The success that a row of the table states, as the estimate it came of."""
    names = ("success", "low", "high", "levels", "independent_plays", "freedom", "drawn", "flagged")
    return Estimate(*[row[name] for name in names])


MIXED = "≠"
"""Marks an agent whose replies more than one model has written, by the endpoint's names."""
FLAG = "‡"
"""Marks a score of which more than the share `cell.FLAGGED` of episodes failed or is missing."""


def served_names(rows: Iterable[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """The models that answered for each agent, as endpoints name them, with their replies."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        if row["served"]:
            found.setdefault(row["agent"], Counter()).update(row["served"])
    return found


class Summary:
    """The cells of a run, filled an episode at a time. What the protocol names and the run lacks is
    counted.
    """

    def __init__(self, protocol: Protocol, *, failed_as_misses: bool = False) -> None:
        self.protocol = protocol
        self._misses = failed_as_misses
        self.cells: dict[tuple[str, str], Cell] = {}
        for agent in protocol.agents:
            for _, task, seed, repeat in protocol.keys(agent["name"]):
                self._cell(task.label, agent["name"]).planned.add((seed, repeat))

    def add(self, episode: Episode) -> None:
        self._cell(episode.task, episode.agent).add(episode)

    def _cell(self, task: str, agent: str) -> Cell:
        """The cell of a task and an agent, a new one if there is none yet."""
        if (task, agent) not in self.cells:
            self.cells[task, agent] = Cell(task, agent, failed_as_misses=self._misses)
        return self.cells[task, agent]

    def rows(self) -> list[dict[str, Any]]:
        """The table, by task and then by agent, in the order they were first seen."""
        by_task: dict[str, list[Cell]] = {}
        for cell in self.cells.values():
            by_task.setdefault(cell.task, []).append(cell)
        return [cell.row() for cells in by_task.values() for cell in cells]


def summarise(run: RunFolder, *, failed_as_misses: bool = False) -> Summary:
    """The table of a run, with what its protocol named and it lacks.

    Args:
        run: any.
        failed_as_misses: whether an episode that failed by its endpoint, its environment or its
            budget counts as not solved, and not as one that has no score.
    """
    summary = Summary(run.protocol, failed_as_misses=failed_as_misses)
    for episode in run.episodes():
        summary.add(episode)
    return summary
