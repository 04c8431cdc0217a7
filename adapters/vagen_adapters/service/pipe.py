"""Messages between a server and its worker processes: a length and a pickle, over a socket."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from typing import Any

_HEAD = struct.Struct("<Q")
READ = 1 << 20
"""Bytes that are read at once."""


def packed(message: Any) -> bytes:
    """A message as it goes over the socket."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(data)) + data


class Unpacker:
    """Messages out of the bytes that come."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages that these bytes complete. The other end is trusted: it is this package's own process."""
        self._held += data
        while len(self._held) >= _HEAD.size:
            end = _HEAD.size + _HEAD.unpack_from(self._held)[0]
            if len(self._held) < end:
                return
            message = pickle.loads(memoryview(self._held)[_HEAD.size : end])  # noqa: S301
            del self._held[:end]
            yield message
