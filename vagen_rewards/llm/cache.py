"""Replies of a judge's model on disk, keyed by everything that was asked."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any


def key_of(request: dict[str, Any]) -> bytes:
    """The key of a request: a hash over all of it."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=20).digest()


class ReplyCache:
    """A table of replies in one SQLite file, shared by processes; the recent ones also in memory.

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
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, check_same_thread=False, timeout=30, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, reply TEXT) WITHOUT ROWID"
            )

    def get(self, key: bytes) -> str | None:
        """The reply, or `None` if it isn't known."""
        reply = self._recent.get(key)
        if reply is None and self._connection is not None:
            row = None
            with (
                self._lock,
                contextlib.suppress(sqlite3.Error),
            ):  # a locked or broken file costs a request, not the batch
                row = self._connection.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            if row is not None:
                reply = str(row[0])
                self._remember(key, reply)
        return reply

    def put(self, key: bytes, reply: str) -> None:
        """Keep a reply."""
        self._remember(key, reply)
        if self._connection is not None:
            with self._lock, contextlib.suppress(sqlite3.Error):
                self._connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, reply))

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
