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
    """A table of replies in one SQLite file, shared by processes; the recent ones also in memory.

    A file that can't be opened, is damaged or stays locked is left alone, with a warning; memory serves on.

    Args:
        path: of the file; made with its folder. `None` keeps replies in memory only.
        in_memory: replies kept in memory.
    """

    def __init__(self, path: str | Path | None, in_memory: int = 100_000) -> None:
        self.path = None if path is None else Path(path)
        self.in_memory = in_memory
        self._recent: dict[bytes, str] = {}
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = self._opened(self.path)
            except (OSError, sqlite3.Error) as error:
                self._give_up(error)

    @staticmethod
    def _opened(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, check_same_thread=False, timeout=WAIT, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, reply TEXT) WITHOUT ROWID")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _give_up(self, error: Exception) -> None:
        """Go on without the file: to wait for it at each statement would cost the batch."""
        self.close()
        warnings.warn(f"the judge's cache {self.path} is left alone from here on: {error}", stacklevel=3)

    def get(self, key: bytes) -> str | None:
        """The reply, or `None` if it isn't known."""
        reply = self._recent.get(key)
        if reply is None:
            row = self._execute("SELECT reply FROM replies WHERE key = ?", (key,))
            if row is not None:
                reply = str(row[0])
                self._remember(key, reply)
        return reply

    def put(self, key: bytes, reply: str) -> None:
        """Keep a reply."""
        self._remember(key, reply)
        self._execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, reply))

    def _execute(self, command: str, values: tuple[Any, ...]) -> Any:
        with self._lock:
            if self._connection is None:
                return None
            try:
                return self._connection.execute(command, values).fetchone()
            except sqlite3.Error as error:
                self._give_up(error)
                return None

    def _remember(self, key: bytes, reply: str) -> None:
        with self._lock:
            if len(self._recent) >= self.in_memory:
                self._recent.pop(next(iter(self._recent)))
            self._recent[key] = reply

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
