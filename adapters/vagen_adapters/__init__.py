"""Adapters of the environments and rewards to other libraries."""

from __future__ import annotations

import importlib
from typing import Any

# verifiers finds plug-ins in the `__all__` of a top-level package; they are imported lazily.
__all__ = ["Chat", "Levels", "Play"]
_MODULES = {"Chat": "verifiers_env", "Levels": "verifiers_taskset", "Play": "verifiers_env"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"vagen_adapters.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
