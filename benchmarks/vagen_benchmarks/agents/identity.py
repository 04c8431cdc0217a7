"""What a custom agent is made of, as a hash: two agents of one name and other code are told apart by it."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

DEEPEST = 6
"""Levels of functions, closures and attributes that are followed."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), Path)


def identity_of(made: Any, module: ModuleType | None = None) -> str:
    """A hash of an agent's source, of the values it closes over, and of the user's modules that it refers to.

    Objects without a stable text (a model's weights, a connection) count by their type alone.

    Args:
        made: the function, class or object.
        module: of the file that it was loaded from, which counts as a whole, if there is one.
    """
    digest = hashlib.sha256()
    for text in (*_content(made, 0, set()), *(_module(module, set()) if module else ())):
        digest.update(text.encode("utf-8", "backslashreplace") + b"\0")
    return digest.hexdigest()


def _is_own(module: ModuleType | None) -> bool:
    """Whether a module is a file of the user's, and not a library's."""
    file = getattr(module, "__file__", None)
    if module is None or not file or module.__name__.startswith("vagen_"):
        return False
    path = Path(file)
    is_library = {"site-packages", "dist-packages"} & set(path.parts) or path.is_relative_to(_STDLIB)
    return path.suffix == ".py" and not is_library and path.is_file()


_STDLIB = sysconfig.get_paths()["stdlib"]


def _module(module: ModuleType, seen: set[str]) -> Iterator[str]:
    """The text of a module's file, and of the user's modules that its names come from."""
    if module.__name__ in seen or not _is_own(module):
        return
    seen.add(module.__name__)
    yield Path(str(module.__file__)).read_text(encoding="utf-8", errors="replace")
    for value in list(vars(module).values()):
        there = value if inspect.ismodule(value) else sys.modules.get(str(getattr(value, "__module__", None)))
        if there is not None:
            yield from _module(there, seen)


def _content(value: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """Texts that say what a value is, the same in every process."""
    if inspect.ismodule(value):
        yield value.__name__
        return
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
        return
    yield type(value).__qualname__
    if depth > DEEPEST or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, list | tuple):
        for item in value:
            yield from _content(item, depth + 1, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted("".join(_content(item, depth + 1, seen)) for item in value)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _content(item, depth + 1, seen)
    elif isinstance(value, MethodType):
        yield from _content(value.__func__, depth + 1, seen)
        yield from _content(value.__self__, depth + 1, seen)
    elif isinstance(value, FunctionType):
        yield from _function(value, depth, seen)
    elif inspect.isclass(value):
        yield from _class(value, depth, seen)
    elif callable(getattr(value, "describe", None)) and type(value).__module__.startswith("vagen_"):
        yield json.dumps(value.describe(), sort_keys=True, default=str)
    elif hasattr(value, "tobytes"):  # an array
        yield hashlib.sha256(value.tobytes()).hexdigest()
    else:
        yield from _class(type(value), depth, seen)
        yield from _content(dict(getattr(value, "__dict__", {})), depth + 1, seen)


def _function(function: FunctionType, depth: int, seen: set[int]) -> Iterator[str]:
    try:
        yield textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):  # typed into a prompt
        yield from _code(function.__code__)
    yield from _content(function.__defaults__, depth + 1, seen)
    yield from _content(function.__kwdefaults__, depth + 1, seen)
    for cell in function.__closure__ or ():
        try:
            yield from _content(cell.cell_contents, depth + 1, seen)
        except ValueError:  # not yet filled
            yield "empty"
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if inspect.ismodule(value):
            yield from _module(value, set())
        elif name in function.__globals__:
            yield name
            yield from _content(value, depth + 1, seen)


def _names(code: CodeType) -> list[str]:
    """The names that code and the functions in it may look up."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return [*code.co_names, *inner]


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(constant)


def _class(kind: type, depth: int, seen: set[int]) -> Iterator[str]:
    """Its name, and its source and attributes where it is a user's own."""
    yield f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "__main__" else kind.__qualname__
    if kind.__module__ != "__main__" and not _is_own(sys.modules.get(kind.__module__)):
        return
    for name, item in vars(kind).items():
        value = item.__func__ if isinstance(item, staticmethod | classmethod) else item
        value = value.fget if isinstance(value, property) else value
        if isinstance(value, (FunctionType, *_PLAIN)) and name not in ("__module__", "__doc__", "__dict__"):
            yield name
            yield from _content(value, depth + 1, seen)
    for base in kind.__bases__:
        yield from _content(base, depth + 1, seen)
