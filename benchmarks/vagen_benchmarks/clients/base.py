"""What every client does, and the errors that providers' SDKs have in common."""

from __future__ import annotations

import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

from vagen_adapters.context import Message
from vagen_adapters.message_parts import PictureForm
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.redaction import redact
from vagen_benchmarks.stop_reasons import Stop, is_permanent, recognise

Ending = Literal["stop", "cut", "refused", "filtered", "overflow", "empty"]
"""How a reply came to its end: by itself, at its limit of tokens, as a refusal, taken or cut by the
provider's filter, where the context was full, or before it began. Each is played as the reply it
is; those of `stop_reasons.ENDING_STOPS` end the episode."""


@dataclass(frozen=True)
class Sampling:
    """How a model is sampled.

    Attributes:
        max_tokens: of a reply; VAGEN's table 21, the larger of its two limits.
        reasoning_tokens: what a thinking model may spend before its reply; its request's limit is
            the sum.
        temperature, top_p, effort: left to the endpoint where `None`.
        seed: of the endpoint's sampling, for the first of an episode's repeats; each further one
            adds 1.
        extra: further fields of the request, as the provider names them.
    """

    max_tokens: int = 400
    temperature: float | None = None
    top_p: float | None = None
    extra: Mapping[str, Any] | None = None
    reasoning_tokens: int = 0
    effort: str | None = None
    seed: int | None = None

    def chosen(self) -> dict[str, float]:
        wanted = {"temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in wanted.items() if value is not None}

    @property
    def limit(self) -> int:
        """Tokens of the reply and of the reasoning before it."""
        return self.max_tokens + self.reasoning_tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote. Tokens are `None` where the endpoint doesn't say.

    Attributes:
        prompt_tokens: of everything asked, those of the cache included.
        completion_tokens: of everything written, hidden reasoning included.
        reasoning: a thinking model's hidden reasoning, if the endpoint shows it.
        cached_tokens: of the prompt, read from a cache.
        cache_write_tokens: of the prompt, written to one.
        reasoning_tokens: of what was written, hidden reasoning.
        hidden: JSON. The reply with its hidden reasoning as the provider gave it, which the same
            client takes back under `vagen_adapters.context.HIDDEN` of a message; `None` if there is
            no reasoning or no reply.
        served: the model that answered, as the endpoint names it.
        fingerprint: the endpoint's name for the state of that model or for the provider behind it.
        said: the endpoint's words for an ending that it told by an HTTP status.
    """

    text: str
    ending: Ending
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning: str | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    hidden: Any = None
    served: str | None = None
    fingerprint: str | None = None
    said: str | None = None


class Client(ABC):
    """A model at a provider.

    Attributes:
        pictures: the form in which messages hold pictures.
    """

    pictures: ClassVar[PictureForm] = "data_url"

    @abstractmethod
    async def ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        """One request. Raises EndpointError for whatever isn't an answer."""

    def check(self, sampling: Sampling) -> None:  # noqa: B027  (most take everything)
        """Raise ProtocolError for what can't be asked of this provider."""

    def check_reasoning(self) -> None:  # noqa: B027  (most return it)
        """Raise ProtocolError if this provider doesn't return hidden reasoning that could be sent
        back.
        """

    async def close(self) -> None:  # noqa: B027  (a model in this process has no connection)
        """Cut what is under way."""


LONGEST_MESSAGE = 1000
"""Characters of an error that are kept."""


def in_a_line(text: str) -> str:
    """An error's words as one line, which isn't endless."""
    text = " ".join(redact(text)[: 10 * LONGEST_MESSAGE].split())
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + "…"


PASSING = frozenset({401, 403, 404, 409, 425})
"""Statuses of a refusal that may pass: a gateway that restarts or has lost its route answers for a
moment with 401, 403 or 404. 409 is retried by OpenAI's own client; 425 is RFC 8470's `Too
Early`."""


def status_error(
    status: int, message: str, headers: Mapping[str, str], *, body: str = ""
) -> EndpointError:
    """The error for an HTTP status, or the stop reason that its `body` means. APIs answer in JSON;
    pages are a proxy's.

    A refusal (`REJECTED`, `PROXY`) with `retry` is worth a second request, not the waiting that an
    outage is.
    """
    words = f"HTTP {status}: {in_a_line(message)}"
    full = body or message
    is_page = body.lstrip().startswith("<")
    if (kind := recognise(status, full)) or is_permanent(full):
        return EndpointError(kind or Stop.REJECTED, words, retry=False, status=status)
    if status in (408, 504):
        kind = Stop.TIMEOUT
    elif status == 429:
        kind = Stop.RATE_LIMITED
    elif status >= 500 or status in (
        498,
        499,
    ):
        # Groq's for no capacity, Google's for a request that it cancelled.
        kind = Stop.SERVER_ERROR
    else:
        # 413 is nginx's for what is larger than its limit: the next request is as large.
        retry = status in PASSING or (is_page and status != 413)
        return EndpointError(
            Stop.PROXY if is_page else Stop.REJECTED, words, retry=retry, status=status
        )
    after = retry_after(headers)
    return EndpointError(
        kind, words, after=retry_delay(body) if after is None else after, status=status
    )


_DELAY = re.compile(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')


def retry_delay(body: str) -> float | None:
    """Seconds that Google's `RetryInfo` asks to wait, in the body of an error
    (google.rpc.RetryInfo).
    """
    found = _DELAY.search(body)
    return float(found[1]) if found else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds an endpoint asks to wait: `retry-after-ms`, `retry-after` in seconds or as a date
    (RFC 9110, 10.2.3).
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    then = _date(headers.get("retry-after"))
    if then is None:
        return None
    # By the endpoint's own clock, where it tells it.
    now = _date(headers.get("date")) or datetime.now(UTC)
    return max(0.0, (then - now).total_seconds())


def _date(text: str | None) -> datetime | None:
    """An HTTP date, `None` if it is none."""
    try:
        made = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return made if made.tzinfo else made.replace(tzinfo=UTC)


MOST_TOKENS = 2**53
"""A larger count of tokens, or a negative one, is taken as missing."""


def count(usage: Any, *names: str) -> int | None:
    """A number of tokens, by the names that lead to it; `None` if the endpoint gives none."""
    for name in names:
        usage = usage.get(name) if isinstance(usage, dict) else None
    if isinstance(usage, bool) or not isinstance(usage, int) or not 0 <= usage < MOST_TOKENS:
        return None
    return usage


LONGEST_NAME = 200
"""Characters of the names of models."""


def name_in(data: Any, *fields: str) -> str | None:
    """The names in these fields of an answer, with spaces between; `None` if it has none of
    them.
    """
    names = [data.get(field) for field in fields]
    return " ".join(name[:LONGEST_NAME] for name in names if isinstance(name, str) and name) or None


FINISH: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parent / "finish_reasons.toml").read_text(encoding="utf-8")
)
"""Providers' words for how a reply ended, by what they mean."""


