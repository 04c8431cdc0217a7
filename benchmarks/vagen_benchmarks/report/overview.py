"""One page over a folder of runs: progress and results of each, and links to their reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.report.build import write_report
from vagen_benchmarks.report.pages import relative_link, render
from vagen_benchmarks.results.labels import task_titles
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import storing

CHANGING = ("protocol.json", "episodes.jsonl", "journal.jsonl")
"""The files that change while a run is played."""


def write_overview(
    folder: Path, page: Path, *, progress: Callable[[], None] = lambda: None
) -> Path:
    """Write the page of a folder of runs, and the reports of those that have changed since theirs
    was written.

    Args:
        folder: is searched with its subfolders.
        page: the file to write.
        progress: called after each run.

    Raises:
        RunFolderError: there is no run in the folder.
    """
    found = sorted({path.parent for path in folder.rglob("protocol.json")})
    if not found:
        raise RunFolderError(
            f"{folder} holds no run; play one with vagen bench --out {folder / 'NAME'}"
        )
    runs = []
    for path in found:
        runs.append(_shown(folder, path, page))
        progress()
    runs.sort(key=lambda run: str(run["begun"]), reverse=True)
    with storing(page), page.open("w", encoding="utf-8") as file:
        render("overview.html", file, folder=folder.resolve().name, runs=runs)
    return page


def _shown(folder: Path, path: Path, page: Path) -> dict[str, Any]:
    """What the page shows of a run; its error if it can't be read."""
    name = path.relative_to(folder).as_posix() if path != folder else path.resolve().name
    try:
        run = RunFolder(path)
        rows = summarise(run).rows()
        if not _is_new(run):
            write_report(run, part=".seen.part")
    except (
        RunFolderError,
        ValueError,
        KeyError,
        TypeError,
    ) as error:
        # Somebody else's, or of another version.
        return {"name": name, "error": str(error), "begun": "", "going": False}
    calls = [entry for entry in run.journal() if entry["event"] in ("start", "end")]
    begun = next(
        (str(call.get("at", "")) for call in reversed(calls) if call["event"] == "start"), ""
    )
    last = calls[-1] if calls else {"event": ""}
    titles = task_titles(run.protocol)
    sums = {}
    for each in ("played", "failed", "missing", "prompt_tokens", "completion_tokens", "dollars"):
        sums[each] = sum(row[each] or 0 for row in rows)
    return {
        **sums,
        "name": name,
        "error": "",
        "begun": begun,
        "report": relative_link(page, run.report),
        "going": last["event"] == "start",
        "stopped": str(last.get("reason") or ""),
        "planned": sums["played"] + sums["failed"] + sums["missing"],
        "protocol": run.protocol.plan["name"] if run.protocol.plan else "",
        "rows": [{**row, "task": titles.get(row["task"], row["task"])} for row in rows],
    }


def _is_new(run: RunFolder) -> bool:
    """Whether a run's report was written after everything else in it."""
    if not run.report.is_file():
        return False
    changed = [file.stat().st_mtime_ns for name in CHANGING if (file := run.path / name).is_file()]
    return run.report.stat().st_mtime_ns > max(changed)
