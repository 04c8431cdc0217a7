"""A hash of a custom agent's source and closures, so that a run isn't resumed by another agent of
the same name.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

FROM_FILE = "custom_"
"""Prefix of the modules that are made from users' files. The rest of their names depends on the
file's folder.
"""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), Path)
_STDLIB = sysconfig.get_paths()["stdlib"]


def identity_of(made: Any, module: ModuleType | None = None) -> str:
    """A hash of an agent's source, of the plain values that it closes over or holds, and of the
    user's modules that it comes from.

    Args:
        made: the function, class or object.
        module: of the file that it was loaded from, which counts as a whole, if there is one.
    """
    digest = hashlib.sha256()
    for text in (*_content(made, set()), *(_module(module, set()) if module else ())):
        digest.update(text.encode("utf-8", "backslashreplace") + b"\0")
    return digest.hexdigest()


def _is_own(module: ModuleType | None) -> bool:
    """Whether a module is a file of the user's, and not a library's."""
    file = getattr(module, "__file__", None)
    if module is None or not file or module.__name__.startswith("vagen_"):
        return False
    path = Path(file)
    is_packaged = bool({"site-packages", "dist-packages"} & set(path.parts))
    return path.suffix == ".py" and not is_packaged and not path.is_relative_to(_STDLIB)


def _module(module: ModuleType, seen: set[str]) -> Iterator[str]:
    """The text of a module's file, and of the user's modules that its names come from."""
    if module.__name__ in seen or not _is_own(module):
        return
    seen.add(module.__name__)
    yield Path(str(module.__file__)).read_text(encoding="utf-8", errors="replace")
    for value in list(vars(module).values()):
        origin = str(getattr(value, "__module__", None))
        there = value if inspect.ismodule(value) else sys.modules.get(origin)
        if there is not None:
            yield from _module(there, seen)


def _content(value: Any, seen: set[int]) -> Iterator[str]:
    """Texts that say what a value is, the same in every process."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    inner: list[Any] = []
    if isinstance(value, FunctionType):
        yield _source(value)
        inner = [value.__defaults__, value.__kwdefaults__, inspect.getclosurevars(value).nonlocals]
    elif isinstance(value, MethodType):
        inner = [value.__func__, value.__self__]
    elif isinstance(value, dict):
        inner = [part for item in value.items() for part in item]
    elif isinstance(value, list | tuple):
        inner = list(value)
    elif inspect.isclass(value):
        yield _source(value) if _is_users(value) else f"{value.__module__}.{value.__qualname__}"
    elif _is_users(type(value)):
        inner = [type(value), dict(getattr(value, "__dict__", {}))]
    else:  # a model's weights or a connection counts by its type, an agent by its description
        inner = [type(value)]
        if type(value).__module__.startswith("vagen_") and hasattr(value, "describe"):
            yield json.dumps(value.describe(), sort_keys=True, default=str)
    for item in inner:
        yield from _content(item, seen)


def _is_users(kind: type) -> bool:
    """Whether a class is the user's, and not a library's."""
    name = kind.__module__
    return name.startswith((FROM_FILE, "__main__")) or _is_own(sys.modules.get(name))


def _source(made: FunctionType | type) -> str:
    """The source of a function or class; of a function that was typed into a prompt its code."""
    try:
        return textwrap.dedent(inspect.getsource(made))
    except (OSError, TypeError):
        code = getattr(made, "__code__", None)
        return made.__qualname__ if code is None else code.co_code.hex() + repr(code.co_names)
