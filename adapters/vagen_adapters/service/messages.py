"""What a client may say, checked at the door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError

from vagen_adapters.service.host import Failure
from vagen_adapters.service.wire import read
from vagen_envs.bounds import SEED

STATUS = {
    "bad_request": 400, "unauthorized": 401, "forbidden": 403, "unknown_session": 404, "unknown_picture": 404,
    "out_of_order": 409, "episode_over": 409, "diverged": 409, "closed": 410, "expired": 410, "lost": 410,
    "too_large": 413,
    "bad_config": 422, "too_costly": 422, "busy": 429, "full": 429, "simulator": 502, "shutting_down": 503,
}  # fmt: skip
"""Codes of failures, and the HTTP status of a request that fails as a whole."""

TRY_AGAIN = frozenset({"busy", "full", "shutting_down"})
"""Nothing was done; the same request may be sent again after a while."""


class Refused(Exception):  # noqa: N818 - it carries what is told to a client, and isn't an error of ours
    """A request is refused as a whole."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(code, message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failure.code, self.failure.message)


def _any_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it must be a string")
    return value


AnyText = Annotated[str, PlainValidator(_any_text)]
"""Pydantic's own strings refuse lone surrogates, which a model can write."""


DEPTH = 6
"""Of nested options: a list of texts is 1 deep. What is far deeper can't be handed on to a worker."""


MOST_OPTIONS = 256
"""Several times as many as any environment has. A hundred thousand held up the turns of others for 0.4 s."""


def _shallow(options: dict[str, Any]) -> dict[str, Any]:
    if len(options) > MOST_OPTIONS:
        raise ValueError(f"{len(options)} options; at most {MOST_OPTIONS}")
    level: list[Any] = [options]
    for _ in range(DEPTH):
        level = [inner for each in level if isinstance(each, dict | list)
                 for inner in (each.values() if isinstance(each, dict) else each)]  # fmt: skip
        if not level:
            return options
    raise ValueError(f"options are nested deeper than {DEPTH}")


class Item(BaseModel):
    """What every item has."""

    model_config = ConfigDict(extra="forbid", strict=True)
    session: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,64}$")]
    """Chosen by the client, unguessable."""


class Replay(BaseModel):
    """An episode that was begun elsewhere, to be played again."""

    model_config = ConfigDict(extra="forbid", strict=True)
    seed: Annotated[int, Field(ge=SEED.least, le=SEED.most)]
    """As the reset's answer named it, under `level`."""
    split: Annotated[str, Field(max_length=200)] | None = None
    replies: list[AnyText]
    mark: str
    """Of the latest answer."""


class Open(Item):
    """Make an environment, or have one again that was elsewhere."""

    env_id: Annotated[str, Field(max_length=200)]
    options: Annotated[dict[str, Any], AfterValidator(_shallow)] = {}
    """Any JSON; what may be set is `vagen_envs.permission`'s business."""
    move: Annotated[int, Field(ge=0)] | None = None
    """The last move that was answered, if the session was open before and is to go on."""
    replay: Replay | None = None


class Reset(Item):
    """Begin an episode."""

    move: Annotated[int, Field(ge=1)]
    """Counts the session's resets and steps from 1. One that is said again is not done again."""
    seed: Annotated[int, Field(ge=SEED.least, le=SEED.most)] | None = None
    split: Annotated[str, Field(max_length=200)] | None = None


class Step(Item):
    """Play a turn."""

    move: Annotated[int, Field(ge=1)]
    reply: AnyText
    after: str | None = None
    """The `mark` of the answer that it follows; a session that gave another answer since refuses it."""


VERBS: dict[str, type[Item]] = {
    "open": Open, "reset": Reset, "step": Step, "oracle": Item, "renew": Item, "close": Item,
}  # fmt: skip
_READERS = {do: TypeAdapter(list[kind]) for do, kind in VERBS.items()}  # type: ignore[valid-type]


def read_json(data: bytes | str) -> dict[str, Any]:
    """A request's object. Raises Refused."""
    try:
        said = read(data)
    except (ValueError, RecursionError) as error:
        raise Refused("bad_request", f"this is not JSON ({type(error).__name__}: {str(error)[:200]})") from None
    if not isinstance(said, dict):
        raise Refused("bad_request", f"the request is a JSON {type(said).__name__}, not an object")
    return said


def read_items(do: Any, items: Any, most: int) -> Sequence[Any]:
    """A request's items. Raises Refused."""
    if not isinstance(do, str) or do not in VERBS:
        raise Refused("bad_request", f"unknown request {str(do)[:50]!r}; known: {', '.join(VERBS)}")
    if not isinstance(items, list) or not items:
        raise Refused("bad_request", "a request has `items`, a list of at least one")
    if len(items) > most:
        raise Refused("too_large", f"{len(items)} items in one request; at most {most}: send several requests")
    try:
        return _READERS[do].validate_python(items)
    except (ValidationError, RecursionError) as error:
        raise Refused("bad_request", _said(error)) from None


def _said(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "the request is nested too deep"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, ("items", *first["loc"])))
    return f"{place}: {first['msg']}" + (f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else "")
