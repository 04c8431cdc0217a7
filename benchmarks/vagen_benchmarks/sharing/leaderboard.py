"""One static page of verified runs: their scores, costs and protocol, and where their replays
are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import NotVerifiedError
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.report import write_report
from vagen_benchmarks.report.pages import relative_link, render
from vagen_benchmarks.results.compare import read_conditions, refuse_differing
from vagen_benchmarks.results.labels import agent_settings, is_own_code, task_titles
from vagen_benchmarks.results.plan_table import plan_table
from vagen_benchmarks.results.play_errors import STOPS
from vagen_benchmarks.results.stats import Estimate, combined
from vagen_benchmarks.results.summary import MIXED, estimate, summarise
from vagen_benchmarks.results.table import SEES_ALL, TableRow, results_table
from vagen_benchmarks.runs.journal import spending
from vagen_benchmarks.runs.plans import Plan
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.files import count_attempts
from vagen_benchmarks.sharing.table_files import NONE, as_csv
from vagen_benchmarks.sharing.verify import verify
from vagen_rewards.usage import Usage

Figures = tuple[Estimate | None, ...]
"""A score for each column; the last is the mean over them, `None` if one is missing."""


def write_leaderboard(paths: Sequence[Path], page: Path, *, trusted: bool = False) -> Path:
    """Verify runs and write their page. Reports are written anew where they are.

    Raises:
        NotVerifiedError: a run has findings.
        ProtocolError: the runs were played under different protocols.
    """
    runs = [RunFolder(path) for path in paths]
    first = runs[0]
    conditions = read_conditions(first)
    for run in runs[1:]:  # before the long work
        refuse_differing(str(first.path), conditions, str(run.path), read_conditions(run))
    unknown = {run.path.name: require_verified(run, trusted) for run in runs}
    plan = Plan.of(first.protocol)
    if plan:
        columns = list(plan_table(plan, []).columns)
    else:
        columns = [("", task.label.removeprefix("vagen/")) for task in first.protocol.tasks]
        columns.append(("", "overall"))
    table = results_table(runs)
    figures_file = page.with_suffix(".csv")
    lines: list[dict[str, Any]] = []
    for run in runs:
        write_report(run)
        rows = summarise(run).rows()
        for agent in run.protocol.agents:
            facts = _facts(run, agent, rows, page) | _replies(run, str(agent["name"]), table.rows)
            for name, figures in _figures(run, str(agent["name"]), rows):
                lines.append({**facts, "agent": name, "figures": figures})
    _rank(lines)
    protocol = first.protocol
    titles = task_titles(protocol)
    page.parent.mkdir(parents=True, exist_ok=True)
    named = [(group, titles.get(f"vagen/{name}", name)) for group, name in columns]
    facts = {
        "protocol": protocol,
        "titles": titles,
        "sha256": conditions["sha256"],
        "unknown": unknown,
        "csv": relative_link(page, figures_file),
    }
    with figures_file.open("w", encoding="utf-8") as file:
        file.write(as_csv(row.to_json() for row in table.rows))
    with page.open("w", encoding="utf-8") as file:
        render("leaderboard.html", file, **facts, columns=named, lines=lines)
    return page


def require_verified(run: RunFolder, trusted: bool) -> list[str]:
    """What could not be confirmed of a run. Raises NotVerifiedError if something is wrong."""
    with Meter(f"replaying {run.path.name}", len(run.index())) as meter:
        verdict = verify(run, trusted=trusted, progress=meter.advance)
    if not verdict.ok:
        findings = "\n  ".join([*verdict.wrong, *verdict.unknown][:8])
        raise NotVerifiedError(
            f"{run.path} can't be shown: it isn't what it claims to be, or can't be played again "
            f"here:\n  {findings}\nSee all with: vagen verify {run.path}"
        )
    return verdict.unknown


def _figures(
    run: RunFolder, agent: str, rows: Sequence[Mapping[str, Any]]
) -> list[tuple[str, Figures]]:
    """An agent's rows of the page: their names and figures."""
    if plan := Plan.of(run.protocol):
        table = plan_table(plan, rows)
        own = (
            row
            for row in table.rows
            if row.source == "run" and row.name.partition(", ")[0] == agent
        )
        return [(row.name, row.values) for row in own]
    by_task = {
        row["task"]: estimate(row) for row in rows if row["agent"] == agent and row["played"]
    }
    figures = [by_task.get(task.label) for task in run.protocol.tasks]
    known = [figure for figure in figures if figure is not None]
    return [(agent, (*figures, combined(known) if len(known) == len(figures) else None))]


