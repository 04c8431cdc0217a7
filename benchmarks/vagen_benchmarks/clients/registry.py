"""The registry of models: names, providers, profiles, limits and prices, from `models.toml` and the
user's own file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vagen_benchmarks.clients.models import CLIENTS, Model, Profile, Provider
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.errors import did_you_mean
from vagen_rewards.usage import Price


class Registry:
    """Known providers and models.

    Args:
        own: a file of the user's whose entries are added, over those of the same name.

    Raises:
        ProtocolError: the file can't be read or isn't a registry.
    """

    def __init__(self, own: Path | None = None) -> None:
        self.providers: dict[str, Provider] = {}
        self.profiles: dict[str, Profile] = {}
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
                    f"provider {name!r} has client "
                    f"{fields['client']!r}.{did_you_mean(fields['client'], CLIENTS)}"
                )
            self.providers[name] = Provider(name, **fields)
        for name, fields in data.get("profiles", {}).items():
            self.profiles[name] = Profile(name, **fields)
        for name, fields in data.get("models", {}).items():
            objects = {
                "provider": self.providers[fields["provider"]],
                "profile": self.profile(fields.get("profile", "tagged")),
                "price": Price(**fields["price"]) if "price" in fields else None,
            }
            self.models[name] = Model(name, **{**fields, **objects})

    def profile(self, name: str) -> Profile:
        """The profile of a name. Raises ProtocolError if there is none."""
        if name not in self.profiles:
            raise ProtocolError(f"unknown profile {name!r}.{did_you_mean(name, self.profiles)}")
        return self.profiles[name]

    def find(self, name: str, base_url: str | None = None) -> Model:
        """The model of a name, or of `provider:id`, to which nothing is sent that wasn't asked for.

        An own `base_url` needs no key of OpenAI's.

        Raises:
            ProtocolError: neither is known.
        """
        if name in self.models:
            return self.models[name]
        provider, found, model_id = name.partition(":")
        if found and model_id and provider in self.providers:
            where = self.providers[provider]
            # A server of one's own that speaks like OpenAI needs no key.
            if base_url and where.client in ("openai", "openai_responses"):
                where = replace(where, key_required=where.example_url is not None)
            return Model(name, where, model_id)
        if name.endswith(".py"):
            raise ProtocolError(
                f"agent {name!r} is a file; name the class or function in it, as in {name}:MyAgent"
            )
        if Path(name).is_dir():
            raise ProtocolError(
                f"agent {name!r} is a folder without a model's config.json; name one of vagen train"
            )
        if base_url and not found:
            raise ProtocolError(
                f"unknown agent {name!r}. A model at --base-url is named openai:{name}"
            )
        known = [*self.models, *(f"{name}:MODEL" for name in self.providers)]
        meant = did_you_mean(name, ["oracle", "random", *known])
        raise ProtocolError(
            f"unknown agent {name!r}.{meant} An agent of your own is named FILE.py:NAME"
        )
