"""The table of a protocol file: a figure with its interval for each column, averages, and what was
published.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vagen_benchmarks.results.stats import Estimate, combined
from vagen_benchmarks.results.summary import estimate
from vagen_benchmarks.runs.plans import Plan

MARKS = {"run": "", "published": "†", "not_looking": "§"}
"""By the source of a row."""
LEGEND = {
    "†": "published result, of the paper's test",
    "§": "measured on this test; the agent doesn't look",
}


@dataclass(frozen=True)
class Row:
    """A row of a plan's table: a figure for each column, `None` where there is none, and where it
    is from.

    `source` is `run`, `published`, or `not_looking` for what agents reach here whose replies don't
    depend on what they are shown.
    """

    name: str
    values: tuple[Estimate | None, ...]
    source: Literal["run", "published", "not_looking"]

    @property
    def mark(self) -> str:
        """Behind the name of a row that isn't the run's."""
        return MARKS[self.source]


@dataclass(frozen=True)
class PlanTable:
    """A table of the plan's shape, with an average a group and one over all.

    Attributes:
        columns: group and name of each column; averages are called `average` and `overall`.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The groups with the number of their columns, in order; an ungrouped column is its own.
        Empty without any.
        """
        keys = [(group, None if group else i) for i, (group, _) in enumerate(self.columns)]
        groups = [(group, len(list(members))) for (group, _), members in itertools.groupby(keys)]
        return groups if any(group for group, _ in groups) else []


def plan_table(plan: Plan, rows: Sequence[Mapping[str, Any]]) -> PlanTable:
    """The table of a run (`Summary.rows()`) beside what was published."""
    columns = plan.data["columns"]
    scores = {(row["task"], row["agent"]): row for row in rows}
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    labels = {(id(column), value): label for column, value, label, *_ in plan.cells()}
    names = [(column.get("group", column["name"]), column["name"]) for column in columns]
    groups: dict[str, list[int]] = {}
    for i, (group, _) in enumerate(names):
        groups.setdefault(group, []).append(i)
    made = []
    for agent in agents:
        for value in plan.values:
            known: list[Any] = []
            for column in columns:
                label = labels.get((id(column), value), "")
                known.append(_score(scores.get((label, agent)), column))
            figures = tuple(_with_averages(known, groups))
            name = agent if value is None else f"{agent}, {value}"
            made.append(Row(name, figures, "run"))
    made += _reference_rows(plan, "not_looking", groups)
    made += _reference_rows(plan, "published", groups)
    shown: list[tuple[str, str]] = []
    for group, members in groups.items():
        if len(members) > 1:
            shown += [names[member] for member in members]
            shown.append((group, "average"))
        else:
            shown += [("", names[member][1]) for member in members]
    return PlanTable((*shown, ("", "overall")), tuple(made))


def _reference_rows(
    plan: Plan,
    source: Literal["published", "not_looking"],
    groups: Mapping[str, Sequence[int]],
) -> list[Row]:
    """The rows that a protocol file states, of figures without intervals; None is no figure."""
    rows = []
    for name, values in plan.data.get(source, {}).items():
        estimates: list[Estimate | None] = [
            None if each is None else Estimate(each, math.nan, math.nan, 0, 0.0) for each in values
        ]
        estimates += [None] * (len(plan.data["columns"]) - len(values))
        rows.append(Row(name, tuple(_with_averages(estimates, groups)), source))
    return rows


def _score(row: Mapping[str, Any] | None, column: Mapping[str, Any]) -> Estimate | None:
    if row is None or not row["played"]:
        return None
    metric = column.get("metric", "success")
    if metric == "success":
        return estimate(row)
    if metric not in row["metrics"]:
        return None
    low, high = (math.nan if each is None else each for each in row["metric_bounds"][metric])
    levels = row["levels"]
    freedom = max(1.0, levels - 1.0)
    return Estimate(
        row["metrics"][metric], low, high, levels, levels, freedom, row["drawn"], row["flagged"]
    )


def _with_averages(
    known: Sequence[Estimate | None], groups: Mapping[str, Sequence[int]]
) -> list[Estimate | None]:
    """Adds the mean of each group of several columns, and the mean over the groups, as VAGEN's
    table 2 does.
    """
    values: list[Estimate | None] = []
    averages: list[Estimate | None] = []
    for members in groups.values():
        own = [known[i] for i in members]
        averages.append(_mean(own))
        values += [*own, averages[-1]] if len(members) > 1 else own
    return [*values, _mean(averages)]


def _mean(values: Sequence[Estimate | None]) -> Estimate | None:
    """The mean, `None` if any is missing: an average over fewer columns is another number."""
    known = [value for value in values if value is not None]
    return combined(known) if known and len(known) == len(values) else None
