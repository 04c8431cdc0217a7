"""Agents by name: `oracle`, `random`, `tiny`, a model of the registry, or `provider:id`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vagen_benchmarks.agents import SCRIPTED, Agent
from vagen_benchmarks.models import Registry
from vagen_envs.chat import History


@dataclass(frozen=True)
class Asked:
    """What is asked of the models; `None` leaves it to the registry."""

    base_url: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    history: History = History()  # noqa: RUF009  (frozen)
    timeout: float = 120.0
    attempts: int = 6


def make_agents(names: Iterable[str], asked: Asked, models: Path | None = None) -> list[Agent]:
    """An agent for each name. Raises ProtocolError for a name that isn't known or a key that is missing."""
    registry = Registry(models)
    return [_make(name, asked, registry) for name in dict.fromkeys(names)]


def _make(name: str, asked: Asked, registry: Registry) -> Agent:
    if name in SCRIPTED:
        return SCRIPTED[name]()
    if name == "tiny":
        from vagen_benchmarks.tiny_agent import Tiny

        return Tiny()
    from vagen_benchmarks.chat_agent import ChatAgent

    base_url = asked.base_url
    if base_url is None and name.startswith("openai:"):
        base_url = os.environ.get("OPENAI_BASE_URL")
    model = registry.find(name, base_url)
    return ChatAgent(
        model,
        base_url=base_url,
        sampling=model.sampling(asked.max_tokens, asked.temperature, asked.top_p),
        history=asked.history,
        timeout=asked.timeout,
        attempts=asked.attempts,
    )
