"""A run on disk. Whatever moment a process is killed at, every finished episode is kept and none is half kept.

protocol.json     what is run, with its hash (written once, by atomic rename)
episodes.jsonl    a line an episode, appended; a half-written last line is dropped when read. `chain` in each is the
                  hash of what it says and of the line before, so that a line that was taken out or changed shows
journal.jsonl     each start and end of the runner: versions, machine, what was skipped and why. `chain` likewise, and
                  `episodes` is the last hash of episodes.jsonl at that time
pictures.pack     PNGs by SHA-256, each stored once
report.html       made from the others
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from vagen_benchmarks.errors import ProtocolError, RunFolderError, StorageError
from vagen_benchmarks.runs.encoding import Encoder, Line
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.picture_pack import PicturePack, PictureWriter
from vagen_benchmarks.runs.protocol import Protocol, Task, differences
from vagen_envs.pictures import Picture

BEGUN = (".lock", "protocol.json.part")
"""What a process leaves that is killed before its run has begun."""
SYNC_EVERY = 1.0
"""Seconds; a disk takes milliseconds, and would be what many quick episodes wait for."""


def link(before: str, line: str) -> str:
    """The chain's next hash: of the one before, at first the protocol's, and of a line without its own."""
    return hashlib.sha256(f"{before}{line}".encode()).hexdigest()[:32]


class RunFolder:
    """A run folder that is read. See `RunWriter` for one that is played into.

    Raises:
        RunFolderError: the folder isn't a run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pictures = PicturePack(path / "pictures.pack")
        self.episodes_file = path / "episodes.jsonl"
        self.journal_file = path / "journal.jsonl"
        self.report = path / "report.html"
        if not path.exists():
            raise RunFolderError(f"there is no folder {path}; the current folder is {Path.cwd()}")
        if not (path / "protocol.json").is_file():
            raise RunFolderError(f"{path} is not a run folder: it has no protocol.json. Name one that vagen bench made")
        try:
            self.protocol = Protocol.from_json(json.loads((path / "protocol.json").read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ProtocolError) as error:
            why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise RunFolderError(f"{path / 'protocol.json'} can't be read: {why}") from error
        self.damaged = 0
        """Lines that weren't whole, known after `index`."""

    def index(self) -> dict[str, tuple[int, int]]:
        """Where each episode's last whole line stands: key to offset and length, in the order of the run."""
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
        """Every episode once, as it was played last. Reads one line at a time."""
        index = self.index()
        if not index:
            return
        with self.episodes_file.open("rb") as file:
            for offset, length in index.values():
                file.seek(offset)
                yield read_episode(file.read(length))

    def all_episodes(self) -> Iterator[Episode]:
        """Every episode as often as it was stored, failed attempts included."""
        return (read_episode(line) for _, line, data in self.lines() if data is not None)

    def picture(self, sha256: str) -> bytes:
        """The PNG of that name. Raises RunFolderError if it isn't there."""
        return self.pictures.get(sha256)

    def journal(self) -> list[dict[str, Any]]:
        """Each start and end of the runner, in order."""
        if not self.journal_file.is_file():
            return []
        entries = []
        for line in self.journal_file.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                entries.append(json.loads(line))
        return entries

    def judged_by(self) -> dict[str, Any] | None:
        """Who judged the turns, if anybody did, and how: with the run, or in a later scoring."""
        how = ("betas", "gate", "weighting", "penalty")
        again = [entry for entry in self.journal() if entry["event"] == "rescore"]
        if again:
            return {"judge": again[-1]["judge"], **{name: again[-1].get(name) for name in how}}
        said = self.protocol.scoring
        return None if said is None else {"judge": said["version"], **{name: said.get(name) for name in how}}

    def lines(self) -> Iterator[tuple[int, bytes, dict[str, Any] | None]]:
        """Offset, line and its data, `None` where the line isn't a whole episode."""
        if not self.episodes_file.is_file():
            return
        offset = 0
        with self.episodes_file.open("rb") as file:
            for line in file:
                data = None
                if line.endswith(b"\n"):
                    with contextlib.suppress(ValueError):
                        data = json.loads(line)
                whole = isinstance(data, dict) and isinstance(data.get("key"), str)
                yield offset, line, data if whole else None
                offset += len(line)


@contextlib.contextmanager
def storing(path: Path) -> Iterator[None]:
    """Raise one error with its fix if a run can't be written."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise StorageError(f"{path} can't be written: {why}. Mend that, and go on with: vagen resume {path}") from error


def read_episode(line: bytes | str) -> Episode:
    """The episode of a whole line, with or without its link of the chain."""
    data = json.loads(line)
    data.pop("chain", None)
    return Episode.from_json(data)


class RunWriter(RunFolder):
    """A run folder that episodes are played into, by one process at a time. Use as a context manager.

    Args:
        path: made if it doesn't exist; an existing run is resumed.
        protocol: must be that of the existing run.
        new: refuse a run that has episodes.

    Raises:
        RunFolderError: another process plays into the folder, or the folder holds another run or other files.
    """

    def __init__(self, path: Path, protocol: Protocol, *, new: bool = False) -> None:
        is_run = (path / "protocol.json").exists()
        if not is_run and path.is_dir() and any(entry.name not in BEGUN for entry in path.iterdir()):
            raise RunFolderError(f"{path} holds files but no run; name a new or an empty folder")
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock_file = (path / ".lock").open("w")
        except OSError as error:
            raise RunFolderError(f"{path} can't be written: {error.strerror}. Name another with --out") from error
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # gone when the process is, however it ends
        except OSError as error:
            self._lock_file.close()
            raise RunFolderError(f"another process plays into {path}; wait for it or name another folder") from error
        try:
            played = path / "episodes.jsonl"
            if new and played.exists() and played.stat().st_size:  # one that was killed before that may begin anew
                words = f"{path} holds a run already; go on with: vagen resume {path}, or name another --out"
                raise RunFolderError(words)
            if not (path / "protocol.json").exists():
                _write_whole(path / "protocol.json", json.dumps(protocol.to_json(), indent=1).encode())
            super().__init__(path)
            differing = differences(self.protocol.to_json(), protocol.to_json())
            if differing:
                said = "\n  ".join(differing[:8])
                raise RunFolderError(f"{path} holds a run of another protocol (there / asked for):\n  {said}\n"
                                     "Name another folder, or go on with that run: vagen resume")  # fmt: skip
            self._writing = threading.Lock()
            self._syncs = ThreadPoolExecutor(1, thread_name_prefix="sync")  # a disk takes its time
            self._sync: Future[None] | None = None
            self._synced = 0.0
            self.scored = 0  # episodes with a score that this writer has stored
            self._encoder = Encoder()
            self._pictures = PictureWriter(self.pictures)
            self._chain = str(self.protocol.to_json()["sha256"])
            self._journal_chain = self._end_of_journal()
            self.finished = self._finished()
            self._file = self.episodes_file.open("ab")
        except BaseException:
            self._lock_file.close()
            raise

    def left(self, agent: str) -> list[tuple[str, Task, int, int]]:
        """Key, task, seed and repeat of the episodes that an agent has still to play."""
        return [each for each in self.protocol.keys(agent) if each[0] not in self.finished]

    def _finished(self) -> set[str]:
        """Keys of the episodes that need not be played again; drops a half-written last line from the file."""
        finished: set[str] = set()
        end = 0
        for offset, line, data in self.lines():
            end = offset + len(line) if line.endswith(b"\n") else offset
            if data is None:
                continue
            self._chain = str(data.get("chain", ""))
            episode = read_episode(line)
            if episode.failure is None and episode.picture_names() <= self._pictures.stored:
                finished.add(episode.key)
            else:
                finished.discard(episode.key)
        if self.episodes_file.exists() and self.episodes_file.stat().st_size > end:
            os.truncate(self.episodes_file, end)
        return finished

    def _end_of_journal(self) -> str:
        """The last hash of the journal's chain; drops a half-written last line from the file."""
        if not self.journal_file.exists():
            return self._chain
        text = self.journal_file.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(self.journal_file, len(whole))
        entries = self.journal()
        return str(entries[-1].get("chain", "")) if entries else self._chain

    def add_all(self, episodes: Sequence[Episode], pictures: Iterable[Picture]) -> None:
        """Store episodes: their pictures first, then their lines."""
        stored = self._pictures.stored
        new = [(each.sha256, each.png) for each in pictures if each.sha256 not in stored]
        self.store([self._encoder.line(each) for each in episodes], new)

    def store(self, lines: Sequence[Line], pictures: Sequence[tuple[str, bytes]]) -> None:
        """Store episodes that are encoded already; pictures by name and PNG.

        What is stored outlives the process, however it ends. A power cut may take the last second's episodes,
        which are then played again.
        """
        with self._writing, storing(self.path):
            self._pictures.add(pictures)
            whole = []
            for _, _, line in lines:
                self._chain = link(self._chain, line)
                whole.append(f'{line[:-1]},"chain":"{self._chain}"}}\n'.encode())
            self._file.write(b"".join(whole))
            self._file.flush()
            scored = [key for key, is_scored, _ in lines if is_scored]
            self.finished.update(scored)
            self.scored += len(scored)
            if self._sync is None or self._sync.done():
                self._sync_at_times()

    def _sync_at_times(self) -> None:
        """Have the disk take what is stored, once in a while. Raises StorageError if it couldn't the last time."""
        if self._sync is not None:
            self._sync.result()
        if time.monotonic() - self._synced > SYNC_EVERY:
            self._synced = time.monotonic()
            self._sync = self._syncs.submit(self._sync_all)

    def _sync_all(self) -> None:
        with storing(self.path):
            self._pictures.sync()
            os.fsync(self._file.fileno())

    def add(self, episode: Episode, pictures: Iterable[Picture]) -> None:
        """Store one."""
        self.add_all([episode], pictures)

    def note(self, event: str, **facts: Any) -> None:
        """Append to the journal."""
        with self._writing, storing(self.path), self.journal_file.open("ab") as file:
            # The head of the episodes' chain: an episode that is dropped and played anew after this no longer fits.
            line = self._encoder.clean(json.dumps({"event": event, **facts, "episodes": self._chain}))
            self._journal_chain = link(self._journal_chain, line)
            file.write(f'{line[:-1]},"chain":"{self._journal_chain}"}}\n'.encode())

    def close(self) -> None:
        """Free the folder for others."""
        try:
            self._syncs.shutdown()
            self._sync_all()
            with storing(self.path):
                self._pictures.close()
                self._file.close()
        finally:
            self._lock_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def new_run_path() -> Path:
    """A new folder `runs/<time>`, which no other process is given: several may begin in one second."""
    name = time.strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{number}" for number in range(2, 10_000))):
        path = Path("runs") / f"{name}{suffix}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunFolderError(f"{path} can't be written: {error.strerror}. Name another with --out") from error
        return path
    raise RunFolderError(f"runs/{name} exists ten thousand times; name another with --out")


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is never seen half written, by one process at a time."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
