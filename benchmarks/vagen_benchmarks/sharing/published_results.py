"""A page of results that anybody can verify: one table for each protocol file, kept as JSON beside
it.

A row is an agent of a run that was replayed from its stored replies before it was taken. It names
the run and its checksum, so that a run folder from elsewhere can be recognised as that of the row.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.results.labels import agent_settings, is_own_code
from vagen_benchmarks.results.plan_table import plan_table
from vagen_benchmarks.results.stats import Estimate
from vagen_benchmarks.results.summary import FLAG, summarise
from vagen_benchmarks.results.table import SEES_ALL
from vagen_benchmarks.runs.plans import HERE, Plan, load_plan
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.leaderboard import require_verified
from vagen_benchmarks.sharing.table_files import NONE

FILES = ("protocol.json", "episodes.jsonl", "journal.jsonl", "pictures.pack")
"""The files of a run that its checksum covers; reports are written anew from them."""
JOINER = "\N{WORD JOINER}"
"""Around an interval's dash: a narrow cell breaks before the interval, not within it."""
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
"""What stands on the page around the tables that are written anew."""


def add_run(path: Path, page: Path, *, trusted: bool = False) -> list[str]:
    """Verify a run and put its agents on a page. Returns the names of its rows.

    An agent that is there already under the same protocol and settings is replaced.

    Args:
        path: the run folder.
        page: a Markdown file, made if there is none; the rows are kept beside it, as `.json`.
        trusted: make whatever the run names, as `vagen verify --trust` does.

    Raises:
        NotVerifiedError: the run has findings.
        ProtocolError: the run follows no protocol file of this package.
    """
    run = RunFolder(path)
    plan = Plan.of(run.protocol)
    if plan is None or not (HERE / f"{plan.name}.toml").is_file() or plan.altered():
        known = ", ".join(sorted(file.stem for file in HERE.glob("*.toml")))
        how = f"with an altered {plan.name}" if plan else "without a protocol file"
        raise ProtocolError(
            f"{path} was played {how}: rows are comparable only under a protocol of this package; "
            f"play with vagen bench --protocol NAME, one of {known}"
        )
    require_verified(run, trusted)
    kept = page.with_suffix(".json")
    rows = json.loads(kept.read_text(encoding="utf-8"))["rows"] if kept.is_file() else []
    new = list(_rows(run, plan))
    for mine in new:
        rows = [row for row in rows if not _is_same(row, mine)]
    rows += new
    page.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"rows": rows}, indent=1, ensure_ascii=False) + "\n"
    kept.write_text(text, encoding="utf-8")
    page.write_text(_page(page, rows), encoding="utf-8")
    return [row["name"] for row in new]


def checksum(run: RunFolder) -> str:
    """SHA-256 of what `sha256sum` prints for the run's files, in the order of `FILES`."""
    sums = hashlib.sha256()
    for name in FILES:
        file = run.path / name
        digest = hashlib.sha256(file.read_bytes() if file.is_file() else b"").hexdigest()
        sums.update(f"{digest}  {name}\n".encode())
    return sums.hexdigest()


def _rows(run: RunFolder, plan: Plan) -> Iterator[dict[str, Any]]:
    """A row for each agent, and each value of the protocol's axis."""
    summary = summarise(run).rows()
    described = {str(agent["name"]): agent for agent in run.protocol.agents}
    table = plan_table(plan, summary)
    names = [" ".join(dict.fromkeys(filter(None, column))) for column in table.columns]
    start = next((entry for entry in run.journal() if entry["event"] == "start"), {"at": ""})
    for row in table.rows:
        agent = described.get(row.name.partition(", ")[0])
        if row.source != "run" or agent is None:
            continue
        yield {
            "protocol": plan.name,
            "name": row.name,
            "settings": agent_settings(agent),
            "own_code": is_own_code(agent, run.protocol),
            "reference": str(agent["name"]) in SEES_ALL,
            "figures": dict(zip(names, map(_figure, row.values), strict=True)),
            "run": run.path.resolve().name,
            "checksum": checksum(run),
            "versions": dict(run.protocol.versions),
            "date": str(start["at"])[:10],
        }


def _figure(value: Estimate | None) -> dict[str, Any] | None:
    if value is None:
        return None
    bounds = [None if math.isnan(end) else round(end, 4) for end in (value.low, value.high)]
    return {"value": round(value.value, 4), "interval": bounds, "failures": value.flagged}


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[name] == other[name] for name in ("protocol", "name", "settings"))


def _page(page: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """The page with its tables written anew."""
    old = page.read_text(encoding="utf-8") if page.is_file() else f"# Results\n\n{BEGIN}\n{END}\n"
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ProtocolError(
            f"{page} has no place for tables: it needs a line {BEGIN} and after it a line {END}"
        )
    by_protocol: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=operator.itemgetter("protocol")):
        by_protocol.setdefault(row["protocol"], []).append(row)
    tables = itertools.starmap(_table, by_protocol.items())
    return "".join([before, BEGIN, "\n\n", "\n\n".join(tables), "\n\n", END, after])


def _table(protocol: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of a protocol, best mean first, those that see the state last, and what was
    published.
    """
    plan = load_plan(protocol)
    names = list(rows[0]["figures"])
    overall = names[-1] if len(names) > 2 else ""
    shown = [name for name in names if overall or name != names[-1]]
    head = [f"`-p {protocol}`", *shown, "run"]
    lines = [head, ["---", *["---:"] * len(shown), "---"]]
    for row in sorted(rows, key=_order):
        name = f"{row['name']}*" if row["reference"] else row["name"]
        if row["settings"]:
            name += f" ({row['settings']})"
        if row["own_code"]:
            name += " (own code)"
        folder = "" if row["run"] == protocol else f"{row['run']}, "
        run = f"{folder}{row['date']}, `{row['checksum'][:12]}`"
        lines.append([name, *(_cell(row["figures"][each]) for each in shown), run])
    published = (row for row in plan_table(plan, []).rows if row.source == "published")
    for other in published:  # a plan's blind rows are played: those of runs stand above
        figures = dict(zip(names, map(_figure, other.values), strict=True))
        cells = [_cell(figures[each]) for each in shown]
        lines.append([f"*{other.name}*", *cells, "*published*"])
    text = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"### {plan.data['about'].partition('.')[0]}", "", *text])


def _order(row: Mapping[str, Any]) -> tuple[bool, float]:
    known = [figure["value"] for figure in row["figures"].values() if figure]
    return row["reference"], -sum(known) / max(1, len(known))


def _cell(figure: Mapping[str, Any] | None) -> str:
    """Percent with the 95 % interval, where there is one."""
    if figure is None:
        return NONE
    low, high = figure["interval"]
    value = f"{100 * figure['value']:.0f}{FLAG if figure['failures'] else ''}"
    if low is None or high is None:
        return value
    return f"{value} ({100 * low:.0f}{JOINER}–{JOINER}{100 * high:.0f})"
