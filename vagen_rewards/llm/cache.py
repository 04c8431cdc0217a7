"""Replies of a judge's model on disk, keyed by everything that was asked."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import warnings
from pathlib import Path
from typing import Any

WAIT = 5.0
"""Seconds for another process to let go of the file."""


def key_of(request: dict[str, Any]) -> bytes:
    """The key of a request: a hash over all of it."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=20).digest()


class ReplyCache:
    """A table of replies in one SQLite file, shared by processes.

    A file that can't be opened, is damaged or stays locked is left alone, with a warning; memory
    serves on.

    Args:
        path: of the file; made with its folder. `None` keeps replies in memory.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self._lock = threading.Lock()
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _opened(":memory:" if self.path is None else self.path)
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Go on in memory: to wait for the file at each statement would cost the batch."""
        warnings.warn(
            f"the judge's cache {self.path} is left alone from here on: {error}", stacklevel=3
        )
        self._connection = _opened(":memory:")

    def get(self, key: bytes) -> str | None:
        """The reply, or `None` if it isn't known."""
        row = self._execute("SELECT reply FROM replies WHERE key = ?", (key,))
        return None if row is None else str(row[0])

    def put(self, key: bytes, reply: str) -> None:
        """Keep a reply."""
        self._execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, reply))

    def _execute(self, command: str, values: tuple[Any, ...]) -> Any:
        with self._lock:
            try:
                return self._connection.execute(command, values).fetchone()
            except sqlite3.Error as error:
                self._connection.close()
                self._give_up(error)
                return self._connection.execute(command, values).fetchone()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _opened(path: str | Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, timeout=WAIT, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, reply TEXT) WITHOUT ROWID"
        )
    except sqlite3.Error:
        connection.close()
        raise
    return connection
