"""One static page of verified runs: their scores, costs and protocol, and where their replays are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.report import write_report
from vagen_benchmarks.report.pages import relative_link, render
from vagen_benchmarks.results.compare import read_conditions
from vagen_benchmarks.results.labels import agent_settings, is_own_code, task_titles
from vagen_benchmarks.results.plan_table import plan_table
from vagen_benchmarks.results.stats import Estimate, combined
from vagen_benchmarks.results.summary import estimate, summarise
from vagen_benchmarks.results.together import Together
from vagen_benchmarks.runs.plans import Plan
from vagen_benchmarks.runs.protocol import Task
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.files import count_attempts
from vagen_benchmarks.sharing.verify import verify

SEES_ALL = frozenset({"oracle"})
"""Agents that read the simulator's state: shown for reference, without a rank."""


class NotVerifiedError(BenchError):
    """A run isn't what it claims to be, so it has no place on a leaderboard."""


@dataclass(frozen=True)
class Line:
    """An agent on the page.

    Attributes:
        figures: a score for each column; the last is the mean over them, `None` if one is missing.
        report: where its replays are.
    """

    agent: str
    figures: tuple[Estimate | None, ...]
    run: RunFolder
    described: Mapping[str, Any]
    tokens: tuple[int, int]
    dollars: float | None
    failed: int
    unknown: Sequence[str]
    attempts: str


def write_leaderboard(paths: Sequence[Path], page: Path, *, trusted: bool = False) -> Path:
    """Verify runs and write their page. Reports are written anew where they are.

    Raises:
        NotVerifiedError: a run has findings.
        ProtocolError: the runs were played under different protocols.
    """
    together = Together(paths)  # refuses mixed protocols before the long work
    runs = [RunFolder(path) for path in paths]
    unknown: dict[Path, list[str]] = {}
    for run in runs:
        with Meter(f"replaying {run.path.name}", len(run.index())) as meter:
            verdict = verify(run, trusted=trusted, progress=meter.advance)
        if not verdict.ok:
            said = "\n  ".join([*verdict.wrong, *verdict.unknown][:8])
            raise NotVerifiedError(
                f"{run.path} can't be shown: it isn't what it claims to be, or can't be played again here:\n  {said}\n"
                f"See all with: vagen verify {run.path}"
            )
        unknown[run.path] = verdict.unknown
        write_report(run)
    names = iter([str(agent["name"]) for agent in together.protocol.agents])
    columns: tuple[tuple[str, str], ...] = ()
    lines: list[Line] = []
    for run in runs:
        rows = summarise(run).rows()
        columns, scored = _figures(run, rows)
        attempts = str(count_attempts(run))
        for agent in run.protocol.agents:
            shown, own = next(names), str(agent["name"])
            costs = _costs(run, own)
            failed = sum(row["failed"] for row in rows if row["agent"] == own)
            lines += [
                Line(shown + suffix, figures, run, agent, *costs, failed, unknown[run.path], attempts)
                for suffix, figures in scored[own]
            ]
    page.parent.mkdir(parents=True, exist_ok=True)
    with page.open("w", encoding="utf-8") as file:
        render("leaderboard.html", file, **_context(together, columns, lines, page))
    return page


def _costs(run: RunFolder, agent: str) -> tuple[tuple[int, int], float | None]:
    """Tokens in and out of all its calls, failed episodes included, and dollars, where every call has a price."""
    calls = [call for each in run.all_episodes() if each.agent == agent for call in each.all_calls]
    asked, written = (sum(call[name] or 0 for call in calls) for name in ("prompt_tokens", "completion_tokens"))
    dollars = [call.get("dollars") for call in calls]
    known = [each for each in dollars if each is not None]
    return (asked, written), math.fsum(known) if calls and len(known) == len(calls) else None


