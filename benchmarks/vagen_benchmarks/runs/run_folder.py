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
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Self

from vagen_benchmarks.errors import ProtocolError, RunFolderError, StorageError
from vagen_benchmarks.redaction import note_environment, redact
from vagen_benchmarks.runs.appending import AppendedLines
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.journal import is_entry
from vagen_benchmarks.runs.picture_pack import PicturePack, PictureWriter
from vagen_benchmarks.runs.protocol import Protocol, Task, differences
from vagen_envs.pictures import Picture

LEFTOVERS = (".lock", "protocol.json.part")
"""Files of a process that was killed before its run began."""


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
            why = (
                f"it lacks {error}"
                if isinstance(error, KeyError)
                else getattr(error, "strerror", None) or error
            )
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
        return (
            None
            if scoring is None
            else {"judge": judge, **{name: scoring.get(name) for name in settings}}
        )

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


@contextlib.contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn errors of the file system into one error with its fix."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise StorageError(
            f"{path} can't be written: {why}. Fix that, and go on with: vagen resume {path}"
        ) from error


def lock(path: Path) -> IO[str]:
    """Make a folder and lock it until the file is closed; raise RunFolderError if another process
    has locked it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = (path / ".lock").open("w")
    except OSError as error:
        raise RunFolderError(
            f"{path} can't be written: {error.strerror}. Name another with --out"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise RunFolderError(
            f"another process writes to {path}; wait for it or name another folder"
        ) from error
    # a file system without locks, such as Lustre or some NFS: nothing tells whether others write
    except OSError:
        pass
    return file


class RunWriter(RunFolder):
    """A run folder for writing, by one process at a time. Use as a context manager.

    Args:
        path: created if it doesn't exist; an existing run is continued.
        protocol: must equal the existing run's.
        new: refuse a folder that has episodes.

    Raises:
        RunFolderError: another process writes to the folder, or the folder holds another run or
            other files.
    """

    def __init__(self, path: Path, protocol: Protocol, *, new: bool = False) -> None:
        is_run = (path / "protocol.json").exists()
        if (
            not is_run
            and path.is_dir()
            and any(entry.name not in LEFTOVERS for entry in path.iterdir())
        ):
            raise RunFolderError(f"{path} holds files but no run; name a new or an empty folder")
        self._lock_file = lock(path)
        try:
            self._open(path, protocol, new)
        except BaseException:
            self._lock_file.close()
            raise

    def _open(self, path: Path, protocol: Protocol, new: bool) -> None:
        played = path / "episodes.jsonl"
        if (
            new and played.exists() and played.stat().st_size
        ):  # a run that was killed before that may begin anew
            raise RunFolderError(
                f"{path} holds a run already; go on with: vagen resume {path}, or name a new folder"
            )
        with storing(path):
            if not (path / "protocol.json").exists():
                _write_whole(
                    path / "protocol.json", json.dumps(protocol.to_json(), indent=1).encode()
                )
        super().__init__(path)
        if differing := differences(self.protocol.to_json(), protocol.to_json()):
            listed = "\n  ".join(differing[:8])
            raise RunFolderError(
                f"{path} holds a run of another protocol (there / asked for):\n  {listed}\n"
                "Restore what differs, or name another folder"
            )
        self._writing = threading.Lock()
        self.scored = 0  # episodes with a score that this writer has stored
        note_environment()
        with storing(path):
            self._pictures = PictureWriter(self.pictures)
            self._episodes = AppendedLines(self.episodes_file)
            self._journal = AppendedLines(self.journal_file)
        self.finished = self._finished()

    def left(self, agent: str) -> list[tuple[str, Task, int, int]]:
        """Key, task, seed and repeat of an agent's episodes that still lack a score."""
        return [planned for planned in self.protocol.keys(agent) if planned[0] not in self.finished]

    def _finished(self) -> set[str]:
        """Keys of the episodes that have a score and all their pictures."""
        finished: set[str] = set()
        for episode in self.all_episodes():
            if episode.failure is None and episode.picture_names() <= self._pictures.stored:
                finished.add(episode.key)
            else:
                finished.discard(episode.key)
        return finished

    def add(self, episode: Episode, pictures: Iterable[Picture]) -> None:
        """Store an episode: first its pictures, then its line. It then survives the end of the
        process.

        A power cut may lose the last seconds' episodes, which are then played again. May be called
        from threads.
        """
        stored = self._pictures.stored
        new = [
            (picture.sha256, picture.png) for picture in pictures if picture.sha256 not in stored
        ]
        line = redact(json.dumps(episode.to_json(), separators=(",", ":")))
        with self._writing, storing(self.path):
            self._pictures.add(new)
            self._episodes.add(line)
            if episode.failure is None:
                self.finished.add(episode.key)
                self.scored += 1

    def note(self, event: str, **facts: Any) -> None:
        with self._writing, storing(self.path):
            self._journal.add(redact(json.dumps({"event": event, **facts})))

    def close(self) -> None:
        """Write everything to the disk and free the folder."""
        try:
            with storing(self.path):
                for file in (self._pictures, self._episodes, self._journal):
                    file.close()
        finally:
            self._lock_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def new_folder() -> Path:
    """Create a folder `runs/<time>` that no other process has: several may start in one second."""
    name = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 10_000):
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunFolderError(
                f"{path} can't be written: {error.strerror}. Name another with --out"
            ) from error
        return path
    raise RunFolderError(f"runs/{name} exists ten thousand times; name another with --out")


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file that no reader sees in part."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
