"""Bodies that come packed, as servers and proxies really pack them."""

from __future__ import annotations

import zlib
from typing import Any


class Unpacking:
    """Unpacks a body piece by piece.

    Gzip may have several members; what is said to be deflate is often without zlib's head; and where a proxy has
    unpacked a body and left the header field, it is text.

    Args:
        said: `content-encoding` in small letters.
    """

    def __init__(self, said: str) -> None:
        self._said = said
        self._made: Any = None
        self._head = b""

    def __call__(self, piece: bytes, most: int) -> bytes:
        """At most so many bytes of what the next piece holds. Raises zlib.error."""
        if self._made is None:
            self._head += piece
            if len(self._head) < 2:
                return b""
            piece, self._head = self._head, b""
            self._made = self._unpacker(piece)
        out = b""
        while piece and len(out) < most:
            if self._made.eof:
                if piece[:2] != b"\x1f\x8b":  # padding, and no further member
                    break
                self._made = self._unpacker(piece)
            out += self._made.decompress(piece, most - len(out))
            piece = self._made.unused_data if self._made.eof else b""
        return out

    def _unpacker(self, piece: bytes) -> Any:
        """What unpacks a body that begins so."""
        if piece[:2] == b"\x1f\x8b" or (piece[0] & 0x0F == 8 and int.from_bytes(piece[:2]) % 31 == 0):
            return zlib.decompressobj(zlib.MAX_WBITS | 32)
        if self._said == "deflate":
            return zlib.decompressobj(-zlib.MAX_WBITS)
        return _Plain() if piece.lstrip()[:1] in (b"{", b"[", b"<") else zlib.decompressobj(zlib.MAX_WBITS | 32)


class _Plain:
    eof = False

    def decompress(self, piece: bytes, _most: int) -> bytes:
        return piece
