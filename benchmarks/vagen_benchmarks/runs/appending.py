"""Files that one process appends to and that survive its end at any moment."""

from __future__ import annotations

import os
from pathlib import Path


class AppendedFile:
    """A file that one process appends to. What a killed process wrote incompletely after `complete`
    is cut off.
    """

    def __init__(self, path: Path, complete: int) -> None:
        self._file = path.open("ab", buffering=0)
        self._file.truncate(complete)

    def append(self, data: bytes) -> None:
        """Append. If the disk takes only a part, the file stays as it was."""
        end = self._file.seek(0, os.SEEK_END)
        left = data
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


class AppendedLines(AppendedFile):
    """A file of lines."""

    def __init__(self, path: Path) -> None:
        complete = 0
        for line in path.open("rb") if path.is_file() else ():
            complete += len(line) if line.endswith(b"\n") else 0
        super().__init__(path, complete)

    def add(self, line: str) -> None:
        """Append a line, which has no line feed of its own."""
        self.append(f"{line}\n".encode())
