"""A sample's picture, however a data set holds it: bytes, a path, base64, or a dictionary of
these.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vagen_envs.errors import SampleError
from vagen_envs.pictures import Pixels

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")

MOST_PIXELS = 50_000_000
"""Pictures of more pixels are refused before they are decoded."""


class SampleImage:
    """An encoded picture, decoded when its pixels are asked for.

    Attributes:
        size: width and height in pixels.
    """

    def __init__(self, source: bytes | Path, where: str) -> None:
        self._source = source
        self._where = where
        with self._opened() as image:
            self.size: tuple[int, int] = image.size
        width, height = self.size
        if width * height > MOST_PIXELS:
            many = f"{width} × {height} pixels, more than the {MOST_PIXELS} that are read"
            raise SampleError(f"{where} is a picture of {many}; make it smaller")

    @classmethod
    def read(cls, value: Any, where: str, folder: Path = Path()) -> SampleImage:
        """A picture from a row.

        Args:
            value: encoded bytes; a path; base64, with or without `data:…,` before it; or a
                dictionary with `bytes` or `path`, as Hugging Face's `Image` is stored.
            where: names row and field in errors.
            folder: where relative paths begin.

        Raises:
            SampleError: it is none of these, or not a picture.
        """
        if isinstance(value, Mapping):
            value = value.get("bytes") or value.get("path")
        if isinstance(value, bytes) and value:
            return cls(value, where)
        if not isinstance(value, str) or not value:
            shown = f"{type(value).__name__} {value!r:.60}"
            raise SampleError(
                f"{where} is {shown}, not a picture; give bytes, a path, base64 or {{bytes, path}}"
            )
        file = folder / os.path.expanduser(value)  # noqa: PTH111  (raises nothing, whatever the text)
        if os.path.isfile(file):  # noqa: PTH113  (likewise)
            return cls(file, where)
        try:
            return cls(base64.b64decode(value.partition(",")[2] or value, validate=True), where)
        except ValueError as error:
            raise SampleError(
                f"{where}={value!r:.60} is neither an existing file nor base64; fix the path or "
                "the encoding"
            ) from error

    @property
    def encoded(self) -> bytes:
        """The bytes as they are stored. Raises SampleError if the file has gone."""
        with self._errors():
            return self._source if isinstance(self._source, bytes) else self._source.read_bytes()

    @property
    def pixels(self) -> Pixels:
        """uint8 (height, width, 3), decoded anew; transparent parts are shown on white. Raises
        SampleError.
        """
        with self._opened() as image:
            if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
                white = Image.new("RGBA", image.size, "white")
                return np.array(Image.alpha_composite(white, image.convert("RGBA")).convert("RGB"))
            return np.array(image.convert("RGB"))

    @contextmanager
    def _opened(self) -> Iterator[Image.Image]:
        source = io.BytesIO(self._source) if isinstance(self._source, bytes) else self._source
        with self._errors(), Image.open(source, formats=FORMATS) as image:
            yield image

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (
            OSError,
            SyntaxError,
            ValueError,
            EOFError,
            MemoryError,
            Image.DecompressionBombError,
        ) as error:
            source = self._source
            if isinstance(source, bytes):
                what = f"{len(source)} bytes that are"
            else:
                what = f"{source}, which is"
            raise SampleError(
                f"{self._where} is {what} not a readable picture ({error}); store PNG, JPEG or WebP"
            ) from error
