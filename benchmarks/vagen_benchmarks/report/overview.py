"""One page over a folder of runs: what each has played so far, how its agents did, and the way to its report."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.report.build import HERE, TABLES, write_report
from vagen_benchmarks.report.markup import filled, link, safe
from vagen_benchmarks.results.summary import FLAG, summarise
from vagen_benchmarks.runs.run_folder import RunFolder, storing

Tell = Callable[[str], None]
REST = 4.0
"""A page is made anew after at least so many times what it took to make, so that looking on costs a fifth of a core."""
SHORTEST = 2.0
"""Seconds between two looks at the folder."""


@dataclass
class _Seen:
    """A run as it was read last: when its files had this state, and what the page shows of it."""

    state: tuple[Any, ...]
    begun: str = ""
    shown: str = ""
    going: bool = False


@dataclass
class Overview:
    """A folder of runs and its page, `index.html` there unless another is named.

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
        return sum(each.going for each in self._seen.values())

    def watch(self, tell: Tell) -> None:
        """Keep the page as the runs are, until Ctrl-C. The page loads itself anew."""
        with contextlib.suppress(KeyboardInterrupt):
            going = -1
            while True:
                began = time.monotonic()
                now = self.refresh(live=True)
                if now != going:
                    tell(f"{now} being played; Ctrl-C ends this")
                    going = now
                time.sleep(max(SHORTEST, REST * (time.monotonic() - began)))
        self._write(live=False)

    def _read(self, path: Path, state: tuple[Any, ...]) -> _Seen:
        name = path.relative_to(self.folder).as_posix() if path != self.folder else path.resolve().name
        try:
            run = RunFolder(path)
            rows = summarise(run).rows()
            if path in self._seen or not _is_new(run.report, state):  # one made while it was played may lack the last
                write_report(run, part=".seen.part")
        except (RunFolderError, ValueError, KeyError, TypeError) as error:  # somebody else's, or of another version
            notice = f'<p class="notice">{safe(str(error))}</p>'
            return _Seen(state, shown=f"<section><h2>{safe(name)}</h2>{notice}</section>")
        calls = [entry for entry in run.journal() if entry["event"] in ("start", "end")]
        begun = next((str(each.get("at", "")) for each in reversed(calls) if each["event"] == "start"), "")
        last = calls[-1] if calls else {"event": ""}
        facts = " · ".join([begun[:16].replace("T", " "), *_facts(run, rows, last)])
        head = f'<h2><a href="{link(self.page, run.report)}">{safe(name)}</a></h2><p class="facts">{facts}</p>'
        return _Seen(state, begun, f"<section>{head}{_table(rows)}</section>", last["event"] == "start")

    def _write(self, live: bool) -> None:
        runs = sorted(self._seen.values(), key=lambda each: each.begun, reverse=True)
        going = sum(each.going for each in runs)
        facts = f"{len(runs)} run{'s' * (len(runs) != 1)}" + (f", {going} being played" if going else "")
        title = safe(f"Runs in {self.folder.resolve().name}")
        parts = {
            "style": TABLES.read_text(encoding="utf-8"),
            "live": f' data-live="{int(1000 * SHORTEST)}"' if live else "",
            "title": title,
            "heading": title,
            "facts": facts,
            "runs": "\n".join(each.shown for each in runs),
        }
        with storing(self.page):
            part = self.page.with_name(f"{self.page.name}.part")
            part.write_text(filled(HERE / "overview.html", parts), encoding="utf-8")
            part.replace(self.page)


def _state(path: Path) -> tuple[Any, ...]:
    """What changes when a run goes on: sizes and times of its files."""
    found = []
    for name in ("protocol.json", "episodes.jsonl", "journal.jsonl"):
        with contextlib.suppress(OSError):
            stat = (path / name).stat()
            found.append((name, stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def _is_new(report: Path, state: tuple[Any, ...]) -> bool:
    """Whether a report was written after all that stands in its run."""
    with contextlib.suppress(OSError):
        return report.stat().st_mtime_ns >= max(int(changed) for *_, changed in state)
    return False


def _facts(run: RunFolder, rows: list[dict[str, Any]], last: Mapping[str, Any]) -> list[str]:
    """How far a run is, what it has cost, and whether it goes on, as HTML."""
    played, failed = (sum(row[each] for row in rows) for each in ("played", "failed"))
    planned = sum(1 for agent in run.protocol.agents for _ in run.protocol.keys(str(agent["name"])))
    said = f"{played} episodes" if played == planned else f"{played} of {planned} episodes"
    facts = [said + (f", {failed} failed" if failed else ""), *_cost(rows)]
    if run.protocol.plan:
        facts.append(safe(f"protocol {run.protocol.plan['name']}"))
    if last["event"] == "start":
        bar = f'<progress value="{played + failed}" max="{max(1, planned)}"></progress>'
        facts.append(f'<b class="going">being played</b> {bar}')
    elif last.get("reason"):
        facts.append(f'<b class="stopped">stopped: {safe(str(last["reason"]))}</b>')
    return facts


def _cost(rows: list[dict[str, Any]]) -> list[str]:
    """Tokens and dollars, where models were asked."""
    asked, written = (sum(row[name] or 0 for row in rows) for name in ("prompt_tokens", "completion_tokens"))
    if not asked and not written:
        return []
    known = [row["dollars"] for row in rows if row["dollars"] is not None]
    dollars = f", ${math.fsum(known):.2f}" if known else ""
    return [f"{asked:,} / {written:,} tokens{dollars}"]


def _table(rows: list[dict[str, Any]]) -> str:
    """Success of each agent on each task, below it the interval."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    cells = {(row["task"], row["agent"]): row for row in rows}
    head = "".join(f"<th>{safe(task.removeprefix('vagen/'))}</th>" for task in tasks)
    body = "\n".join(
        f'<tr><td class="name"><b>{safe(agent)}</b></td>'
        + "".join(f"<td>{_cell(cells.get((task, agent)))}</td>" for task in tasks)
        + "</tr>"
        for agent in agents
    )
    head = f'<thead><tr><th class="name">success, %</th>{head}</tr></thead>'
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None or not row["played"]:
        return "–"
    flag = FLAG if row["flagged"] else ""
    title = f"{row['played']} episodes, return {row['return']:.2f}"
    return (
        f'<span title="{title}">{100 * row["success"]:.0f}{flag}</span>'
        f"<small>{100 * row['low']:.0f}–{100 * row['high']:.0f}</small>"
    )
