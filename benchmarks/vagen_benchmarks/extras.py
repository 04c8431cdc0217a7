"""Which extra brings a Python module that isn't installed."""

from __future__ import annotations

import importlib.metadata
import re
from collections import Counter

from vagen_envs.errors import MissingExtraError

_NAMED_OTHERWISE = {"PIL": "pillow", "google": "google-genai", "skimage": "scikit-image"}
"""Modules whose distribution has another name; `_` for `-` is no other name."""
_OF_EXTRA = re.compile(r"([A-Za-z0-9._-]+).*extra == ['\"]([^'\"]+)['\"]")


def extras_of(module: str) -> list[str]:
    """The extras that ask for a module's distribution themselves, the smallest first; none if none
    does.
    """
    wanted = _normal(_NAMED_OTHERWISE.get(module, module))
    try:
        asked = importlib.metadata.requires("vagen-envs") or []
    except importlib.metadata.PackageNotFoundError:  # run from a folder, not installed
        return []
    pairs = [(found[1], found[2]) for line in asked if (found := _OF_EXTRA.match(line))]
    size = Counter(extra for _, extra in pairs)
    return sorted(
        (extra for name, extra in pairs if _normal(name) == wanted),
        key=lambda each: (size[each], each),
    )


def explained(needed_by: str, error: ModuleNotFoundError, likely: str = "") -> MissingExtraError:
    """The error of an import as one that names the extra: `likely`, if that is among those that
    bring the module.

    `needed_by` is the message's subject. Raises `error` itself where no extra brings the module.
    """
    module = (error.name or "").partition(".")[0]
    found = extras_of(module)
    if not found:  # a fault of this package, or of a user's file
        raise error
    return MissingExtraError(needed_by, likely if likely in found else found[0], module)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
