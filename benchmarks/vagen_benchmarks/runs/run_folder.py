"""A run on disk. Finished episodes survive whenever the process is killed, and none is stored in
part.

protocol.json     the protocol with its hash; written once, by atomic rename
episodes.jsonl    one line per episode; an incomplete last line is dropped when read
journal.jsonl     starts, ends, requests and replies, when they happen (`runs.journal`)
pictures.pack     PNGs by SHA-256, each stored once
report.html       made from the others; report/index.html if there is much to show
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import ProtocolError, RunFolderError
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.journal import is_entry
from vagen_benchmarks.runs.picture_pack import PicturePack
from vagen_benchmarks.runs.protocol import Protocol


class RunFolder:
    """A run folder, for reading. See `RunWriter` for writing.

    Raises:
        RunFolderError: the folder isn't a run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pictures = PicturePack(path / "pictures.pack")
        self.episodes_file = path / "episodes.jsonl"
        self.journal_file = path / "journal.jsonl"
        if not path.exists():
            raise RunFolderError(f"there is no folder {path}; the current folder is {Path.cwd()}")
        if not (path / "protocol.json").is_file():
            raise RunFolderError(
                f"{path} is not a run folder: it has no protocol.json. Name one that vagen bench "
                "made"
            )
        try:
            self.protocol = Protocol.from_json(
                json.loads((path / "protocol.json").read_text(encoding="utf-8"))
            )
        except (
            OSError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
            ProtocolError,
        ) as error:
            why = getattr(error, "strerror", None) or str(error)
            if isinstance(error, KeyError):
                why = f"it lacks {error}"
            raise RunFolderError(f"{path / 'protocol.json'} can't be read: {why}") from error
        self.damaged = 0
        """Damaged lines, known after `index`."""

    @property
    def report(self) -> Path:
        """The page of the report, in a folder of its own if large; it may not exist."""
        folder = self.path / "report" / "index.html"
        return folder if folder.is_file() else self.path / "report.html"

    def index(self) -> dict[str, tuple[int, int]]:
        """Offset and length of each episode's last complete line by key, in the order of the
        run.
        """
        found: dict[str, tuple[int, int]] = {}
        self.damaged = 0
        for offset, line, data in self.lines():
            if data is None:
                self.damaged += 1
            else:
                found.pop(data["key"], None)
                found[data["key"]] = (offset, len(line))
        return found

    def episodes(self) -> Iterator[Episode]:
        """The last attempt at each episode. Reads one line at a time."""
        index = self.index()
        if not index:
            return
        with self.episodes_file.open("rb") as file:
            for offset, length in index.values():
                file.seek(offset)
                yield Episode.from_json(json.loads(file.read(length)))

    def all_episodes(self) -> Iterator[Episode]:
        """Every stored attempt, failed ones included."""
        return (Episode.from_json(data) for _, _, data in self.lines() if data is not None)

    def journal(self) -> list[dict[str, Any]]:
        if not self.journal_file.is_file():
            return []
        entries = []
        for line in self.journal_file.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                entries.append(json.loads(line))
        return [entry for entry in entries if is_entry(entry)]

    def judged_by(self) -> dict[str, Any] | None:
        """The judge of the turns and its settings, during the run or in a later rescoring. None
        without a judge.
        """
        scoring = next(
            (entry for entry in reversed(self.journal()) if entry["event"] == "rescore"), None
        )
        judge = scoring["judge"] if scoring else (self.protocol.scoring or {}).get("version")
        scoring = scoring or self.protocol.scoring
        settings = ("betas", "gate", "weighting", "penalty")
        if scoring is None:
            return None
        return {"judge": judge, **{name: scoring.get(name) for name in settings}}

    def lines(self) -> Iterator[tuple[int, bytes, dict[str, Any] | None]]:
        """Offset, line and its data; `None` where the line isn't a complete episode."""
        if not self.episodes_file.is_file():
            return
        offset = 0
        with self.episodes_file.open("rb") as file:
            for line in file:
                data = None
                if line.endswith(b"\n"):
                    with contextlib.suppress(ValueError, RecursionError):
                        data = json.loads(line)
                complete = isinstance(data, dict) and isinstance(data.get("key"), str)
                yield offset, line, data if complete else None
                offset += len(line)
