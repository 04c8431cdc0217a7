"""A sample's picture, however a data set holds it: bytes, a path, base64, or a dictionary of these."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vagen_envs.errors import SampleError
from vagen_envs.pictures import Pixels

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")

MOST_PIXELS = 50_000_000
"""Pictures of more pixels are refused before they are decoded."""

_LONGEST_PATH = 1_024  # characters; what is longer is Base64, and asking a disk for it is an error of its own


class SampleImage:
    """An encoded picture, decoded when somebody looks.

    Attributes:
        size: width and height in pixels.
    """

    __slots__ = ("_data", "_path", "_where", "size")

    def __init__(self, data: bytes | None, path: Path | None, where: str) -> None:
        self._data, self._path, self._where = data, path, where
        try:
            with self._open() as image:
                self.size: tuple[int, int] = image.size
        except _BROKEN as error:
            raise self._broken(error) from error
        if self.size[0] * self.size[1] > MOST_PIXELS:
            raise SampleError(
                f"{where} is a picture of {self.size[0]} × {self.size[1]} pixels, more than the {MOST_PIXELS} "
                "that are read; make it smaller"
            )

    @classmethod
    def read(cls, value: Any, where: str, folder: Path | None = None) -> SampleImage:
        """A picture from a row.

        Args:
            value: encoded bytes; a path; base64, with or without `data:…,` before it; or a dictionary with
                `bytes` or `path`, as Hugging Face's `Image` is stored.
            where: names row and field in errors.
            folder: where relative paths begin.

        Raises:
            SampleError: it is none of these, or not a picture.
        """
        if isinstance(value, Mapping):
            data, path = value.get("bytes"), value.get("path")
            if not data and isinstance(path, str) and path:
                return cls(None, _file(path, folder), where)
            value = data
        if isinstance(value, bytes) and value:
            return cls(value, None, where)
        if not isinstance(value, str) or not value:
            shown = f"{type(value).__name__} {value!r:.60}"
            raise SampleError(f"{where} is {shown}, not a picture; give bytes, a path, base64 or {{bytes, path}}")
        if not value.startswith("data:") and len(value) <= _LONGEST_PATH and "\0" not in value:
            file = _file(value, folder)
            if file.is_file():
                return cls(None, file, where)
        try:
            data = base64.b64decode(value.partition(",")[2] if value.startswith("data:") else value, validate=True)
        except ValueError as error:
            raise SampleError(
                f"{where}={value!r:.60} is neither an existing file nor base64; fix the path or the encoding"
            ) from error
        return cls(data, None, where)

    @property
    def encoded(self) -> bytes:
        """The bytes as they are stored. Raises SampleError if the file has gone."""
        if self._data is not None:
            return self._data
        assert self._path is not None  # noqa: S101 - for the type checker
        try:
            return self._path.read_bytes()
        except OSError as error:
            raise self._broken(error) from error

    @property
    def pixels(self) -> Pixels:
        """uint8 (height, width, 3), decoded anew; what is transparent is shown on white. Raises SampleError."""
        try:
            with self._open() as image:
                image.load()
                if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
                    white = Image.new("RGBA", image.size, "white")
                    return np.array(Image.alpha_composite(white, image.convert("RGBA")).convert("RGB"))
                return np.array(image.convert("RGB"))
        except _BROKEN as error:
            raise self._broken(error) from error

    def _open(self) -> Image.Image:
        source = io.BytesIO(self._data) if self._data is not None else self._path
        assert source is not None  # noqa: S101 - for the type checker
        return Image.open(source, formats=FORMATS)

    def _broken(self, error: Exception) -> SampleError:
        what = f"{len(self._data)} bytes that are" if self._data is not None else f"{self._path}, which is"
        return SampleError(f"{self._where} is {what} not a readable picture ({error}); store PNG, JPEG or WebP")


class DrawnImage(SampleImage):
    """A picture that code draws when somebody looks.

    Args:
        draw: gives the pixels, uint8 (height, width, 3), always the same.
        size: width and height in pixels.
    """

    __slots__ = ("_draw",)

    def __init__(self, draw: Callable[[], Pixels], size: tuple[int, int]) -> None:
        self._draw, self.size = draw, size
        self._data = self._path = None
        self._where = "a drawn picture"

    @property
    def encoded(self) -> bytes:
        if self._data is None:
            data = io.BytesIO()
            Image.fromarray(self.pixels).save(data, "PNG")
            self._data = data.getvalue()
        return self._data

    @property
    def pixels(self) -> Pixels:
        return self._draw()


_BROKEN = (OSError, SyntaxError, ValueError, EOFError, MemoryError, Image.DecompressionBombError)


def _file(path: str, folder: Path | None) -> Path:
    return (folder or Path()) / Path(path).expanduser()
