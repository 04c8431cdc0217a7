"""A run's pictures in one file, each once. A file for each took half of the runner's time, and hubs take few files.

Each is a line `SHA256 LENGTH`, so many bytes of PNG, and a line feed. What was half written when a process was killed
stands at the end, where it is dropped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, KeysView
from pathlib import Path

from vagen_benchmarks.errors import RunFolderError

_HEAD = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,12})\n")
_LONGEST_HEAD = 78  # the hash's 64, a space, the length's 12, a line feed


class PicturePack:
    """Such a file, which may not exist yet and may be growing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0

    def names(self) -> KeysView[str]:
        """The SHA-256 of each picture."""
        self._read_on()
        return self._places.keys()

    def get(self, name: str) -> bytes:
        """The PNG of that name. Raises RunFolderError if it isn't there."""
        if name not in self._places:
            self._read_on()
        if name not in self._places:
            raise RunFolderError(f"picture {name!r:.80} is missing from {self.path}")
        offset, length = self._places[name]
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Every picture with its name, in the order they were stored; one that stands there twice, twice."""
        for name, offset, length in self._records(0):
            with self.path.open("rb") as file:
                file.seek(offset)
                yield name, file.read(length)

    @property
    def torn(self) -> int:
        """Bytes at the end that aren't a whole picture."""
        self._read_on()
        return self.path.stat().st_size - self._end if self.path.is_file() else 0

    def _read_on(self) -> None:
        """Take in what was added since."""
        for name, offset, length in self._records(self._end):
            self._places.setdefault(name, (offset, length))
            self._end = offset + length + 1

    def _records(self, begin: int) -> Iterator[tuple[str, int, int]]:
        """Name, offset and length of each whole picture from there on."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            while True:
                file.seek(begin)
                head = _HEAD.fullmatch(file.readline(_LONGEST_HEAD))
                if head is None:
                    return
                offset, length = begin + head.end(), int(head[2])
                file.seek(offset + length)
                if file.read(1) != b"\n":
                    return
                yield head[1].decode(), offset, length
                begin = offset + length + 1


class PictureWriter:
    """Appends to a pack, by one process at a time. What isn't whole at its end is cut off."""

    def __init__(self, pack: PicturePack) -> None:
        self.stored = set(pack.names())
        if pack.torn:
            os.truncate(pack.path, pack.path.stat().st_size - pack.torn)
        self._file = pack.path.open("ab")

    def add(self, pictures: Iterable[tuple[str, bytes]]) -> None:
        """Store those that aren't there, by name and PNG. They outlive the process once this returns."""
        pieces = []
        for name, png in pictures:
            if name not in self.stored:
                self.stored.add(name)
                pieces += [f"{name} {len(png)}\n".encode(), png, b"\n"]
        self._file.write(b"".join(pieces))
        self._file.flush()

    def sync(self) -> None:
        """Let what was stored outlive a power cut."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
