"""Whether a run's files are as a run left them and fit each other: what can be told without playing
anything.
"""

from __future__ import annotations

import contextlib
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
from vagen_benchmarks.runs.chain import read_link
from vagen_benchmarks.runs.protocol import Task, differences, episode_key
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_envs.errors import VagenError
from vagen_envs.pictures import Picture

HERE = {"vagen-envs": vagen_envs.__version__}
SHOWN = 20
"""Findings of one kind that are told one by one."""


def edits(run: RunFolder) -> list[str]:
    """What was changed since the run wrote it, a line each: episodes, their order, or the report's
    table.
    """
    return [
        *(finding for finding, _, _ in _walk_chain(run) if finding),
        *journal_findings(run),
        *begin_findings(run),
        *key_findings(run),
        *table_findings(run),
    ]


def journal_findings(run: RunFolder) -> Iterator[str]:
    """Journal entries that were changed or removed, and episodes removed since an entry was
    written.

    An entry holds the last hash of the episodes' chain. Episodes that were dropped and played again
    lack that hash.
    """
    before = str(run.protocol.to_json()["sha256"])
    places = {
        before: -1,
        **{chain: number for number, (_, chain, _) in enumerate(_walk_chain(run))},
    }
    lines = run.journal_file.read_bytes().splitlines() if run.journal_file.is_file() else []
    reached = -1
    for number, line in enumerate(lines, 1):
        before, fits = read_link(before, line)
        if not fits:
            yield (
                f"line {number} of journal.jsonl, or the one before it, was changed, inserted or "
                "removed"
            )
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            head = json.loads(line).get("episodes", "")
            if places.get(head, -2) < reached:
                yield (
                    f"line {number} of journal.jsonl: episodes that were stored by then have "
                    "been removed or moved"
                )
            reached = max(reached, places.get(head, -2))


def _walk_chain(run: RunFolder) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    """A finding or nothing, the stored hash and the data of each line of episodes.jsonl."""
    before = str(run.protocol.to_json()["sha256"])
    for number, (_, line, data) in enumerate(run.lines(), 1):
        if data is None:  # without a line break the run was ended while it wrote this one
            yield (
                (f"line {number} of episodes.jsonl is damaged" if line.endswith(b"\n") else ""),
                "",
                None,
            )
            continue
        chain, fits = read_link(before, line)
        if not chain:
            yield (
                f"line {number} of episodes.jsonl has no chain; it wasn't written by a run",
                "",
                data,
            )
            continue
        where = f"line {number} of episodes.jsonl ({data['key']})"
        yield (
            "" if fits else f"{where}, or the one before it, was changed, inserted or removed",
            chain,
            data,
        )
        before = chain


@dataclass(frozen=True)
class Attempts:
    """How often a run was started, and its episodes attempted.

    Attributes:
        resumed: starts after the first.
        killed: starts without an end.
        replayed: stored attempts that a later one replaced, since they failed.
        dropped: attempts that began and weren't stored, because the run was killed or stopped.
        rescored: whether the run is a copy of another with new scores.
    """

    resumed: int
    killed: int
    replayed: int
    dropped: int
    rescored: bool

    def __str__(self) -> str:
        killed = f" ({self.killed} after it was killed)" if self.killed else ""
        parts = [
            f"resumed {_times(self.resumed)}{killed}" if self.resumed else "",
            f"{self.replayed} failed attempts played again" if self.replayed else "",
            f"{self.dropped} attempts begun and not stored" if self.dropped else "",
            "scored again from another run" if self.rescored else "",
        ]
        return ", ".join(filter(None, parts))


def count_attempts(run: RunFolder) -> Attempts:
    """Count starts in the journal, and attempts at each episode."""
    journal = run.journal()
    events = [entry["event"] for entry in journal if entry["event"] in ("start", "end", "rescore")]
    killed = sum(one == other == "start" for one, other in itertools.pairwise(events))
    stored, begun = _stored(run), _begun(journal)
    return Attempts(
        resumed=max(0, events.count("start") - 1),
        killed=killed,
        replayed=stored.total() - len(stored),
        dropped=(begun - stored).total(),
        rescored="rescore" in events,
    )


def _stored(run: RunFolder) -> Counter[str]:
    return Counter(data["key"] for _, _, data in run.lines() if data is not None)


def _begun(journal: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(str(entry.get("key")) for entry in journal if entry["event"] == "begin")


def begin_findings(run: RunFolder) -> Iterator[str]:
    """Episodes that were stored more often than the journal has them begun."""
    journal = run.journal()
    if any(entry["event"] == "rescore" for entry in journal):  # copied, not played
        return
    for key, count in (_stored(run) - _begun(journal)).items():
        yield f"{key}: it is stored {_times(count)} more than it was begun, by the journal"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def key_findings(run: RunFolder) -> Iterator[str]:
    """Episodes that the protocol doesn't name, and those that were scored more than once."""
    planned, scored = _planned(run), Counter[str]()
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
        return ["report.html has no table; make it anew with vagen view"]
    try:
        own = plain(summarise(run).rows())
    except (RunFolderError, KeyError, TypeError, ValueError) as error:
        return [f"the table can't be made from the episodes: {type(error).__name__}: {error}"]
    return [
        f"table of report.html, {line} (of the episodes / shown)"
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
