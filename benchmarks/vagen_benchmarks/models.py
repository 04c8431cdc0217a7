"""The registry of models: names, providers, limits and prices, from `models.toml` and the user's own file."""

from __future__ import annotations

import importlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from vagen_benchmarks.clients.base import Client, Sampling
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.errors import did_you_mean

CLIENTS = {
    "openai": ("OpenAIClient", "bench", "openai"),
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
    """

    name: str
    client: str
    key: str = ""
    key_required: bool = False
    base_url: str | None = None
    token_field: str | None = None


@dataclass(frozen=True)
class Model:
    """A model at a provider.

    Attributes:
        name: what results call it: its name in the registry, or `provider:id`.
        id: what its provider calls it.
        max_tokens: of a reply, where nothing else is asked for.
        temperature: where nothing else is asked for; `False` for a model that takes none.
        extra: further fields of a request.
        price: US dollars per million tokens of input and of output, as of `price_date`; `None` if unknown.
    """

    name: str
    provider: Provider
    id: str
    max_tokens: int | None = None
    temperature: float | bool | None = None
    extra: Mapping[str, Any] | None = None
    price: tuple[float, float] | None = None
    price_date: date | None = None

    def sampling(self, max_tokens: int | None, temperature: float | None, top_p: float | None = None) -> Sampling:
        """What was asked for, else the model's own, else the defaults of `Sampling`."""
        own = 0.7 if self.temperature is None or self.temperature is True else self.temperature
        chosen = temperature if temperature is not None else own
        return Sampling(
            max_tokens=max_tokens or self.max_tokens or Sampling.max_tokens,
            temperature=None if self.temperature is False else chosen,
            top_p=top_p,
            extra=self.extra,
        )

    def key(self) -> str:
        """The key from the environment. Raises ProtocolError if it must be there and isn't."""
        key = os.environ.get(self.provider.key, "")
        if not key and self.provider.key_required:
            raise ProtocolError(f"{self.name} needs a key: set the environment variable {self.provider.key}")
        return key

    def client(self, base_url: str | None, timeout: float) -> Client:
        """A client of it. Raises ProtocolError if its extra or its key is missing."""
        name, extra, _ = CLIENTS[self.provider.client]
        try:
            made = getattr(importlib.import_module(f"vagen_benchmarks.clients.{self.provider.client}_client"), name)
        except ImportError as error:
            raise ProtocolError(
                f"{self.name} needs the Python module {error.name!r}. "
                f'Install it with: pip install "vagen-envs[{extra}]"'
            ) from error
        more = {"token_field": self.provider.token_field} if self.provider.token_field else {}
        client: Client = made(
            self.id, key=self.key(), base_url=base_url or self.provider.base_url, timeout=timeout, **more
        )
        return client


class Registry:
    """Known providers and models.

    Args:
        own: a file of the user's whose entries are added, over those of the same name.

    Raises:
        ProtocolError: the file can't be read or isn't a registry.
    """

    def __init__(self, own: Path | None = None) -> None:
        self.providers: dict[str, Provider] = {}
        self.models: dict[str, Model] = {}
        for path in filter(None, (Path(__file__).parent / "models.toml", own)):
            try:
                self._add(tomllib.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                raise ProtocolError(f"{path} is not a registry of models: {error}") from error

    def _add(self, data: Mapping[str, Any]) -> None:
        for name, fields in data.get("providers", {}).items():
            if fields["client"] not in CLIENTS:
                raise ValueError(
                    f"provider {name!r} has client {fields['client']!r}.{did_you_mean(fields['client'], CLIENTS)}"
                )
            self.providers[name] = Provider(name, **fields)
        for name, fields in data.get("models", {}).items():
            price = tuple(fields["price"]) if "price" in fields else None
            self.models[name] = Model(
                name, **{**fields, "provider": self.providers[fields["provider"]], "price": price}
            )

    def find(self, name: str, base_url: str | None = None) -> Model:
        """The model of a name, or of `provider:id`. An own `base_url` needs no key of the provider.

        Raises:
            ProtocolError: neither is known.
        """
        if name in self.models:
            return self.models[name]
        provider, found, model_id = name.partition(":")
        if found and model_id and provider in self.providers:
            where = self.providers[provider]
            if base_url and where.client == "openai":  # a server of one's own that speaks like OpenAI
                where = Provider(where.name, where.client, where.key, base_url=base_url)
            return Model(name, where, model_id)
        known = [*self.models, *(f"{name}:MODEL" for name in self.providers)]
        raise ProtocolError(f"unknown agent {name!r}.{did_you_mean(name, ['oracle', 'random', 'tiny', *known])}")
