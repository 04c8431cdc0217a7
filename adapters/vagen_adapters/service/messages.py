"""Requests of clients, checked before anything else reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
)

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.framing import MAX_ITEMS, read
from vagen_envs.bounds import SEED
from vagen_envs.errors import shown

STATUS = {"unauthorized": 401, "forbidden": 403, "full": 429}
"""The HTTP status of a connection that is refused, by the code of the failure."""
MAX_OPTIONS = 256
"""Several times as many as any environment has."""
MAX_REPLIES = 10_000
"""Replies of a replay. Half a million short ones in a request of 2 MiB would take 130 MiB and
minutes of a worker.
"""
MAX_DEPTH = 6
"""Levels of nesting in an option: a list of texts is 1 deep."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"it must be a string, not {shown(value)}")
    return value


def _shallow(options: dict[str, Any]) -> dict[str, Any]:
    if len(options) > MAX_OPTIONS:
        raise ValueError(f"{len(options)} options; at most {MAX_OPTIONS} can be given")
    level: list[Any] = [options]
    for _ in range(MAX_DEPTH):
        nested = (value.values() if isinstance(value, dict) else value for value in level)
        level = [inner for values in nested for inner in values if isinstance(inner, dict | list)]
        if not level:
            return options
    raise ValueError(f"options are nested deeper than {MAX_DEPTH}; give flatter ones")


Text = Annotated[str, PlainValidator(_text)]
"""A reply. Pydantic's own strings refuse lone surrogates, which a model can write."""
Choice = Annotated[Any, AfterValidator(lambda value: _shallow({"": value})[""])]
"""An option of a reset; the environment checks its value."""
Seed = Annotated[int, Field(ge=SEED.least, le=SEED.most)]
Name = Annotated[str, Field(max_length=200)]


class Item(BaseModel):
    """What every item has: the id of its session, chosen by the client, which should be
    unguessable.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    session: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,64}$")]


class Replay(BaseModel):
    """An episode that began elsewhere: seed and split as its reset's answer named them, and its
    latest digest.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    seed: Seed
    split: Name | None = None
    replies: Annotated[list[Text], Field(max_length=MAX_REPLIES)]
    digest: Name


class OpenSession(Item):
    """Make an environment, or have one again that was elsewhere.

    `move` is the number of the last move that was answered, if the session was open before. Options
    may be any JSON; `vagen_adapters.permission` decides what may be set.
    """

    env_id: Text
    options: Annotated[dict[str, Any], AfterValidator(_shallow)] = {}
    move: Annotated[int, Field(ge=0)] | None = None
    replay: Replay | None = None


class Move(Item):
    """A reset or a step, numbered from 1. A move that is sent again is not carried out again."""

    move: Annotated[int, Field(ge=1)]


class Reset(Move):
    """Begin an episode."""

    seed: Choice = None
    split: Choice = None
    level: Choice = None


class StepSession(Move):
    """Play a turn. `after` is the digest of the answer it follows; a session with another latest
    answer refuses it.
    """

    reply: Text
    after: Name | None = None


VERBS: dict[str, type[Item]] = {
    "open": OpenSession,
    "reset": Reset,
    "step": StepSession,
    "close": Item,
}
_READERS: dict[str, TypeAdapter[Any]] = {
    verb: TypeAdapter(list[kind])  # type: ignore[valid-type]
    for verb, kind in VERBS.items()
}


def read_request(data: bytes) -> dict[str, Any]:
    """The JSON object of a request. Raises ServiceError."""
    try:
        request = read(data)
    except (ValueError, RecursionError) as error:
        raise ServiceError(
            "bad_request", f"this is not JSON ({type(error).__name__}: {str(error)[:200]})"
        ) from None
    if not isinstance(request, dict):
        raise ServiceError(
            "bad_request", f"the request is a JSON {type(request).__name__}, not an object"
        )
    return request


def read_items(verb: Any, items: Any) -> Sequence[Any]:
    """The items of a request. Raises ServiceError."""
    if not isinstance(verb, str) or verb not in VERBS:
        raise ServiceError(
            "bad_request", f"unknown verb {str(verb)[:50]!r}; known: {', '.join(VERBS)}"
        )
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_ITEMS:
        raise ServiceError(
            "bad_request", f"items: it must be a list of 1 to {MAX_ITEMS}; send several requests"
        )
    try:
        return _READERS[verb].validate_python(items)
    except ValidationError as error:
        first, *others = error.errors(include_url=False, include_context=False, include_input=False)
        place = ".".join(map(str, ("items", *first["loc"])))[:200]
        more = f" (and {len(others)} more)" if others else ""
        raise ServiceError(
            "bad_request", f"{place}: {first['msg'].removeprefix('Value error, ')}{more}"
        ) from None
    except RecursionError:
        raise ServiceError("bad_request", "the request is nested too deep") from None
