"""A run's pictures in one file, each stored once. Single files would take half of the runner's
time; hubs limit them.

A record is a line `SHA256 LENGTH`, LENGTH bytes of PNG, and a line feed. A record that a killed
process left incomplete is the last one, and is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, KeysView
from pathlib import Path

from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.runs.appending import AppendedFile

_HEAD = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,12})\n")
_LONGEST_HEAD = 78  # the hash's 64, a space, the length's 12, a line feed


class PicturePack:
    """The file, for reading. It may not exist yet, and may be growing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int]] = {}
        self.complete = 0

    def names(self) -> KeysView[str]:
        self._read_on()
        return self._places.keys()

    def get(self, name: str) -> bytes:
        """The PNG with this hash. Raises RunFolderError if it is missing."""
        if name not in self._places and name not in self.names():
            raise RunFolderError(f"picture {name!r:.80} is missing from {self.path}")
        return self._read(*self._places[name])

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Every record with its name, in the order of the file."""
        return ((name, self._read(offset, length)) for name, offset, length in self._records(0))

    def _read(self, offset: int, length: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    @property
    def torn(self) -> int:
        """Bytes of an incomplete record at the end."""
        self._read_on()
        return self.path.stat().st_size - self.complete if self.path.is_file() else 0

    def _read_on(self) -> None:
        """Index the records added since the last call."""
        for name, offset, length in self._records(self.complete):
            self._places.setdefault(name, (offset, length))
            self.complete = offset + length + 1

    def _records(self, begin: int) -> Iterator[tuple[str, int, int]]:
        """Name, offset and length of each complete record from an offset on."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            while True:
                file.seek(begin)
                head = _HEAD.fullmatch(file.readline(_LONGEST_HEAD))
                if head is None:
                    return
                offset = begin + head.end()
                length = int(head[2])
                file.seek(offset + length)
                if file.read(1) != b"\n":
                    return
                yield head[1].decode(), offset, length
                begin = offset + length + 1


class PictureWriter(AppendedFile):
    """Appends to a pack, by one process at a time."""

    def __init__(self, pack: PicturePack) -> None:
        self.stored = set(pack.names())
        super().__init__(pack.path, pack.complete)

    def add(self, pictures: Iterable[tuple[str, bytes]]) -> None:
        """Store pictures, by name and PNG, that are new. They survive the end of the process once
        this returns.
        """
        new = {name: png for name, png in pictures if name not in self.stored}
        self.append(
            b"".join(b"%b %d\n%b\n" % (name.encode(), len(png), png) for name, png in new.items())
        )
        self.stored.update(new)
