"""Adapters of the environments and rewards to other libraries."""

from __future__ import annotations

import importlib
from typing import Any

# verifiers finds plug-ins in the `__all__` of a top-level package; they are imported lazily.
__all__ = ["Chat", "Levels", "Play"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("vagen_adapters.verifiers_env"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
