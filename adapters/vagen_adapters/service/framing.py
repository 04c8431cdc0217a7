"""Binary messages of the service: a JSON object, followed by the pictures that it names."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any

from vagen_envs.errors import MissingExtraError

try:
    import orjson
except ImportError as error:
    raise MissingExtraError("vagen_adapters.service", "serve", "orjson") from error

MAX_REQUEST = 2 << 20
"""Bytes of a request. Holds the replies of an episode of a few hundred turns, which is what a
replay sends.
"""
MAX_ITEMS = 256
"""Items of one request."""
DIGEST = hashlib.sha256().digest_size


def written(data: Any) -> bytes:
    """JSON, in which NaN and infinity are null. Lone surrogates, which a model can write, take the
    slow way.
    """
    try:
        return orjson.dumps(data)
    except TypeError:
        return json.dumps(data).encode()


def read(data: bytes | str) -> Any:
    """Read JSON. Raises ValueError or RecursionError."""
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)


def pack(body: bytes, pictures: Sequence[tuple[str, bytes]]) -> bytes:
    """Join a JSON body and `(SHA-256, PNG)` pairs.

    Layout: length of the body (4 bytes, little-endian), body, then for every picture its SHA-256
    (32 bytes), the length of the PNG (4 bytes) and the PNG.
    """
    parts = [struct.pack("<I", len(body)), body]
    for sha256, png in pictures:
        parts += (bytes.fromhex(sha256), struct.pack("<I", len(png)), png)
    return b"".join(parts)


def unpack(message: bytes) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Split what `pack` joined. Raises ValueError for anything else."""
    body, place = _sized(message, 0)
    pictures = []
    while place < len(message):
        sha256 = message[place : place + DIGEST].hex()
        png, place = _sized(message, place + DIGEST)
        pictures.append((sha256, png))
    return body, pictures


def _sized(message: bytes, place: int) -> tuple[bytes, int]:
    begin = place + 4
    if begin > len(message):
        raise ValueError(
            f"a message of {len(message)} bytes ends at byte {place}, where a length should be"
        )
    end = begin + struct.unpack_from("<I", message, place)[0]
    if end > len(message):
        raise ValueError(f"a message of {len(message)} bytes claims to have {end}")
    return message[begin:end], end
