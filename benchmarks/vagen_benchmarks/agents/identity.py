"""What a custom agent is made of, as a hash: two agents of one name and other code are told apart
by it.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import itertools
import json
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

DEEPEST = 6
"""Levels of functions, closures and attributes that are followed."""
FROM_FILE = "custom_"
"""Prefix of the modules that are made from users' files. The rest of their names depends on the
file's folder.
"""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), Path)
_STDLIB = sysconfig.get_paths()["stdlib"]


def identity_of(made: Any, module: ModuleType | None = None) -> str:
    """A hash of an agent's source, of the values it closes over, and of the user's modules that it
    refers to.

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
    is_library = {"site-packages", "dist-packages"} & set(path.parts) or path.is_relative_to(
        _STDLIB
    )
    return path.suffix == ".py" and not is_library and path.is_file()


def _module(module: ModuleType, seen: set[str]) -> Iterator[str]:
    """The text of a module's file, and of the user's modules that its names come from."""
    if module.__name__ in seen or not _is_own(module):
        return
    seen.add(module.__name__)
    yield Path(str(module.__file__)).read_text(encoding="utf-8", errors="replace")
    for value in list(vars(module).values()):
        there = (
            value
            if inspect.ismodule(value)
            else sys.modules.get(str(getattr(value, "__module__", None)))
        )
        if there is not None:
            yield from _module(there, seen)


def _content(value: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """Texts that say what a value is, the same in every process."""
    if inspect.ismodule(value):
        yield from _module(value, set())
        return
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
        return
    yield type(value).__qualname__
    if depth > DEEPEST or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, set | frozenset):
        yield from sorted("".join(_content(item, depth + 1, seen)) for item in value)
        return
    text = _own_text(value)
    if text is not None:
        yield text
        return
    if isinstance(value, FunctionType):
        yield from _source(value)
    for item in _inner(value):
        yield from _content(item, depth + 1, seen)


def _own_text(value: Any) -> str | None:
    """The text of a value that describes itself, or of an array; None for others."""
    if isinstance(value, list | tuple | dict | MethodType | FunctionType | CellType | type):
        return None
    if callable(getattr(value, "describe", None)) and type(value).__module__.startswith("vagen_"):
        return json.dumps(value.describe(), sort_keys=True, default=str)
    if hasattr(value, "tobytes"):
        return hashlib.sha256(value.tobytes()).hexdigest()
    return None


def _inner(value: Any) -> Iterable[Any]:
    """The values that a value consists of."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, dict):
        return itertools.chain.from_iterable((str(name), item) for name, item in value.items())
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, FunctionType):
        return [value.__defaults__, value.__kwdefaults__, _used(value), *(value.__closure__ or ())]
    if isinstance(value, CellType):
        with contextlib.suppress(ValueError):  # not yet filled
            return [value.cell_contents]
        return []
    if inspect.isclass(value):
        return _parts(value)
    return [type(value), dict(getattr(value, "__dict__", {}))]


def _used(function: FunctionType) -> dict[str, Any]:
    """The globals that a function names."""
    names = dict.fromkeys(name for code in _codes(function) for name in code.co_names)
    there = function.__globals__
    return {name: there[name] for name in names if name in there}


def _codes(function: FunctionType) -> list[CodeType]:
    """The code of a function and of the functions in it."""
    codes = [function.__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return codes


def _source(function: FunctionType) -> Iterator[str]:
    try:
        yield textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):  # typed into a prompt
        for code in _codes(function):
            yield code.co_code.hex() + repr(
                [each for each in code.co_consts if not isinstance(each, CodeType)]
            )


def _parts(kind: type) -> Iterator[Any]:
    """The name of a class, and its attributes and bases where it is a user's own."""
    is_local = kind.__module__ == "__main__" or kind.__module__.startswith(FROM_FILE)
    yield kind.__qualname__ if is_local else f"{kind.__module__}.{kind.__qualname__}"
    if not is_local and not _is_own(sys.modules.get(kind.__module__)):
        return
    for name, item in vars(kind).items():
        value = item.__func__ if isinstance(item, staticmethod | classmethod) else item
        value = value.fget if isinstance(value, property) else value
        if isinstance(value, (FunctionType, *_PLAIN)) and name not in (
            "__module__",
            "__doc__",
            "__dict__",
        ):
            yield name
            yield value
    yield from kind.__bases__
