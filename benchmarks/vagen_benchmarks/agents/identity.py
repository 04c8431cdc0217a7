"""A hash of a custom agent's source, so that a run isn't resumed by another agent of the same
name.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

FROM_FILE = "custom_"
"""Prefix of the modules that are made from users' files. The rest of their names depends on the
file's folder.
"""
_PLAIN = (bool, int, float, str, type(None))


def identity_of(made: Any, module: ModuleType | None = None) -> str:
    """A hash of an agent's file and of what it imports from beside it, or of the source and the
    plain values of an object that comes from no file.

    Args:
        made: the function, class or object.
        module: of the file that it was loaded from.
    """
    texts = _own_object(made) if module is None else _files(module)
    return hashlib.sha256("\0".join(texts).encode("utf-8", "backslashreplace")).hexdigest()


def _files(module: ModuleType) -> Iterator[str]:
    """The text of a module's file, and of the files of its folder that its names come from."""
    path = Path(str(module.__file__)).resolve()
    yield path.read_text(encoding="utf-8", errors="replace")
    beside: set[Path] = set()
    for value in list(vars(module).values()):
        origin = str(getattr(value, "__module__", None))
        there = value if inspect.ismodule(value) else sys.modules.get(origin)
        beside.add(Path(getattr(there, "__file__", None) or path).resolve())
    for each in sorted(beside - {path}):
        if each.suffix == ".py" and each.parent == path.parent:
            yield each.read_text(encoding="utf-8", errors="replace")


def _own_object(made: Any) -> Iterator[str]:
    """The source of a function or of an object's class, and the plain values that it closes over
    or holds.
    """
    source: FunctionType | type = type(made)
    held: Mapping[str, Any] = getattr(made, "__dict__", {})
    if isinstance(made, FunctionType):
        source = made
        held = inspect.getclosurevars(made).nonlocals
    elif inspect.isclass(made):
        source = made
        held = {}
    try:
        yield inspect.getsource(source)
    except (OSError, TypeError):  # typed into a prompt
        yield source.__qualname__
    plain = {name: value for name, value in held.items() if isinstance(value, _PLAIN)}
    yield json.dumps(plain, sort_keys=True)
