"""Whether a run's files are as a run left them and fit each other: what can be told without playing anything."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vagen_envs
from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.report import write_report
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.protocol import differences, episode_key
from vagen_benchmarks.runs.run_folder import RunFolder, link, read_episode
from vagen_envs.errors import VagenError
from vagen_envs.pictures import Picture

HERE = {"vagen-envs": vagen_envs.__version__}
SHOWN = 20
"""Findings of one kind that are told one by one."""
_TITLES = re.compile(r'<title>.*?</title>|"title": "(?:[^"\\]|\\.)*"')
"""Where a report names its folder, which may be called otherwise elsewhere."""


def edits(run: RunFolder) -> list[str]:
    """What was changed since the run wrote it, a line each: episodes, their order, or the report's table."""
    return [*chain_findings(run), *key_findings(run), *table_findings(run)]


def chain_findings(run: RunFolder) -> Iterator[str]:
    """Lines that were changed, taken out, put in or moved."""
    before = str(run.protocol.to_json()["sha256"])
    for number, (_, line, data) in enumerate(run.lines(), 1):
        if data is None:
            if line.endswith(b"\n"):  # else the run was ended while it wrote this one
                yield f"line {number} of episodes.jsonl is damaged"
            continue
        text, found, rest = line.decode().rstrip("\n").rpartition(',"chain":"')
        said = rest.removesuffix('"}')
        if not found:
            yield f"line {number} of episodes.jsonl has no chain; it wasn't written by a run"
            continue
        if link(before, text + "}") != said:
            where = f"line {number} of episodes.jsonl ({data['key']})"
            yield f"{where}, or the one before it, was changed, put in or taken out"
        before = said


def key_findings(run: RunFolder) -> Iterator[str]:
    """Episodes that the protocol doesn't name, and those that were scored more than once."""
    planned = _planned(run)
    scored: Counter[str] = Counter()
    for _, line, data in run.lines():
        if data is None:
            continue
        episode = read_episode(line)
        task = next((task for task in run.protocol.tasks if task.label == episode.task), None)
        made = task and episode_key(episode.agent, task, episode.seed, episode.repeat)
        if episode.key not in planned or episode.key != made or (task and episode.split != task.split):
            yield f"{episode.key}: the protocol names no such episode"
        scored[episode.key] += episode.failure is None
    for key, times in scored.items():
        if times > 1:
            yield f"{key}: it was scored {times} times, and the last counts"
    ends = [entry for entry in run.journal() if entry["event"] == "end"]
    said = sum(entry.get("scored", 0) for entry in ends)
    if said > sum(scored.values()):  # fewer are said where a full disk took a part of the last
        yield f"the journal says that {said} episodes were scored, and {sum(scored.values())} are there"


def missing_findings(run: RunFolder) -> Iterator[str]:
    """Episodes that the protocol names and nobody played, to their end or at all."""
    there: set[str] = set()
    for number, (_, line, data) in enumerate(run.lines(), 1):
        if data is not None:
            there.add(data["key"])
        elif not line.endswith(b"\n"):
            yield f"line {number} of episodes.jsonl is cut off"
    if missing := len(_planned(run) - there):
        yield f"{missing} episodes that the protocol names are missing"


def picture_findings(run: RunFolder) -> Iterator[str]:
    """Pictures whose content isn't what their name says."""
    if run.pictures.torn:
        yield f"{run.pictures.path.name} can't be read in its last {run.pictures.torn} bytes"
    for name, png in run.pictures.all():
        try:
            sha256 = Picture.from_png(png).sha256
        except (VagenError, ValueError) as error:
            yield f"picture {name[:16]}… can't be read: {error}"
            continue
        if sha256 != name:
            yield f"picture {name[:16]}… shows something else than when it was stored"


def table_findings(run: RunFolder) -> list[str]:
    """Whether the report's table is that of the episodes."""
    if not run.report.is_file():
        return []
    found = re.search(r'id="page">(.*?)</script>', run.report.read_text(encoding="utf-8"), re.DOTALL)
    try:
        shown = json.loads(found[1])["rows"] if found else None
    except (ValueError, KeyError, TypeError):
        shown = None
    if shown is None:
        return ["report.html has no table; make it anew with vagen view"]
    try:
        own = plain(summarise(run).rows())
    except (RunFolderError, KeyError, TypeError, ValueError) as error:
        return [f"the table can't be made from the episodes: {type(error).__name__}: {error}"]
    return [f"table of report.html, {line} (of the episodes / shown)" for line in differences(own, shown)[:SHOWN]]


def page_findings(run: RunFolder) -> list[str]:
    """Whether the report is the page that this version makes of the run."""
    if not run.report.is_file() or dict(run.protocol.versions) != HERE:
        return []
    with tempfile.TemporaryDirectory() as place:
        fresh = write_report(run, Path(place) / "report.html").read_text(encoding="utf-8")
    if _TITLES.sub("", fresh) == _TITLES.sub("", run.report.read_text(encoding="utf-8")):
        return []
    return ["report.html isn't the page that is made of this run; make it anew with vagen view"]


def plain(value: Any) -> Any:
    """As it is once it was stored."""
    return json.loads(json.dumps(value))


def _planned(run: RunFolder) -> set[str]:
    agents = [str(agent["name"]) for agent in run.protocol.agents]
    return {key for agent in agents for key, *_ in run.protocol.keys(agent)}
