"""From episodes to the table: a cell for each task and agent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from vagen_benchmarks.run_folder import Episode
from vagen_benchmarks.stats import mean, wilson

OWN_METRICS = frozenset({"action_is_valid", "action_is_effective", "success"})
"""The metrics that every environment has; others become columns of their own."""


@dataclass
class Cell:
    """What an agent did on a task. Failed episodes are counted and have no part in any other number."""

    task: str
    agent: str
    split: str = ""
    played: int = 0
    successes: int = 0
    returns: list[float] = field(default_factory=list)
    turns: int = 0
    valid: int = 0
    effective: int = 0
    well_formed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    metrics: dict[str, list[float]] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=lambda: [0, 0])
    seconds: list[float] = field(default_factory=list)

    def add(self, episode: Episode) -> None:
        """Count an episode."""
        self.split = episode.split
        for call in filter(None, episode.calls):
            self.tokens[0] += call["prompt_tokens"] or 0
            self.tokens[1] += call["completion_tokens"] or 0
            self.seconds.append(call["seconds"])
        if episode.failure is not None:
            self.failures[episode.failure.kind] += 1
            return
        self.played += 1
        self.successes += episode.success
        self.returns.append(episode.score)
        self.turns += len(episode.turns)
        for turn in episode.turns:
            self.valid += bool(turn["metrics"]["action_is_valid"])
            self.effective += bool(turn["metrics"]["action_is_effective"])
            self.well_formed += bool(turn["parsed"]["well_formed"])
            self.problems.update({problem["code"] for problem in turn["parsed"]["problems"]})
        self.endings.update(call["ending"] for call in filter(None, episode.calls))
        for name, value in episode.turns[-1]["metrics"].items():
            if name not in OWN_METRICS and isinstance(value, int | float):
                self.metrics.setdefault(name, []).append(float(value))

    def row(self) -> dict[str, Any]:
        """The numbers of the table. Rates and means are `None` where nothing was played."""
        low, high = wilson(self.successes, self.played)
        turns, played = self.turns, self.played

        def share(count: float, of: int) -> float | None:
            return count / of if of else None

        return {
            "task": self.task,
            "agent": self.agent,
            "split": self.split,
            "played": played,
            "successes": self.successes,
            "success": share(self.successes, played),
            "low": low,
            "high": high,
            "return": mean(self.returns) if played else None,
            "turns": share(turns, played),
            "valid": share(self.valid, turns),
            "effective": share(self.effective, turns),
            "well_formed": share(self.well_formed, turns),
            "failed": sum(self.failures.values()),
            "failures": dict(self.failures),
            "problems": dict(self.problems.most_common()),
            "endings": dict(self.endings),
            "metrics": {name: mean(values) for name, values in self.metrics.items()},
            "prompt_tokens": self.tokens[0],
            "completion_tokens": self.tokens[1],
            "seconds_per_reply": mean(self.seconds) if self.seconds else None,
        }


class Summary:
    """The cells of a run, filled an episode at a time."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, str], Cell] = {}

    def add(self, episode: Episode) -> Cell:
        """Count an episode and return its cell."""
        key = (episode.task, episode.agent)
        cell = self.cells.setdefault(key, Cell(*key))
        cell.add(episode)
        return cell

    def rows(self) -> list[dict[str, Any]]:
        """The table, by task and then by agent, in the order they were first seen."""
        tasks = list(dict.fromkeys(task for task, _ in self.cells))
        return [cell.row() for task in tasks for cell in self.cells.values() if cell.task == task]
