"""The table of a protocol file: a figure with its interval for each column, averages, and what was published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vagen_benchmarks.results.stats import Estimate, combined
from vagen_benchmarks.results.summary import estimate
from vagen_benchmarks.runs.plans import Plan


@dataclass(frozen=True)
class Figure:
    """A number of the table.

    Attributes:
        low, high: its 95 % interval, with what failed counted as lost and as won; `None` for what was published.
        effective: how many independent plays would say as much.
        flagged: whether more failed or is missing than a score may stand on.
    """

    value: float
    low: float | None = None
    high: float | None = None
    effective: float | None = None
    flagged: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a plan's table: a figure for each column, `None` where there is none, and where it is from."""

    name: str
    values: tuple[Figure | None, ...]
    published: bool


@dataclass(frozen=True)
class PlanTable:
    """A table of the plan's shape, with an average a group and one over all.

    Attributes:
        columns: group and name of each column; averages are called `average` and `overall`.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


_Known = tuple[Estimate, bool] | None
"""An estimate, and whether it is flagged."""


def plan_table(plan: Plan, rows: Sequence[Mapping[str, Any]]) -> PlanTable:
    """The table of a run (`Summary.rows()`) beside what was published."""
    columns = plan.data["columns"]
    scores = {(row["task"], row["agent"]): row for row in rows}
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    labels = {
        (id(column), value): " ".join([column["env"], *(f"{name}={options[name]}" for name in shown)])
        for column, value, options, shown in plan.cells()
    }
    names = [(column.get("group", column["name"]), column["name"]) for column in columns]
    groups: dict[str, list[int]] = {}
    for i, (group, _) in enumerate(names):
        groups.setdefault(group, []).append(i)
    made = []
    for agent in agents:
        for value in plan.values:
            known = [_score(scores.get((labels.get((id(each), value), ""), agent)), each) for each in columns]
            figures = [each and _figure(*each) for each in _with_averages(known, groups)]
            made.append(Row(agent if value is None else f"{agent}, {value}", tuple(figures), published=False))
    for name, said in plan.data.get("published", {}).items():
        told: list[_Known] = [(Estimate(each, each, each, 0, 0.0), False) for each in said]
        told += [None] * (len(columns) - len(said))
        figures = [each and Figure(each[0].value) for each in _with_averages(told, groups)]
        made.append(Row(name, tuple(figures), published=True))
    shown: list[tuple[str, str]] = []
    for group, members in groups.items():
        shown += [names[i] if len(members) > 1 else ("", names[i][1]) for i in members]
        shown += [(group, "average")] if len(members) > 1 else []
    return PlanTable((*shown, ("", "overall")), tuple(made))


def _score(row: Mapping[str, Any] | None, column: Mapping[str, Any]) -> _Known:
    if row is None or not row["played"]:
        return None
    metric = column.get("metric", "success")
    if metric == "success":
        found = estimate(row)
    elif metric in row["metrics"]:
        low, high = (
            side if each is None else each
            for each, side in zip(row["metric_bounds"][metric], (-math.inf, math.inf), strict=True)
        )
        freedom = max(1.0, row["levels"] - 1.0)
        found = Estimate(row["metrics"][metric], low, high, row["levels"], float(row["levels"]), freedom, row["drawn"])
    else:
        return None
    return found, row["flagged"]


def _with_averages(known: Sequence[_Known], groups: Mapping[str, Sequence[int]]) -> list[_Known]:
    """Adds the mean of each group of several columns, and the mean over the groups, as VAGEN's table 2 does."""
    values: list[_Known] = []
    averages: list[_Known] = []
    for members in groups.values():
        own = [known[i] for i in members]
        averages.append(_mean(own))
        values += [*own, averages[-1]] if len(members) > 1 else own
    return [*values, _mean(averages)]


def _mean(values: Sequence[_Known]) -> _Known:
    """The mean, `None` if any is missing: an average over fewer columns is another number."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return combined([each for each, _ in known]), any(flagged for _, flagged in known)


def _figure(found: Estimate, flagged: bool) -> Figure:
    low, high = (each if math.isfinite(each) else None for each in (found.low, found.high))
    return Figure(found.value, low, high, round(found.effective, 1), flagged)
