"""Settings that don't go together: each as its name and what it must be beside the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo.estimators import IN_GROUPS
from vagen_adapters.ppo.inherited_settings import refused_settings
from vagen_adapters.ppo.setting_types import check_entries

COUNTED = {
    "gpu_memory_utilization": Annotated[float, Field(gt=0, le=1)],
    "enable_sleep_mode": bool,
}
"""Options of vLLM that the plan of a training's memory reads."""
SERVER_OPTIONS = {"url": str, "weights_folder": str | Path | None}
"""The keywords of `VLLMServerSampler`."""

Config = Any
"""A `MultiTurnPPOConfig`, whose module imports this one."""
Conflicts = Iterator[tuple[str, str]]


def context_conflicts(config: Config) -> Conflicts:
    """What the trainer can't do of `context`, and lengths that leave no room for a prompt."""
    policy = config.context_policy
    if policy != _trainable(policy, with_reasoning=config.max_thinking_tokens > 0):
        yield (
            "context",
            "all, last:N or summary:K, answers, and reasoning= with max_thinking_tokens only: "
            "pictures stay in their observations",
        )
    most = config.max_length
    if config.max_tokens >= most:
        yield "max_tokens", f"less than max_length={most}"
    if config.max_thinking_tokens + config.max_tokens >= most:
        yield (
            "max_thinking_tokens",
            f"less than max_length={most} without max_tokens={config.max_tokens}",
        )
    if policy.summary is None:
        return
    if policy.answers:
        yield "context", "without answers beside summaries, which tell the thoughts"
    if policy.summary_tokens >= most:
        yield "context", f"with summaries of fewer than max_length={most} tokens"
    if config.advantage in ("vine", "gigpo"):
        yield (
            "context",
            f"without summaries for {config.advantage}: it compares states, and they have none",
        )


def _trainable(policy: ContextPolicy, *, with_reasoning: bool) -> ContextPolicy:
    """As much of a context policy as the trainer can carry out."""
    known = ContextPolicy(
        turns=policy.turns,
        answers=policy.answers,
        summary=policy.summary,
        summary_tokens=policy.summary_tokens,
    )
    return replace(known, reasoning=policy.reasoning) if with_reasoning else known


def conflicts(config: Config) -> Conflicts:
    """Settings that only mean something together with others, and don't here."""
    yield from refused_settings(config)
    yield from _of_groups(config)
    yield from _of_rollout_turns(config)
    yield from _of_critic_warmup(config)
    yield from _of_staleness(config)
    yield from _of_generation(config)
    yield from _of_evaluations(config)
    if not config.masks_observations:
        for name in ("ratio_level", "loss_level"):
            if getattr(config, name) == "turn":
                yield name, "token or sequence: observations are in no turn"


def _of_groups(config: Config) -> Conflicts:
    if config.episodes_per_rollout % config.group_size != 0:
        yield "episodes_per_rollout", f"a multiple of group_size={config.group_size}"
    if config.episodes_per_rollout < config.minibatches:
        yield "minibatches", f"at most episodes_per_rollout={config.episodes_per_rollout}"
    compares = config.advantage in IN_GROUPS or config.dynamic_sampling
    if compares and config.group_size <= 1:
        yield (
            "group_size",
            f"at least 2 for {config.advantage} or dynamic_sampling, which compare episodes",
        )
    if (config.continuations > 0) != (config.advantage == "vine"):
        yield "continuations", "at least 1 for vine, and 0 for other estimators"


def _of_rollout_turns(config: Config) -> Conflicts:
    if not config.rollout_turns:
        return
    if config.advantage != "dual_discount_gae":
        yield (
            "rollout_turns",
            f"0 for {config.advantage}, which takes 0 for the rest of an episode",
        )
    for name, needed in (("group_size", 1), ("dynamic_sampling", 0), ("max_staleness", 0)):
        if getattr(config, name) != needed:
            yield name, f"{needed} with rollout_turns"
    if config.context_policy.summary is not None:
        yield "context", "without summaries with rollout_turns"


def _of_critic_warmup(config: Config) -> Conflicts:
    if config.critic_warmup_rollouts and config.critic_kind == "none":
        yield "critic_warmup_rollouts", f"0: {config.advantage} has no critic"
    if config.critic_warmup_rollouts >= config.rollouts:
        yield (
            "critic_warmup_rollouts",
            f"less than rollouts={config.rollouts}, or the policy never learns",
        )


def _of_staleness(config: Config) -> Conflicts:
    if config.max_staleness > config.steps_per_rollout:
        yield "max_staleness", f"at most the {config.steps_per_rollout} updates of a rollout"
    if config.max_staleness and config.sampler_correction == "none":
        yield "max_staleness", "0 without sampler_correction"
    if config.max_staleness and config.generation != "vllm-server":
        yield (
            "max_staleness",
            "0 without generation=vllm-server: other samplers compute where updates do",
        )


def _of_generation(config: Config) -> Conflicts:
    options = config.vllm_options
    if options and config.generation == "transformers":
        yield "vllm_options", "left out without generation=vllm or generation=vllm-server"
    if config.generation == "vllm":  # what the plan counts with; vLLM looks at the others
        counted = {name: option for name, option in options.items() if name in COUNTED}
        check_entries("vllm_options", counted, COUNTED)
    if config.generation == "vllm-server":
        check_entries("vllm_options", options, SERVER_OPTIONS)


def _of_evaluations(config: Config) -> Conflicts:
    rungs = max(len(environment.difficulties) for environment in config.training_environments)
    if config.eval_rollouts and config.eval_episodes < rungs:
        yield (
            "eval_episodes",
            f"at least {rungs}, an episode for each of an environment's difficulties",
        )
