"""Messages between a server and its worker processes: a length and a pickle, over a socket.

Only tuples, texts and numbers are pickled: a class takes a search for its name at either end, four times as long.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

from vagen_adapters.service.host import Answer, Call, Done, Failure

_HEAD = struct.Struct("<Q")
READ = 1 << 16
"""Bytes that are read at once. Into a buffer that stays: a fresh one of a megabyte takes longer than a turn's way."""


def packed_calls(calls: Sequence[Call]) -> bytes:
    """What a worker is asked, as it goes over the socket."""
    return packed([tuple(each) for each in calls])


def packed_done(done: Sequence[Done]) -> bytes:
    """What came of it."""
    return packed([(seconds, type(result) is Failure, result and tuple(result)) for result, seconds in done])


def read_calls(message: Any) -> list[Call]:
    """What `packed_calls` was given."""
    return [Call(*each) for each in message]


def read_done(message: Any) -> list[Done]:
    """What `packed_done` was given."""
    return [Done(said and (Failure(*said) if failed else Answer(*said)), seconds) for seconds, failed, said in message]


def packed(message: Any) -> bytes:
    """A message as it goes over the socket."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(data)) + data


class Unpacker:
    """Messages out of the bytes that come over a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = memoryview(bytearray(READ))
        self._held = bytearray()

    def receive(self, flags: int = 0) -> list[Any] | None:
        """Read once; the messages that are complete by then. None at the end.

        The other end is trusted: it is this package's own process. Raises OSError as `socket.recv`.
        """
        count = self._connection.recv_into(self._buffer, READ, flags)
        if not count:
            return None
        if not self._held and count > _HEAD.size and count == _HEAD.size + _HEAD.unpack_from(self._buffer)[0]:
            return [pickle.loads(self._buffer[_HEAD.size : count])]  # noqa: S301
        self._held += self._buffer[:count]
        messages = []
        while len(self._held) >= _HEAD.size:
            end = _HEAD.size + _HEAD.unpack_from(self._held)[0]
            if len(self._held) < end:
                break
            with memoryview(self._held) as held:
                messages.append(pickle.loads(held[_HEAD.size : end]))  # noqa: S301
            del self._held[:end]
        return messages
