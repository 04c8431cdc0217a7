"""Write a run folder: each episode is stored whole, whenever the process is killed."""

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

from vagen_benchmarks.errors import RunFolderError, StorageError
from vagen_benchmarks.redaction import note_environment, redact
from vagen_benchmarks.runs.appending import AppendedLines
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.picture_pack import PictureWriter
from vagen_benchmarks.runs.protocol import Protocol, Task, differences
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_envs.pictures import Picture

LEFTOVERS = (".lock", "protocol.json.part")
"""Files of a process that was killed before its run began."""


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
        # A run that was killed before that may begin anew.
        if new and played.exists() and played.stat().st_size:
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
