"""Rows of a table across runs: a row for each model on each environment, difficulty, strategy and
context.

Rows are compared in groups, the table's columns: one environment under one difficulty and one
strategy. Runs whose protocols differ beyond that can't be compared there; that column is refused,
and the others stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vagen_benchmarks.results.compare import paired_p_value
from vagen_benchmarks.results.play_errors import STOPS
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.protocol import Task, differences
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.tasks import short_name

SEES_ALL = frozenset({"oracle"})
"""Agents that read the simulator's state: shown for reference, without a rank."""
SURE = 0.05
"""The p-value below which a paired test tells two rows of a column apart."""
FIGURES = (
    "success",
    "low",
    "high",
    "played",
    "failed",
    "missing",
    "levels",
    "flagged",
    "return",
    "turns",
    "valid",
    "effective",
)
"""What a row takes from the run's own table as it is."""
COSTS = ("prompt_tokens", "completion_tokens", "dollars", "seconds_median", "seconds_p95")
Play = tuple[int, int]
"""Seed and repeat."""


@dataclass
class TableRow:
    """A model in a column.

    Attributes:
        run: name of its run folder.
        agent: who played, as the run calls it.
        model, context: the same without its context, and what it was shown of the past.
        column: environment, difficulty and strategy.
        figures: everything that is known of it, by name, in the order of the files that hold it.
        plays: level's content and success of each scored episode.
        rank: one more than the rows of its column that a paired test finds better; `None` for
            agents that see the state and for rows with too many failures.
    """

    run: str
    agent: str
    model: str
    context: str
    column: Column
    figures: dict[str, Any]
    conditions: dict[str, Any]
    judge: Mapping[str, Any] | None
    plays: dict[Play, tuple[str, bool]] = field(default_factory=dict)
    rank: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as a flat dictionary, as files hold it."""
        place = {"model": self.model, "context": self.context, **self.column.to_json()}
        return {**place, "run": self.run, "rank": self.rank, **self.figures}


@dataclass(frozen=True, order=True)
class Column:
    """What rows have in common. `label` has the further options that tell tasks of one run
    apart.
    """

    environment: str
    difficulty: str
    strategy: str
    label: str = ""

    def __str__(self) -> str:
        level = f"difficulty {self.difficulty}" if self.difficulty else ""
        return ", ".join(filter(None, (self.environment, level, self.strategy, self.label)))

    def to_json(self) -> dict[str, Any]:
        level = int(self.difficulty) if self.difficulty.isdigit() else self.difficulty or None
        place = {"environment": self.environment, "difficulty": level, "strategy": self.strategy}
        return {**place, "options": self.label}


@dataclass(frozen=True)
class ResultsTable:
    """The rows of some runs.

    Attributes:
        rows: by column and model.
        refused: columns and judges left out because protocols differ, a line each.
    """

    rows: list[TableRow]
    refused: list[str]

    @property
    def columns(self) -> list[Column]:
        """The columns, in the order of their first rows."""
        return list(dict.fromkeys(row.column for row in self.rows))


def results_table(runs: Sequence[RunFolder], *, failed_as_misses: bool = False) -> ResultsTable:
    """The rows of runs, ranked within their columns.

    Args:
        runs: any number, of any protocols.
        failed_as_misses: as in `summarise`.
    """
    columns: dict[Column, list[TableRow]] = {}
    for run in runs:
        for row in _rows(run, failed_as_misses):
            columns.setdefault(row.column, []).append(row)
    kept: list[TableRow] = []
    refused: list[str] = []
    for column, rows in columns.items():
        differing = _differences(rows)
        if differing:
            refused.append(f"{column}: {differing}")
            continue
        _leave_out_judges(column, rows, refused)
        _rank(rows)
        kept += rows
    return ResultsTable(kept, refused)


def column_of(task: Task) -> Column:
    """The column of a task."""
    config = task.config
    shown = {f"{name}={task.options.get(name)}" for name in ("strategy", "difficulty")}
    label = " ".join(part for part in task.label.split()[1:] if part not in shown)
    difficulty = "" if config.get("difficulty") is None else str(config["difficulty"])
    return Column(short_name(task.env_id), difficulty, str(config.get("strategy", "")), label)


def _rows(run: RunFolder, failed_as_misses: bool) -> Iterable[TableRow]:
    summary = summarise(run, failed_as_misses=failed_as_misses)
    found = {(row["task"], row["agent"]): row for row in summary.rows()}
    tasks = {task.label: task for task in run.protocol.tasks}
    plays: dict[tuple[str, str], dict[Play, tuple[str, bool]]] = {}
    for episode in run.episodes():
        if episode.failure is None or failed_as_misses:
            play = (episode.seed, episode.repeat)
            of_cell = plays.setdefault((episode.task, episode.agent), {})
            of_cell[play] = (_level(episode), episode.success)
    for described in run.protocol.agents:
        name = str(described["name"])
        context = str(described.get("context", "all")) if "sampling" in described else ""
        model = name.removesuffix(f"+{context}") if context else name
        for label, task in tasks.items():
            row = found.get((label, name))
            if row is None:
                continue
            yield TableRow(
                run.path.resolve().name,
                name,
                model,
                context,
                column_of(task),
                _figures(row),
                _conditions(run, task),
                run.judged_by(),
                plays.get((label, name), {}),
            )


def _level(episode: Episode) -> str:
    return episode.content or f"seed {episode.seed}"


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says, flat."""
    passed = {f"pass@{k}": value for k, value in row["pass_at"].items() if k > 1}
    return {
        **{name: row[name] for name in FIGURES},
        **passed,
        "grounding": row["judged"].get("grounding"),
        "world_modeling": row["judged"].get("world_modeling"),
        **{name: row[name] for name in COSTS},
        "served": " | ".join(row["served"]),
        **{name.replace(" ", "_"): row["errors"][name] for name in STOPS},
    }


