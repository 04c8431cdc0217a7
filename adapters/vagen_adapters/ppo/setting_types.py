"""Types of settings and entries of files, and the check of values against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from vagen_adapters.errors import TrainingConfigError
from vagen_envs.errors import did_you_mean

STRICT = ConfigDict(strict=True, allow_inf_nan=False)
Count = Annotated[int, Field(ge=1)]
CountFrom0 = Annotated[int, Field(ge=0)]
From0 = Annotated[float, Field(ge=0)]
Above0 = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


def check_entries(owner: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise TrainingConfigError for an entry of `given` whose name isn't `known`, or which isn't of
    the type there.
    """
    for name, entry in given.items():
        if name not in known:
            raise TrainingConfigError(
                f"{owner} has no entry {name!r}.{did_you_mean(str(name), known)}"
            )
        check_type(f"{owner}: {name}", entry, TypeAdapter(known[name], config=STRICT))


def check_type(name: str, entry: Any, kind: TypeAdapter[Any]) -> None:
    """Raise TrainingConfigError if an entry isn't of this type."""
    try:
        kind.validate_python(entry)
    except ValidationError as error:
        reasons = dict.fromkeys(
            reason["msg"].removeprefix("Input should be ") for reason in error.errors()
        )
        raise TrainingConfigError(
            f"{name}={entry!r} is not valid: it must be {', or '.join(reasons)}"
        ) from None
