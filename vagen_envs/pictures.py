"""Pictures: read-only pixels known by their content, and their PNG form."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
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
    """

    __slots__ = ("__weakref__", "_data_url", "_pixels", "_png", "_sha256", "shape")

    def __init__(self, pixels: Pixels) -> None:
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise ValueError(
                "a picture must be a uint8 array of shape (height, width, 3), not "
                f"{pixels.dtype} {pixels.shape}"
            )
        pixels.flags.writeable = False
        self.shape: tuple[int, ...] = pixels.shape
        self._pixels: Pixels | None = pixels
        self._sha256: str | None = None
        self._png: bytes | None = None
        self._data_url: str | None = None

    @classmethod
    def known_by(cls, sha256: str, shape: tuple[int, ...], png: bytes | None = None) -> Picture:
        """A picture known by its hash, as in a stored `Turn` without its pictures, or held as
        PNG.
        """
        picture = cls.__new__(cls)
        picture.shape = tuple(shape)
        picture._pixels = picture._data_url = None
        picture._sha256 = sha256
        picture._png = png
        return picture

    @classmethod
    def from_png(cls, data: bytes) -> Picture:
        """Read a PNG back. Raises RecordError if it isn't one."""
        try:
            return cls(_decoded(data))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise RecordError(
                f"{len(data)} bytes are not a PNG picture ({error}); store what `Picture.png` gives"
            ) from error

    def encoded(self) -> Picture:
        """The same picture, held as PNG alone: its pixels are decoded at each access and not
        kept.
        """
        return Picture.known_by(self.sha256, self.shape, self.png)

    @property
    def pixels(self) -> Pixels:
        """Read-only pixels. Raises RecordError if only the picture's name is known."""
        if self._pixels is not None:
            return self._pixels
        if self._png is None:
            raise RecordError(
                f"the pixels of picture {self._sha256} are not loaded; pass `pictures=` when you "
                "read the turn"
            )
        pixels = _decoded(self._png)
        pixels.flags.writeable = False
        return pixels

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
            buffer = io.BytesIO()
            Image.fromarray(self.pixels).save(buffer, "PNG", compress_level=1)
            self._png = buffer.getvalue()
        return self._png

    @property
    def data_url(self) -> str:
        """The PNG as a `data:` URL, as OpenAI-style messages take it; written once, since each
        later turn sends it.
        """
        if self._data_url is None:
            self._data_url = "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")
        return self._data_url

    @property
    def pil(self) -> Image.Image:
        """A `PIL.Image` in mode RGB."""
        return Image.fromarray(self.pixels)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Picture) and self.shape == other.shape and self.sha256 == other.sha256
        )

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __deepcopy__(self, memo: dict[int, Any]) -> Picture:
        return self

    def __repr__(self) -> str:
        return f"Picture({self.shape[0]}×{self.shape[1]}, sha256={self.sha256[:12]}…)"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pixels is None:
            return Picture.known_by, (self._sha256, self.shape, self._png)
        return Picture, (self._pixels,)


def _decoded(png: bytes) -> Pixels:
    with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
        return np.array(image.convert("RGB"))
