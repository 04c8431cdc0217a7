"""What every client does, and the errors that providers' SDKs have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from vagen_benchmarks.endings import Stop, recognise
from vagen_benchmarks.errors import EndpointError
from vagen_envs.chat import Message, PictureForm

Ending = Literal["stop", "length", "refusal", "filtered", "empty"]
"""How a reply came to its end: by itself, at the limit of tokens, as a refusal, cut by the provider's filter,
or before it began. Each is played as the reply it is."""


@dataclass(frozen=True)
class Sampling:
    """How a model is sampled. The defaults are VAGEN's table 21, with the larger of its two token limits.

    Attributes:
        max_tokens: of a reply.
        temperature, top_p: left to the endpoint where `None`.
        extra: further fields of the request, as the provider names them.
    """

    max_tokens: int = 400
    temperature: float | None = 0.7
    top_p: float | None = None
    extra: Mapping[str, Any] | None = None

    def chosen(self) -> dict[str, float]:
        """Those of temperature and top_p that are set."""
        wanted = {"temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in wanted.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote. Tokens are `None` where the endpoint doesn't say.

    Attributes:
        reasoning: a thinking model's hidden reasoning, if the endpoint shows it.
    """

    text: str
    ending: Ending
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning: str | None = None


class Client(ABC):
    """A model at a provider.

    Attributes:
        pictures: the form in which messages hold pictures.
        heard: called with the headers of each response, for rate limits.
    """

    pictures: ClassVar[PictureForm] = "data_url"
    heard: Callable[[Mapping[str, str]], None] = staticmethod(lambda _: None)

    @abstractmethod
    def ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        """One request. Raises EndpointError for whatever isn't an answer."""

    def close(self) -> None:  # noqa: B027  (a model in this process has no connection)
        """Cut what is under way."""


def status_error(
    status: int, message: str, headers: Mapping[str, str], *, body: str = "", final: bool = False
) -> EndpointError:
    """The error for an HTTP status, or the ending that its `body` means.

    `final` says that trying again won't help, whatever the status.
    """
    if ending := recognise(status, body or message):
        return EndpointError(ending, f"HTTP {status}: {message}", retry=False)
    kind = Stop.REJECTED
    if status in (408, 504):
        kind = Stop.TIMEOUT
    elif status == 429:
        kind = Stop.RATE_LIMITED
    elif status >= 500:
        kind = Stop.SERVER_ERROR
    retry = (kind is not Stop.REJECTED or status in (409, 425)) and not final
    return EndpointError(kind, f"HTTP {status}: {message}", retry=retry, after=retry_after(headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds an endpoint asks to wait: `retry-after-ms`, or `retry-after` in seconds."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return float(headers[name]) / unit
        except (KeyError, ValueError):
            continue
    return None


def count(usage: Any, name: str) -> int | None:
    """A number of tokens, `None` if the endpoint gives none."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) else None


def ending_of(finish: Any, text: str, *, length: str, filtered: tuple[str, ...], refused: bool) -> Ending:
    """How a reply ended, from the provider's words for it."""
    if refused:
        return "refusal"
    if finish == length:
        return "length"
    if finish in filtered:
        return "filtered"
    return "stop" if text else "empty"
