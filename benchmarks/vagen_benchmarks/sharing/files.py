"""Whether a run's files are as a run left them and fit each other: what can be told without playing
anything.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import vagen_envs
from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.journal import spending
from vagen_benchmarks.runs.protocol import Task, differences, episode_key
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_envs.errors import VagenError
from vagen_envs.pictures import Picture

HERE = {"vagen-envs": vagen_envs.__version__}
SHOWN = 20
"""Findings of one kind that are told one by one."""


def edits(run: RunFolder) -> list[str]:
    """What doesn't fit together in a run's files, a line each, as after an edit."""
    return [
        *damaged_findings(run),
        *scored_findings(run),
        *journal_findings(run),
        *key_findings(run),
        *table_findings(run),
    ]


def damaged_findings(run: RunFolder) -> Iterator[str]:
    """Lines that are no episode. Without a line break the run was ended while it wrote the line."""
    for number, (_, line, data) in enumerate(run.lines(), 1):
        if data is None and line.endswith(b"\n"):
            yield f"line {number} of episodes.jsonl is damaged"


def scored_findings(run: RunFolder) -> Iterator[str]:
    """Scored episodes that the journal has counted and that were removed since."""
    noted = [entry.get("scored") for entry in run.journal()]
    counted = sum(count for count in noted if isinstance(count, int))
    there = sum(episode.failure is None for episode in run.all_episodes())
    if there < counted:
        yield (
            f"the journal has counted {counted} scored episodes, and {there} are there: some "
            "were removed"
        )


def journal_findings(run: RunFolder) -> Iterator[str]:
    """Stored episodes that the journal hasn't begun: what it said of attempts and costs is gone.

    The journal of a run that was scored again begins there.
    """
    journal = run.journal()
    if any(entry["event"] == "rescore" for entry in journal):
        return
    if unknown := (_stored(run) - _begun(journal)).total():
        yield f"the journal knows nothing of {unknown} stored episodes: entries were removed"


@dataclass(frozen=True)
class Attempts:
    """How often a run was started, and its episodes attempted.

    Attributes:
        resumed: starts after the first.
        killed: starts without an end.
        replayed: stored attempts that a later one replaced, since they failed.
        continued: episodes that went on at their turn after the run was killed or stopped.
        dropped: attempts that began and weren't stored, because the run was killed or stopped.
        unanswered: requests whose reply never came, because the run was killed or the reply was too
            late.
        rescored: whether the run is a copy of another with new scores.
    """

    resumed: int
    killed: int
    replayed: int
    continued: int
    dropped: int
    unanswered: int
    rescored: bool

    def __str__(self) -> str:
        killed = f" ({self.killed} after it was killed)" if self.killed else ""
        parts = [
            f"resumed {_times(self.resumed)}{killed}" if self.resumed else "",
            f"{self.replayed} failed attempts played again" if self.replayed else "",
            f"{self.continued} episodes continued at their turn" if self.continued else "",
            f"{self.dropped} attempts begun and not stored" if self.dropped else "",
            f"{self.unanswered} requests without a reply" if self.unanswered else "",
            "scored again from another run" if self.rescored else "",
        ]
        return ", ".join(filter(None, parts))


def count_attempts(run: RunFolder) -> Attempts:
    """Count starts in the journal, and attempts at each episode."""
    journal = run.journal()
    events = [entry["event"] for entry in journal if entry["event"] in ("start", "end", "rescore")]
    killed = sum(one == other == "start" for one, other in itertools.pairwise(events))
    stored = _stored(run)
    begun = _begun(journal)
    return Attempts(
        resumed=max(0, events.count("start") - 1),
        killed=killed,
        replayed=stored.total() - len(stored),
        continued=sum("turns" in entry for entry in journal if entry["event"] == "begin"),
        dropped=(begun - stored).total(),
        unanswered=spending(journal, {}).unanswered,
        rescored="rescore" in events,
    )


def _stored(run: RunFolder) -> Counter[str]:
    return Counter(data["key"] for _, _, data in run.lines() if data is not None)


def _begun(journal: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """How often each episode was begun anew."""
    anew = (entry for entry in journal if entry["event"] == "begin" and "turns" not in entry)
    return Counter(str(entry.get("key")) for entry in anew)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def key_findings(run: RunFolder) -> Iterator[str]:
    """Episodes that the protocol doesn't name, and those that were scored more than once."""
    planned = _planned(run)
    scored = Counter[str]()
    for episode in run.all_episodes():
        task = planned.get(episode.key)
        claimed = (
            episode.task,
            episode.split,
            task and episode_key(episode.agent, task, episode.seed, episode.repeat),
        )
        if task is None or claimed != (task.label, task.split, episode.key):
            yield f"{episode.key}: the protocol names no such episode"
        scored[episode.key] += episode.failure is None
    for key, times in scored.items():
        if times > 1:
            yield f"{key}: it was scored {times} times, and the last counts"


def missing_findings(run: RunFolder) -> Iterator[str]:
    """Episodes that the protocol names and nobody played, to their end or at all."""
    there: set[str] = set()
    for number, (_, line, data) in enumerate(run.lines(), 1):
        if data is not None:
            there.add(data["key"])
        elif not line.endswith(b"\n"):
            yield f"line {number} of episodes.jsonl is cut off"
    if missing := len(_planned(run).keys() - there):
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
    found = re.search(
        r'id="page">(.*?)</script>', run.report.read_text(encoding="utf-8"), re.DOTALL
    )
    try:
        shown = json.loads(found[1])["rows"] if found else None
    except (ValueError, KeyError, TypeError):
        shown = None
    if shown is None:
        return [f"{run.report.name} has no table; make it anew with vagen view"]
    try:
        own = plain(summarise(run).rows())
    except (RunFolderError, KeyError, TypeError, ValueError) as error:
        return [f"the table can't be made from the episodes: {type(error).__name__}: {error}"]
    return [
        f"table of {run.report.name}, {line} (of the episodes / shown)"
        for line in differences(own, shown)[:SHOWN]
    ]


def plain(value: Any) -> Any:
    """As it is once it was stored."""
    return json.loads(json.dumps(value))


def _planned(run: RunFolder) -> dict[str, Task]:
    """The task of each episode that the protocol names, by key."""
    return {
        key: task
        for agent in run.protocol.agents
        for key, task, *_ in run.protocol.keys(str(agent["name"]))
    }
