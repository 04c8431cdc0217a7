"""Python modules that an extra brings."""

from __future__ import annotations

import importlib.util

from vagen_envs.errors import MissingExtraError


def need(needed_by: str, extra: str, *modules: str) -> None:
    """Raise MissingExtraError for the first of the modules that isn't installed."""
    for module in modules:
        if is_absent(module):
            raise MissingExtraError(needed_by, extra, module)


def is_absent(module: str) -> bool:
    """Whether a module isn't installed."""
    try:
        return importlib.util.find_spec(module) is None
    except (
        ModuleNotFoundError,
        ValueError,
    ):
        # Its parent isn't installed, or it is hidden in sys.modules.
        return True
