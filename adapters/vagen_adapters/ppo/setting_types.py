"""Of what type a setting must be: one check for `vagen train --set` and for settings from Python."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

WORDS: dict[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a table",
    types.NoneType: "None",
}  # fmt: skip
TAKEN_FOR: dict[Any, Any] = {float: (int, float), list: (list, tuple), dict: Mapping}
"""What else is taken for one of these types."""


def must_be(config: type, name: str, setting: Any) -> str | None:
    """What a setting must be, in words, where it is of another type than its field; None where it fits.

    The fields of `config` itself say their types. Of those that it has from transformers, whose annotations don't say
    all that is taken, only switches and numbers are known, by their defaults. Choices are left to their own checks.
    """
    kinds = _kinds(config)[name]
    if not kinds or any(_is_a(setting, kind) for kind in kinds):
        return None
    return ", or ".join(WORDS[kind] for kind in kinds)


@functools.cache
def _kinds(config: type) -> dict[str, tuple[Any, ...]]:
    own = inspect.get_annotations(config, eval_str=True)
    return {
        field.name: _annotated(own[field.name]) if field.name in own else _defaulting(field.default)
        for field in dataclasses.fields(config)
    }


def _annotated(annotation: Any) -> tuple[Any, ...]:
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    kinds = tuple(get_origin(part) or part for part in parts)
    return kinds if all(kind in WORDS for kind in kinds) else ()


def _defaulting(default: Any) -> tuple[Any, ...]:
    kind = type(default)
    return {bool: (bool, types.NoneType), int: (int,), float: (float,)}.get(kind, ())


def _is_a(setting: Any, kind: Any) -> bool:
    if not isinstance(setting, TAKEN_FOR.get(kind, kind)):
        return False
    if kind not in (int, float):
        return True
    return not isinstance(setting, bool) and bool(setting == setting)  # to Python True is a number, and NaN too
