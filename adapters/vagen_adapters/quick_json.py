"""JSON by orjson, which takes a tenth of the time, for whatever the standard library's takes."""

from __future__ import annotations

import json
from typing import Any

import orjson


def written(data: Any) -> bytes:
    """JSON, in which NaN and infinity are null. Lone surrogates, which a model can write, take the slow way."""
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
