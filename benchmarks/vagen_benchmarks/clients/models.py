"""Models and their providers: what the registry knows of each, and the client made of it."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Template
from typing import Any
from urllib.parse import urlsplit

from pydantic import HttpUrl, ValidationError

from vagen_benchmarks.clients.base import Client, Sampling
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.redaction import note_headers, note_secret, note_url, withheld_names
from vagen_rewards.usage import Price

CLIENTS = {
    "openai": ("OpenAIClient", "bench", "openai"),
    "openai_responses": ("OpenAIResponsesClient", "bench", "openai"),
    "anthropic": ("AnthropicClient", "anthropic", "anthropic"),
    "transformers": ("TransformersClient", "transformers", "transformers"),
    "gemini": ("GeminiClient", "gemini", "google.genai"),
}
"""Class, extra and SDK of each client, whose module in `clients/` is imported when one is made."""


@dataclass(frozen=True)
class Provider:
    """Where models are.

    Attributes:
        client: one of `CLIENTS`.
        key: the environment variable that holds the key.
        key_required: whether it must be set.
        key_header: the header that carries it, if not the one of the provider's SDK.
        token_field: the request's name for the limit of tokens, if not the client's own.
        hosts: domains that the key is sent to; any where there are none. Another host gets one if
            it is asked for.
        example_url: what an address looks like where each user has another, which must be given.
    """

    name: str
    client: str
    key: str = ""
    key_required: bool = False
    base_url: str | None = None
    token_field: str | None = None
    key_header: str | None = None
    hosts: Sequence[str] = ()
    example_url: str | None = None

    def owns(self, url: str | None) -> bool:
        """Whether the key may be sent to an address without being asked for."""
        if url is None or not self.hosts:
            return True
        host = urlsplit(url).hostname or ""
        return any(host == each or host.endswith(f".{each}") for each in self.hosts)


@dataclass(frozen=True)
class Profile:
    """How a model writes its replies, as far as its tokens and its server have a say in it.

    Attributes:
        options: of the environment: tags and layout. What a run asks of an environment itself goes
            before them.
        hidden: whether reasoning in a field of its own counts as the thought. Earlier replies are
            then sent without it.
    """

    name: str = "tagged"
    options: Mapping[str, Any] = field(default_factory=dict)
    hidden: bool = False


@dataclass(frozen=True)
class Model:
    """A model at a provider.

    Attributes:
        name: what results call it: its name in the registry, or `provider:id`.
        id: what its provider calls it.
        profile: how it writes.
        max_tokens: of a reply, where nothing else is asked for.
        reasoning_tokens: what it may think beyond its reply, where nothing else is asked for.
        temperature: where nothing else is asked for; `False` for a model that takes none.
        effort: how hard it thinks, where nothing else is asked for.
        extra: further fields of a request.
        price: `None` if unknown.
    """

    name: str
    provider: Provider
    id: str
    profile: Profile = Profile()
    max_tokens: int | None = None
    reasoning_tokens: int = 0
    temperature: float | bool | None = None
    effort: str | None = None
    extra: Mapping[str, Any] | None = None
    price: Price | None = None

    def sampling(self, asked: Mapping[str, Any] | None = None) -> Sampling:
        """Return the given value, else the model's, else the endpoint's.

        Args:
            asked: fields of `Sampling`; `None` leaves one to the model, a temperature of `"none"`
                to the endpoint.
        """
        given = {name: value for name, value in (asked or {}).items() if value is not None}
        own = {
            "max_tokens": self.max_tokens or Sampling.max_tokens,
            "reasoning_tokens": self.reasoning_tokens,
        }
        heat = {} if isinstance(self.temperature, bool) else {"temperature": self.temperature}
        sampling = {**own, **heat, "effort": self.effort, **given}
        if sampling.get("temperature") == "none":
            sampling["temperature"] = None
        if self.temperature is False:
            sampling.update(temperature=None, top_p=None)
        own_extra = dict(self.extra or {})
        asked_extra = {
            name: value
            for name, value in given.get("extra", {}).items()
            # A run folder doesn't hold the secrets of a model's own fields; the registry does.
            if not (name in own_extra and any(withheld_names(value)))
        }
        return Sampling(**{**sampling, "extra": {**own_extra, **asked_extra} or None})

    def key(self, base_url: str | None = None, key_from: str | None = None) -> str:
        """The key from the environment, empty for a host that isn't its provider's.

        Args:
            base_url: where it would be sent.
            key_from: another variable that holds it, or the provider's own for a host that isn't
                its provider's.

        Raises:
            ProtocolError: it must be there and isn't.
        """
        variable = key_from or self.provider.key
        key = os.environ.get(variable, "")
        note_secret(variable, key)
        is_sent = key_from is not None or self.provider.owns(base_url)
        if not key and is_sent and (key_from or self.provider.key_required):
            raise ProtocolError(f"{self.name} needs a key: set the environment variable {variable}")
        return key if is_sent else ""

    def withheld_key(self, base_url: str | None, key_from: str | None) -> str:
        """What to say where a key is set and isn't sent; empty otherwise."""
        variable = self.provider.key
        if key_from or self.provider.owns(base_url) or not os.environ.get(variable):
            return ""
        host = urlsplit(base_url or "").hostname
        return f"{variable} isn't sent to {host}; --key-from {variable} sends it"

    def client(
        self,
        base_url: str | None,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        key_from: str | None = None,
    ) -> Client:
        """A client of it. Raises ProtocolError if its extra or its key is missing, or the URL isn't
        one.
        """
        if base_url is None and self.provider.example_url:
            raise ProtocolError(
                f"{self.name} needs its address: --base-url, such as {self.provider.example_url}"
            )
        name, extra, _ = CLIENTS[self.provider.client]
        try:
            made = getattr(
                importlib.import_module(f"vagen_benchmarks.clients.{self.provider.client}_client"),
                name,
            )
        except ImportError as error:
            missing = getattr(error, "missing", "") or error.name
            raise ProtocolError(
                f"{self.name} needs the Python module {missing!r}, which is not installed. "
                f'Install it with: pip install "vagen-envs[{extra}]"'
            ) from error
        more: dict[str, Any] = (
            {"token_field": self.provider.token_field} if self.provider.token_field else {}
        )
        key = self.key(base_url, key_from)
        headers = expanded(headers or {})
        if self.provider.key_header and key:
            headers[self.provider.key_header] = key
        note_headers(headers)
        url = checked_url(base_url or self.provider.base_url)
        client: Client = made(
            self.id, key=key, base_url=url, timeout=timeout, headers=headers, **more
        )
        return client


def expanded(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with `$NAME` in their values replaced from the environment. Raises ProtocolError for
    what isn't set.
    """
    try:
        return {name: Template(value).substitute(os.environ) for name, value in headers.items()}
    except (KeyError, ValueError) as error:
        raise ProtocolError(
            f"a header names an environment variable that isn't set ({error}); set it, or write "
            "$$ for a dollar sign"
        ) from error


def checked_url(url: str | None) -> str | None:
    """Return the URL if it is valid. Raises ProtocolError otherwise."""
    note_url(url)
    try:
        if url is not None:
            HttpUrl(url)
        return url
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        shown = re.sub(r"//[^/]*@", "//", url or "").partition("?")[0]
        raise ProtocolError(
            f"the URL {shown!r} is not valid: {why}; write it like http://localhost:8000/v1"
        ) from error
