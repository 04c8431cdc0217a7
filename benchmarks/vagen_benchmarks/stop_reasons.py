"""Why an episode ended, and how to tell it from a provider's error."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from vagen_benchmarks.phrases import Phrase, plain_words, says

PROVIDERS = Path(__file__).parent / "provider_errors.toml"
"""What providers say when a model ran into something, each with its source."""
LONGEST_BODY = 20_000
"""Characters of an error that are read."""
NEVER = frozenset({401, 402, 404, 408, 429})
"""HTTP statuses of the key, the account, the address, the clock and the rate: never the model's
doing.
"""


class Stop(StrEnum):
    """Why an episode has no further turn. Those that `counts` have a score; the others failed and
    bound it.
    """

    SOLVED = "solved"
    LOST = "lost"
    """Ended unsolved by the environment's rules."""
    BUDGET = "budget"
    """Unsolved when the environment's turns or actions were spent."""
    CONTEXT = "overflow"
    """The history didn't fit into the model any more: its tokens, its pictures or its bytes."""
    FILTERED = "filtered"
    """The provider's filter took the prompt, or took or cut the reply."""
    REFUSED = "refused"
    """The provider refused the prompt by its usage policy, or the model refused to answer it."""
    GIVEN_UP = "given up"
    """The player left, as a person may."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    NONSENSE = "nonsense"
    """Something that isn't an answer."""
    REJECTED = "rejected"
    """A 4xx that is none of the endings above."""
    PROXY = "proxy"
    """A 4xx with a web page: what stands before the model refused, as nginx does what is larger
    than its limit.
    """
    SPENT = "spent"
    """The run's dollars or tokens didn't allow another request."""
    AGENT = "agent"
    """The agent raised an error."""
    ENVIRONMENT = "environment"
    """The environment broke."""

    @property
    def counts(self) -> bool:
        """Whether the episode is scored: solved as what it is, and everything else that the player
        ran into not.
        """
        return self in _COUNTS


_COUNTS = frozenset(
    {Stop.SOLVED, Stop.LOST, Stop.BUDGET, Stop.CONTEXT, Stop.FILTERED, Stop.REFUSED, Stop.GIVEN_UP}
)


ENDING_STOPS = {"filtered": Stop.FILTERED, "refused": Stop.REFUSED, "overflow": Stop.CONTEXT}
"""The endings of a reply that end its episode, whether a status, a finish reason, a field or
metadata says so.
"""


def recognise(status: int, body: str) -> Stop | None:
    """The ending that an endpoint's error means, or `None` if it is an error and nothing else.

    What all providers say is tried: a proxy passes on the words of whoever stands behind it.

    Args:
        status: of the HTTP response.
        body: of the response, as it came.
    """
    if status in NEVER:
        return None
    first = _first("error", body)
    return None if first is None else Stop(first["stop"])


def is_permanent(body: str) -> bool:
    """Return whether retrying can't help, whatever the status, as without credit or image
    support.
    """
    return _first("permanent", body) is not None


_PICTURES = re.compile(r"\b(image|picture|photo|media|multimodal|multi-modal)s?\b", re.IGNORECASE)


def is_about_pictures(words: str) -> bool:
    """Whether an error that means a full context is about pictures rather than tokens."""
    return _PICTURES.search(words) is not None


def _first(kind: str, body: str) -> dict[str, Any] | None:
    """The first entry of a kind in the file that fits a body."""
    body = body[:LONGEST_BODY]
    codes = {*_values(body)}
    messages = [plain_words(message) for message in _messages(body)]
    return next((entry for entry in _known()[kind] if _fits(entry, codes, messages)), None)


def _fits(entry: dict[str, Any], codes: set[str], messages: list[str]) -> bool:
    whole = "".join(messages)
    if says(whole, entry.get("unless", ())):
        return False
    if not codes.isdisjoint(entry.get("codes", ())) or says(whole, entry.get("says", ())):
        return True
    lists = entry.get("one_of_each", [[]])  # of none, no message has a phrase
    return any(_says_each(message, lists) for message in messages)


def _says_each(message: str, lists: list[list[Phrase]]) -> bool:
    return all(says(message, phrases) for phrases in lists)


@functools.cache
def _known() -> dict[str, list[dict[str, Any]]]:
    """The entries of the file by kind."""
    return tomllib.loads(PROVIDERS.read_text(encoding="utf-8"))


def _messages(body: str) -> list[str]:
    """The texts of a body that its quotes and its lines part."""
    plain = body.replace('\\"', "").replace("\\\\", "").replace("\\n", "\n").replace("\\u0027", "'")
    return re.split(r'["\n]', plain)


def _values(body: str) -> Iterator[str]:
    """Every `code`, `type`, `reason` and `status` within a JSON body, and in JSON that it
    quotes.
    """
    waiting: list[Any] = [body]
    while waiting:
        data = waiting.pop()
        if isinstance(data, str) and data.lstrip()[:1] in ("{", "[", '"'):
            with contextlib.suppress(ValueError, RecursionError):
                waiting.append(json.loads(data))
        elif isinstance(data, list):
            waiting += data
        elif isinstance(data, dict):
            waiting += data.values()
            yield from (
                data[name]
                for name in ("code", "type", "reason", "status")
                if isinstance(data.get(name), str)
            )
