"""Agents by name: scripted ones, models, `provider:id`, `FILE.py:CLASS`, a trained model's folder,
`human:NAME`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import vagen_envs
from vagen_adapters.context import ContextPolicy
from vagen_benchmarks.agents.base import Agent
from vagen_benchmarks.agents.blind_baselines import Blind
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.custom import is_custom, load_custom
from vagen_benchmarks.agents.human import Human
from vagen_benchmarks.agents.scripted import Baseline, Oracle, Random
from vagen_benchmarks.agents.trained import Trained, is_trained
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.registration import declared

SCRIPTED: dict[str, type[Agent]] = {agent.name: agent for agent in (Oracle, Random, Blind)}
"""The agents that need no model and play everything, by name."""
HUMAN = "human:"
"""Begins the name of a person who plays in the terminal."""


@dataclass(frozen=True)
class Asked:
    """Parameters of the models. None uses the registry's value; a temperature of `"none"` uses the
    endpoint's.

    Attributes:
        sampling: fields of `Sampling`.
        headers: of each request; `$NAME` in them is taken from the environment.
        contexts: what prompts show of earlier turns; a model plays once under each.
        labelled: whether the name of a model ends with its context, as it does where there are
            several.
        patience: seconds that an outage is waited for.
        key_from: the environment variable of the key, if not the provider's own or for another host
            than its.
    """

    base_url: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    profile: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    contexts: Sequence[ContextPolicy] = (ContextPolicy(),)
    labelled: bool = False
    timeout: float = 120.0
    attempts: int = 6
    patience: float = 3600.0
    key_from: str | None = None


def make_agents(
    names: Iterable[str], asked: Asked, models: Path | None = None, baselines: Collection[str] = ()
) -> list[Agent]:
    """An agent for each name; `baselines` are the names that the run's environments offer.

    Raises:
        ProtocolError: a name isn't known, plays other environments only, or lacks its key.
    """
    registry = Registry(models)
    agents: list[Agent] = []
    for name in dict.fromkeys(names):
        agent = _without_model(name, baselines)
        agents += [agent] if agent else _models(name, asked, registry)
    return agents


def _without_model(name: str, baselines: Collection[str]) -> Agent | None:
    if name in SCRIPTED:
        return SCRIPTED[name]()
    if name.startswith(HUMAN):
        return Human(name.removeprefix(HUMAN))
    if is_custom(name):
        return load_custom(name)
    if is_trained(name):
        return Trained(name)
    return Baseline(name) if name in baselines else None


def _models(name: str, asked: Asked, registry: Registry) -> list[Agent]:
    if at_home := [
        env_id
        for env_id in vagen_envs.ENV_IDS
        if name in getattr(declared(env_id)[1], "baselines", ())
    ]:
        raise ProtocolError(
            f"the agent {name!r} plays only {', '.join(at_home)}; add --env {at_home[0]} or "
            "leave it out"
        )
    base_url = asked.base_url
    key_from = asked.key_from
    if base_url is None and name.startswith("openai:"):
        base_url = os.environ.get("OPENAI_BASE_URL")
        # As OpenAI's SDK has it, who sets this variable wants the key to go there.
        if base_url and os.environ.get("OPENAI_API_KEY"):
            key_from = key_from or "OPENAI_API_KEY"
    model = registry.find(name, base_url)
    return [
        ChatAgent(
            model,
            base_url=base_url,
            sampling=model.sampling(asked.sampling),
            profile=registry.profile(asked.profile) if asked.profile else None,
            context=context,
            labelled=asked.labelled or len(asked.contexts) > 1,
            timeout=asked.timeout,
            attempts=asked.attempts,
            patience=asked.patience,
            headers=asked.headers,
            key_from=key_from,
        )
        for context in asked.contexts
    ]