def ending_of(text: str, *finish: Any, refused: bool = False, filtered: bool = False) -> Ending:
    """How a reply ended.

    Args:
        text: of the reply.
        finish: the provider's words for it; a router also hands on those of the provider behind it.
        refused: whether a field says so.
        filtered: whether metadata says so, which matters where there is no text.
    """
    words = {str(word).lower() for word in finish}
    named: tuple[Ending, ...] = ("refused", "filtered", "overflow", "cut")
    found = next((ending for ending in named if words.intersection(FINISH[ending])), None)
    if refused or found == "refused":
        return "refused"
    if found is not None:
        return found
    if text.strip():
        return "stop"
    return "filtered" if filtered else "empty"


def says_filtered(metadata: Any) -> bool:
    """Whether metadata has `"filtered": true` anywhere, as Azure's content filter results do."""
    if isinstance(metadata, Mapping):
        is_so = metadata.get("filtered") is True
        return is_so or any(says_filtered(each) for each in metadata.values())
    return isinstance(metadata, list) and any(says_filtered(each) for each in metadata)


_SURROGATE = re.compile("[\ud800-\udfff]")


def encodable(value: Any) -> Any:
    """JSON with U+FFFD for lone surrogates, which a model can write and UTF-8 can't encode."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {name: encodable(entry) for name, entry in value.items()}
    return [encodable(entry) for entry in value] if isinstance(value, list) else value
