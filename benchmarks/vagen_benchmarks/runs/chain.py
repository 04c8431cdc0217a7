"""JSON lines whose last entry, `chain`, is the hash of the line and of the chain before it: a change or a gap shows."""

from __future__ import annotations

import hashlib
import os
from io import RawIOBase

_ENTRY = ',"chain":"'


def link(before: str, line: str) -> str:
    """The next hash of a chain, from the previous one (at first the protocol's) and a line without its own hash."""
    return hashlib.sha256(f"{before}{line}".encode()).hexdigest()[:32]


def append(file: RawIOBase, data: bytes) -> None:
    """Append to an unbuffered file. If the disk takes only a part, the file stays as it was."""
    end, left = file.seek(0, os.SEEK_END), data
    try:
        while left:
            left = left[file.write(left) or 0 :]
    except OSError:
        file.truncate(end)
        raise


def append_link(file: RawIOBase, before: str, line: str) -> str:
    """Append a JSON object with its hash in the chain, and return the hash."""
    chain = link(before, line)
    append(file, f'{line[:-1]}{_ENTRY}{chain}"}}\n'.encode())
    return chain


def read_link(before: str, line: bytes) -> tuple[str, bool]:
    """The hash of a line, empty if it has none, and whether it fits the one before it."""
    text, _, rest = line.decode(errors="replace").rstrip("\n").rpartition(_ENTRY)
    chain = rest.removesuffix('"}') if text else ""
    return chain, bool(chain) and link(before, text + "}") == chain