def _facts(
    run: RunFolder, agent: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], page: Path
) -> dict[str, Any]:
    """What the page says of an agent beside its figures. Costs are those of all attempts."""
    usage = _usage(run, str(agent["name"]))
    start = next((entry for entry in run.journal() if entry["event"] == "start"), {"at": ""})
    return {
        "reference": agent["name"] in SEES_ALL,
        "mark": "own code" if is_own_code(agent, run.protocol) else "",
        "settings": agent_settings(agent),
        "failed": sum(row["failed"] for row in rows if row["agent"] == agent["name"]),
        "usage": usage,
        "report": relative_link(page, run.report),
        "run": run.path.resolve().name,
        "date": str(start["at"])[:10],
        "attempts": str(count_attempts(run)),
    }


def _replies(run: RunFolder, agent: str, rows: Sequence[TableRow]) -> dict[str, str]:
    """How an agent's replies ended, who wrote them and how long they took, over its
    environments.
    """
    mine = [row for row in rows if (row.run, row.agent) == (run.path.resolve().name, agent)]
    played = sum(row.figures["played"] for row in mine)
    stops = []
    for name in STOPS:
        column = name.replace(" ", "_")
        episodes = sum((row.figures[column] or 0) * row.figures["played"] for row in mine)
        if episodes:
            stops.append(f"{name} {episodes / played:.0%}")
    served: dict[str, None] = {}
    for row in mine:
        served |= dict.fromkeys(filter(None, row.figures["served"].split(" | ")))
    medians = [row.figures["seconds_median"] for row in mine]
    waits = sorted(wait for wait in medians if wait is not None)
    shortest_and_longest = dict.fromkeys(f"{wait:.2f}" for wait in (*waits[:1], *waits[-1:]))
    served_as = ", ".join(served) or NONE
    return {
        "stops": ", ".join(stops) or NONE,
        "served": f"{MIXED} {served_as}" if len(served) > 1 else served_as,
        "seconds": " to ".join(shortest_and_longest) or NONE,
    }


def _usage(run: RunFolder, agent: str) -> Usage:
    """What an agent has used by the journal, replies of killed attempts included.

    A run that was scored again has a journal without replies; there the stored episodes count.
    """
    keys = {planned[0]: agent for planned in run.protocol.keys(agent)}
    spent = spending(run.journal(), keys).usage.get(agent)
    if spent is not None:
        return spent
    usage = Usage()
    for episode in run.all_episodes():
        for call in episode.all_calls if episode.agent == agent else ():
            usage.add(call)
    return usage


def _rank(lines: list[dict[str, Any]]) -> None:
    """Give each line its rank, one more than how many are surely better since their interval lies
    above, and sort.

    Reference rows have none, nor has an agent with too many failures: the more fails, the higher an
    interval may reach.
    """
    overall = [line["figures"][-1] for line in lines if not line["reference"]]
    known = [figure for figure in overall if figure and figure.is_bounded and not figure.flagged]
    for line in lines:
        figure = line["figures"][-1]
        is_ranked = not line["reference"] and figure in known
        line["rank"] = "–"
        if is_ranked:
            better = sum(other.low > figure.high for other in known)
            line["rank"] = str(1 + better)
        from_above = -figure.low if figure and figure.is_bounded else 1.0
        line["order"] = (not is_ranked, from_above)
    lines.sort(key=lambda line: line["order"])  # by the lower end, which failures can only lower
