"""Pictures: read-only pixels known by their content, and their PNG form."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vagen_envs.errors import RecordError

Pixels = NDArray[np.uint8]


class Picture:
    """A picture that doesn't change: uint8 pixels of shape (height, width, 3), RGB, row 0 on top.

    Args:
        pixels: taken over without a copy and made read-only. Pass an array nobody else writes to.
        paletted: optional, gives the same picture as indices and the RGB of each index, uint8 of shape (colours, 3).
            The indices are uint8 of shape (height, width), or of at most 16 colours (height, width / 2), two in a
            byte with the left one high. It makes the PNG smaller and much faster to write.
    """

    __slots__ = ("__weakref__", "_data_url", "_draw", "_paletted", "_pixels", "_png", "_sha256", "shape")

    def __init__(self, pixels: Pixels, paletted: Callable[[], tuple[Pixels, Pixels]] | None = None) -> None:
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise ValueError(
                f"a picture must be a uint8 array of shape (height, width, 3), not {pixels.dtype} {pixels.shape}"
            )
        pixels.flags.writeable = False
        self.shape: tuple[int, ...] = pixels.shape
        self._pixels: Pixels | None = pixels
        self._draw: Callable[[], Pixels] | None = None
        self._paletted = paletted
        self._sha256: str | None = None
        self._png: bytes | None = None
        self._data_url: str | None = None

    @classmethod
    def drawn_by(
        cls, shape: tuple[int, int, int], draw: Callable[[], Pixels], paletted: Callable[[], tuple[Pixels, Pixels]]
    ) -> Picture:
        """A picture that is drawn when somebody looks. `draw` must always give the same pixels of this shape."""
        picture = cls.__new__(cls)
        picture.shape = shape
        picture._draw, picture._paletted = draw, paletted
        picture._pixels = picture._png = picture._sha256 = picture._data_url = None
        return picture

    @classmethod
    def known_by(cls, sha256: str, shape: tuple[int, ...]) -> Picture:
        """A picture known by its hash only, as in a stored `Turn` without its pictures."""
        picture = cls.__new__(cls)
        picture.shape = tuple(shape)
        picture._pixels = picture._draw = picture._paletted = picture._png = picture._data_url = None
        picture._sha256 = sha256
        return picture

    @classmethod
    def from_png(cls, data: bytes) -> Picture:
        """Read a PNG back. Raises RecordError if it isn't one."""
        try:
            with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
                return cls(np.array(image.convert("RGB")))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise RecordError(
                f"{len(data)} bytes are not a PNG picture ({error}); store what `Picture.png` gives"
            ) from error

    def encoded(self) -> Picture:
        """The same picture, held as PNG alone: its pixels are decoded at each access and not kept."""
        return Picture._held_as_png(self.png, self.shape, self.sha256)

    @classmethod
    def _held_as_png(cls, png: bytes, shape: tuple[int, ...], sha256: str) -> Picture:
        picture = cls.known_by(sha256, shape)
        picture._png = png
        picture._draw = functools.partial(_decoded, png)
        return picture

    @property
    def pixels(self) -> Pixels:
        """Read-only pixels. Raises RecordError if only the picture's name is known."""
        if self._draw is not None:  # not kept: many boards are remembered, and drawing takes some 15 µs
            pixels = self._draw()
            pixels.flags.writeable = False
            return pixels
        if self._pixels is None:
            raise RecordError(
                f"the pixels of picture {self._sha256} are not loaded; pass `pictures=` when you read the turn"
            )
        return self._pixels

    def copied(self) -> Pixels:
        """The pixels in an array of one's own.

        Those of a picture that is drawn when somebody looks aren't kept: 27 kB for each turn of hundreds of episodes
        are fresh pages of memory, which take longer than drawing does.
        """
        return self.pixels.copy() if self._draw is None else self._draw()

    @property
    def sha256(self) -> str:
        """The picture's name: SHA-256 over its shape and its pixels, in hexadecimal."""
        if self._sha256 is None:
            digest = hashlib.sha256(struct.pack("<II", self.shape[0], self.shape[1]))
            digest.update(np.ascontiguousarray(self.pixels).data)
            self._sha256 = digest.hexdigest()
        return self._sha256

    @property
    def png(self) -> bytes:
        """The picture as PNG, lossless; encoded once."""
        if self._png is None:
            if self._paletted is not None:
                self._png = _palette_png(self.shape[1], *self._paletted())
            else:
                buffer = io.BytesIO()
                Image.fromarray(self.pixels).save(buffer, "PNG", compress_level=1)
                self._png = buffer.getvalue()
        return self._png

    @property
    def data_url(self) -> str:
        """The PNG as a `data:` URL, as OpenAI-style messages take it; written once, since each later turn sends it."""
        if self._data_url is None:
            self._data_url = "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")
        return self._data_url

    @property
    def pil(self) -> Image.Image:
        """A `PIL.Image` in mode RGB."""
        return Image.fromarray(self.pixels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and self.shape == other.shape and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __copy__(self) -> Picture:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Picture:
        return self

    def __repr__(self) -> str:
        return f"Picture({self.shape[0]}×{self.shape[1]}, sha256={self.sha256[:12]}…)"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pixels is None and self._draw is None:
            return Picture.known_by, (self._sha256, self.shape)
        if isinstance(self._draw, functools.partial) and self._draw.func is _decoded:
            return Picture._held_as_png, (self._png, self.shape, self._sha256)
        return Picture, (self.pixels,)


def _decoded(png: bytes) -> Pixels:
    with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
        return np.array(image.convert("RGB"))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _palette_png(width: int, indices: Pixels, palette: Pixels) -> bytes:
    """A palette PNG by hand: Pillow takes ten times as long for a picture of this size (180 against 13 µs)."""
    height, row_bytes = indices.shape
    rows = np.zeros((height, row_bytes + 1), np.uint8)  # each row starts with its filter type, 0 = none
    rows[:, 1:] = indices
    # Level 2 takes as long as level 1 for tiles, and leaves a tenth less. A window as large as the picture finds all
    # that the largest does, which clears 256 KiB of memory first.
    window = min(max(rows.nbytes.bit_length(), 9), 15)
    packer = zlib.compressobj(2, zlib.DEFLATED, window, max(window - 7, 1))
    pixels = _chunk(b"IDAT", packer.compress(rows.data) + packer.flush())
    return _palette_head(height, width, row_bytes * 8 // width, palette.tobytes()) + pixels + _END


# One for each size and palette: of environments that are played at once there are a handful.
@functools.lru_cache(64)
def _palette_head(height: int, width: int, depth: int, palette: bytes) -> bytes:
    size = struct.pack(">IIBBBBB", width, height, depth, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", size) + _chunk(b"PLTE", palette)


_END = _chunk(b"IEND", b"")
