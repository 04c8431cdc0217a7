"""What goes over the wire: JSON, and frames of JSON with the pictures that it names."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from vagen_envs.errors import MissingExtraError

try:
    from vagen_adapters.quick_json import read, written
except ImportError as error:
    raise MissingExtraError("vagen_adapters.service", "serve", "orjson") from error

__all__ = ["joined", "parted", "read", "written"]

NAME = hashlib.sha256().digest_size
"""Bytes of a picture's SHA-256."""


def joined(body: bytes, pictures: Sequence[tuple[str, bytes]]) -> bytes:
    """A frame: the body's length, the body, and of each picture its SHA-256, its length and its PNG."""
    parts = [struct.pack("<I", len(body)), body]
    for sha256, png in pictures:
        parts += (bytes.fromhex(sha256), struct.pack("<I", len(png)), png)
    return b"".join(parts)


def parted(frame: bytes) -> tuple[bytes, list[tuple[str, bytes]]]:
    """A frame's body and pictures. Raises ValueError if it isn't one."""
    body, place = _sized(frame, 0)
    pictures = []
    while place < len(frame):
        sha256 = frame[place : place + NAME].hex()
        png, place = _sized(frame, place + NAME)
        pictures.append((sha256, png))
    return body, pictures


def _sized(frame: bytes, place: int) -> tuple[bytes, int]:
    begin = place + 4
    if begin > len(frame):
        raise ValueError(f"a frame of {len(frame)} bytes ends at byte {place}, where a length should be")
    end = begin + struct.unpack_from("<I", frame, place)[0]
    if end > len(frame):
        raise ValueError(f"a frame of {len(frame)} bytes says that it has {end}")
    return frame[begin:end], end
