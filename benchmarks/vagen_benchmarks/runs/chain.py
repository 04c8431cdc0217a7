"""Files that are only appended to, and JSON lines whose last entry, `chain`, shows a change or a
gap.

It is the hash of the line and of the chain before it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_ENTRY = ',"chain":"'


class AppendedFile:
    """A file that one process appends to. What a killed process wrote incompletely after `complete`
    is cut off.
    """

    def __init__(self, path: Path, complete: int) -> None:
        self._file = path.open("ab", buffering=0)
        self._file.truncate(complete)

    def append(self, data: bytes) -> None:
        """Append. If the disk takes only a part, the file stays as it was."""
        end, left = self._file.seek(0, os.SEEK_END), data
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError:
            self._file.truncate(end)
            raise

    def close(self) -> None:
        """Write the file to the disk and close it."""
        os.fsync(self._file.fileno())
        self._file.close()


class Chain(AppendedFile):
    """A file of chained JSON lines. `head` is its last hash, at first the protocol's."""

    def __init__(self, path: Path, first: str) -> None:
        self.head, complete = first, 0
        for line in path.open("rb") if path.is_file() else ():
            if line.endswith(b"\n"):
                complete += len(line)
                self.head = read_link("", line)[0] or self.head
        super().__init__(path, complete)

    def add(self, line: str) -> None:
        """Append a JSON object with its hash."""
        head = link(self.head, line)
        self.append(f'{line[:-1]}{_ENTRY}{head}"}}\n'.encode())
        self.head = head


def link(before: str, line: str) -> str:
    """The next hash of a chain, from the previous one and a line without its own hash."""
    return hashlib.sha256(f"{before}{line}".encode()).hexdigest()[:32]


def read_link(before: str, line: bytes) -> tuple[str, bool]:
    """The hash of a line, empty if it has none, and whether it fits the one before it."""
    text, _, rest = line.decode(errors="replace").rstrip("\n").rpartition(_ENTRY)
    chain = rest.removesuffix('"}') if text else ""
    return chain, bool(chain) and link(before, text + "}") == chain
