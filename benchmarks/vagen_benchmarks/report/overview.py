"""One page over a folder of runs: progress and results of each, and links to their reports."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.report.build import write_report
from vagen_benchmarks.report.pages import relative_link, render
from vagen_benchmarks.results.labels import task_titles
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.run_folder import RunFolder, storing

Notify = Callable[[str], None]
PAUSE_RATIO = 4.0
"""A page is refreshed after at least this multiple of the time it took, so that watching takes a fifth of a core."""
SHORTEST_PAUSE = 2.0
"""Seconds between two refreshes."""


@dataclass
class _Seen:
    """A run as it was read last: the sizes and times of its files, and what the page shows."""

    state: tuple[Any, ...]
    begun: str = ""
    shown: dict[str, Any] = field(default_factory=dict)
    going: bool = False


@dataclass
class Overview:
    """A folder of runs and its page.

    Raises:
        RunFolderError: there is no run in the folder, known after `refresh`.
    """

    folder: Path
    page: Path
    _seen: dict[Path, _Seen] = field(default_factory=dict)

    def refresh(self, *, live: bool = False) -> int:
        """Read the runs that have changed, write their reports and the page. Returns how many are being played."""
        found = sorted({path.parent for path in self.folder.rglob("protocol.json")})
        if not found:
            raise RunFolderError(f"{self.folder} holds no run; play one with vagen bench --out {self.folder / 'NAME'}")
        changed = False
        for path in found:
            state = _state(path)
            if path not in self._seen or self._seen[path].state != state:
                self._seen[path] = self._read(path, state)
                changed = True
        for path in self._seen.keys() - set(found):
            del self._seen[path]
            changed = True
        if changed or not self.page.is_file():
            self._write(live)
        return sum(run.going for run in self._seen.values())

    def watch(self, notify: Notify) -> None:
        """Refresh the page until Ctrl-C. The page reloads itself."""
        with contextlib.suppress(KeyboardInterrupt):
            going = -1
            while True:
                began = time.monotonic()
                now = self.refresh(live=True)
                if now != going:
                    notify(f"{now} {'run is' if now == 1 else 'runs are'} being played; stop with Ctrl-C")
                    going = now
                time.sleep(max(SHORTEST_PAUSE, PAUSE_RATIO * (time.monotonic() - began)))
        self._write(live=False)

    def _read(self, path: Path, state: tuple[Any, ...]) -> _Seen:
        name = path.relative_to(self.folder).as_posix() if path != self.folder else path.resolve().name
        try:
            run = RunFolder(path)
            rows = summarise(run).rows()
            if path in self._seen or not _is_new(run.report, state):  # one made while it was played may lack the last
                write_report(run, part=".seen.part")
        except (RunFolderError, ValueError, KeyError, TypeError) as error:  # somebody else's, or of another version
            return _Seen(state, shown={"name": name, "error": str(error)})
        calls = [entry for entry in run.journal() if entry["event"] in ("start", "end")]
        begun = next((str(call.get("at", "")) for call in reversed(calls) if call["event"] == "start"), "")
        last = calls[-1] if calls else {"event": ""}
        going = last["event"] == "start"
        shown = {
            "name": name,
            "error": "",
            "report": relative_link(self.page, run.report),
            "going": going,
            "stopped": str(last.get("reason") or ""),
            **_progress(run, rows, begun),
            **_table(run, rows),
        }
        return _Seen(state, begun, shown, going)

    def _write(self, live: bool) -> None:
        runs = sorted(self._seen.values(), key=lambda run: run.begun, reverse=True)
        going = sum(run.going for run in runs)
        facts = f"{len(runs)} run{'s' * (len(runs) != 1)}" + (f", {going} being played" if going else "")
        with storing(self.page):
            part = self.page.with_name(f"{self.page.name}.part")
            with part.open("w", encoding="utf-8") as file:
                render(
                    "overview.html", file, folder=self.folder.resolve().name, facts=facts,
                    live=int(1000 * SHORTEST_PAUSE) if live else 0, runs=[run.shown for run in runs],
                )  # fmt: skip
            part.replace(self.page)


def _state(path: Path) -> tuple[Any, ...]:
    """Sizes and times of the files that change while a run is played."""
    found = []
    for name in ("protocol.json", "episodes.jsonl", "journal.jsonl"):
        with contextlib.suppress(OSError):
            stat = (path / name).stat()
            found.append((name, stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def _is_new(report: Path, state: tuple[Any, ...]) -> bool:
    """Whether a report was written after everything else in its run."""
    with contextlib.suppress(OSError):
        return report.stat().st_mtime_ns >= max(int(changed) for *_, changed in state)
    return False


def _progress(run: RunFolder, rows: list[dict[str, Any]], begun: str) -> dict[str, Any]:
    """How far a run is and what it has cost."""
    played, failed = (sum(row[name] for row in rows) for name in ("played", "failed"))
    planned = sum(1 for agent in run.protocol.agents for _ in run.protocol.keys(str(agent["name"])))
    count = f"{played} episodes" if played == planned else f"{played} of {planned} episodes"
    facts = [begun[:16].replace("T", " "), count + (f", {failed} failed" if failed else ""), *_cost(rows)]
    if run.protocol.plan:
        facts.append(f"protocol {run.protocol.plan['name']}")
    return {"facts": list(filter(None, facts)), "done": played + failed, "planned": planned}


def _cost(rows: list[dict[str, Any]]) -> list[str]:
    """Tokens and dollars of runs that called a model."""
    prompt, completion = (sum(row[name] or 0 for row in rows) for name in ("prompt_tokens", "completion_tokens"))
    if not prompt and not completion:
        return []
    known = [row["dollars"] for row in rows if row["dollars"] is not None]
    dollars = f", ${math.fsum(known):.2f}" if known else ""
    return [f"{prompt:,} / {completion:,} tokens{dollars}"]


def _table(run: RunFolder, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Titles of the tasks, and each agent's row for each of them."""
    titles = task_titles(run.protocol)
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    cells: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        cells.setdefault(row["agent"], {})[row["task"]] = row
    return {
        "tasks": [titles.get(task, task) for task in tasks],
        "rows": [(agent, [own.get(task) for task in tasks]) for agent, own in cells.items()],
    }