def _figures(
    run: RunFolder, rows: Sequence[Mapping[str, Any]]
) -> tuple[tuple[tuple[str, str], ...], dict[str, list[tuple[str, tuple[Estimate | None, ...]]]]]:
    """The columns, and for each agent its rows: what tells them apart, and their figures."""
    found: dict[str, list[tuple[str, tuple[Estimate | None, ...]]]] = {}
    agents = [str(agent["name"]) for agent in run.protocol.agents]
    if run.protocol.plan is not None:
        plan = Plan(str(run.protocol.plan["name"]), run.protocol.plan)
        table = plan_table(plan, rows)
        for agent in agents:
            own = [row for row in table.rows if not row.published and row.name.partition(", ")[0] == agent]
            found[agent] = [(row.name.removeprefix(agent), row.values) for row in own]
        return table.columns, found
    for agent in agents:
        by_task = {row["task"]: row for row in rows if row["agent"] == agent and row["played"]}
        tasks = [by_task.get(task.label) for task in run.protocol.tasks]
        known = [estimate(row) for row in tasks if row is not None]
        figures = [None if row is None else estimate(row) for row in tasks]
        found[agent] = [("", (*figures, combined(known) if len(known) == len(tasks) else None))]
    return (*(("", task.label.removeprefix("vagen/")) for task in run.protocol.tasks), ("", "overall")), found


def _ranks(lines: Sequence[Line]) -> dict[int, str]:
    """By index: one more than how many are surely better, since their interval lies above.

    None for reference rows, and where too much failed: the more does, the higher an interval may reach.
    """
    ranked = [(i, line.figures[-1]) for i, line in enumerate(lines) if _is_ranked(line)]
    known = [(i, figure) for i, figure in ranked if figure and figure.is_bounded and not figure.flagged]
    return {i: str(1 + sum(other.low > figure.high for _, other in known)) for i, figure in known}


def _lower_bound(figure: Estimate | None) -> float:
    """The sort key: failures can only lower it."""
    return figure.low if figure and figure.is_bounded else -1.0


def _is_ranked(line: Line) -> bool:
    return str(line.described["name"]) not in SEES_ALL


def _context(
    together: Together, columns: Sequence[tuple[str, str]], lines: Sequence[Line], page: Path
) -> dict[str, Any]:
    """What the template shows."""
    protocol = together.protocol
    ranks = _ranks(lines)
    order = sorted(range(len(lines)), key=lambda i: (i not in ranks, -_lower_bound(lines[i].figures[-1])))
    titles = task_titles(protocol)
    repeats = f", each {protocol.repeats} times" if protocol.repeats > 1 else ""
    return {
        "protocol": f"protocol {protocol.plan['name']}" if protocol.plan else "no protocol of the package",
        "sha256": read_conditions(together)["sha256"][:12],
        "versions": ", ".join(f"{name} {version}" for name, version in protocol.versions.items()),
        "tasks": [
            {"title": titles[task.label], "levels": f"{_levels(task)}{repeats}"} for task in protocol.tasks
        ],
        "notices": list(_notices(together, lines)),
        "columns": [(group, titles.get(f"vagen/{name}", name)) for group, name in columns],
        "lines": [_row(lines[i], ranks.get(i, "–"), page) for i in order],
    }  # fmt: skip


def _levels(task: Task) -> str:
    return f"{task.split} {task.first_seed} to {task.first_seed + task.episodes - 1}"


def _row(line: Line, rank: str, page: Path) -> dict[str, Any]:
    """A row of the page as text."""
    prompt, completion = line.tokens
    start = next((entry for entry in line.run.journal() if entry["event"] == "start"), {"at": ""})
    return {
        "rank": rank,
        "reference": not _is_ranked(line),
        "agent": line.agent,
        "mark": "own code" if is_own_code(line.described, line.run.protocol) else "",
        "settings": agent_settings(line.described),
        "figures": line.figures,
        "failed": line.failed,
        "tokens": f"{prompt:,} / {completion:,}" if prompt or completion else "–",
        "cost": "–" if line.dollars is None else f"${line.dollars:.2f}",
        "report": relative_link(page, line.run.report),
        "run": line.run.path.resolve().name,
        "date": str(start["at"])[:10],
        "attempts": line.attempts,
    }


def _notices(together: Together, lines: Sequence[Line]) -> Iterator[str]:
    protocol = together.protocol
    if protocol.plan is None:
        yield "These runs follow no protocol file. Environments, options and seeds were chosen by the submitter."
    if any(task.split != "test" for task in protocol.tasks):
        yield "These levels aren't from the test split."
    for name, unknown in {line.run.path.name: line.unknown for line in lines if line.unknown}.items():
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        yield f"{name}: could not be confirmed here: {unknown[0]}{more}"