def _conditions(run: RunFolder, task: Task) -> dict[str, Any]:
    """What a task was played under, whoever played."""
    protocol = run.protocol
    names = ("env_id", "split", "first_seed", "episodes", "config", "prompts_sha256")
    played = {name: getattr(task, name) for name in names}
    return {**played, "repeats": protocol.repeats, "versions": dict(protocol.versions)}


def _differences(rows: Sequence[TableRow]) -> str:
    """In which options the protocols of rows differ; empty if they are the same."""
    first = rows[0]
    for row in rows[1:]:
        if found := differences(first.conditions, row.conditions):
            listed = "; ".join(each.removeprefix("config.") for each in found[:4])
            return f"the protocols of {first.run} and {row.run} differ in {listed}"
        if first.conditions != row.conditions:
            return f"{first.run} and {row.run} were played with other prompts"
    return ""


def _leave_out_judges(column: Column, rows: Sequence[TableRow], refused: list[str]) -> None:
    """Leave the reasoning scores of a column out unless one judge gave all of them."""
    judged = [row for row in rows if row.judge is not None]
    if all(row.judge == judged[0].judge for row in judged):
        return
    found = differences(
        judged[0].judge, next(r.judge for r in judged if r.judge != judged[0].judge)
    )
    refused.append(f"{column}, reasoning scores: the judges differ in {'; '.join(found[:4])}")
    for row in rows:
        row.figures.update(grounding=None, world_modeling=None)


def _rank(rows: Sequence[TableRow]) -> None:
    """Rank the rows of a column by paired tests on their common levels."""
    ranked = [
        row
        for row in rows
        if row.model not in SEES_ALL and row.plays and not row.figures["flagged"]
    ]
    for row in ranked:
        row.rank = 1 + sum(_is_better(other, row) for other in ranked)


def _is_better(one: TableRow, other: TableRow) -> bool:
    """Whether one row solved more of the levels that both played, more than chance explains."""
    gains: list[tuple[str, int]] = []
    for play in sorted(one.plays.keys() & other.plays.keys()):
        level, solved = one.plays[play]
        _, solved_by_other = other.plays[play]
        gains.append((level, int(solved) - int(solved_by_other)))
    gained = sum(gain for _, gain in gains)
    return gained > 0 and paired_p_value(gains) < SURE
