"""Dataset rows that name a level, and the environments that such rows ask for."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import gymnasium as gym

from vagen_adapters.context import ContextPolicy, Message
from vagen_adapters.ends import without_checks
from vagen_adapters.permission import option_names, permitted
from vagen_adapters.prompt_check import prompt_hash, require_prompt_of
from vagen_envs.bounds import Whole
from vagen_envs.config import plain_integer
from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError, shown
from vagen_envs.seeding import Split
from vagen_rewards import with_reasoning

TRUST_ROWS = "VAGEN_TRUST_ROWS"
"""Environment variable: set it to `1` to let rows set any option, name any judge and import any
module.
"""
SAFE_JUDGES = (None, "rule")
"""Judges that a row may name: they read no file and open no connection."""

GENERATED = 100
"""Default number of rows where levels are generated."""


def make_from_row(
    env_id: str,
    options: Mapping[str, Any] | None,
    reasoning: Mapping[str, Any] | None = None,
    prompt_hash: str | None = None,
) -> gym.Env[Any, Any]:
    """Make the environment of a row, without Gymnasium's wrappers but its limit of steps, with the
    reasoning reward that the row asks for.

    Rows are untrusted input. They may name ids that are registered or whose module is already
    imported, and set the options that remote clients may set, within the same bounds.
    `VAGEN_TRUST_ROWS=1` in the environment of the reading processes lifts these limits.

    Values that are None, as empty parquet columns give them, are left out.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`.
        options: for `gym.make`.
        reasoning: as for `vagen_rewards.with_reasoning`.
        prompt_hash: what the row's prompt says, see `vagen_adapters.prompt_check`. None isn't
            compared.

    Raises:
        ConfigError: the row asks for something it may not. Nothing was made, opened or imported. Or
            its prompt is that of another environment, as after a change of the prompt pack.
    """
    given = {name: _plain(value) for name, value in (options or {}).items() if value is not None}
    made = _made(env_id, given, reasoning)
    require_prompt_of(made, env_id, prompt_hash, given)
    return made


def _made(
    env_id: str, given: Mapping[str, Any], reasoning: Mapping[str, Any] | None
) -> gym.Env[Any, Any]:
    if reasoning is not None:
        reasoning = {name: value for name, value in reasoning.items() if value is not None}
    if os.environ.get(TRUST_ROWS) == "1":
        return with_reasoning(without_checks(gym.make(env_id, **given)), reasoning)
    module = env_id.rpartition(":")[0]
    if module and module not in sys.modules:
        raise ConfigError(
            f"a row's environment {env_id[:80]!r} would import {module[:80]!r}; import that "
            f"module first, {_TRUST}"
        )
    if reasoning is not None and (
        reasoning.get("judge") not in SAFE_JUDGES or reasoning.get("llm")
    ):
        raise ConfigError(
            f"a row's judge {str(reasoning.get('judge'))[:80]!r} may open connections; leave it "
            f"out, {_TRUST}"
        )
    try:
        allowed = permitted(env_id, given, {})
        made = without_checks(gym.make(env_id, disable_env_checker=True, **allowed))
    except ConfigError as error:
        raise ConfigError(
            f"a row of the dataset is not allowed: {error} (change the rows, {_TRUST})"
        ) from None
    return with_reasoning(made, reasoning)


def levels(
    env_id: str,
    *,
    split: Split = "train",
    first_seed: int = 0,
    num_levels: int | None = None,
    reasoning: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[tuple[list[Message], dict[str, Any]]]:
    """Yield the prompt and the row of each level; row `i` is the level of seed `first_seed + i`.

    Seed `i` of published data is its level `i`, so the default rows play every level of the split
    once, in order.

    The adapters' own `levels` functions take the same arguments and bring each row into their
    library's layout.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`.
        split: `"train"`, `"val"` or `"test"`; splits share no level.
        first_seed: at least 0.
        num_levels: number of rows; by default 100, or all levels of published data.
        reasoning: options of `vagen_rewards.ReasoningReward`, which adds the reasoning reward to
            the environment's reward. None adds nothing.
        options: for `gym.make`.

    Yields:
        The system prompt as a list of messages, and the arguments of `make_from_row` and of
        `reset`.

    Raises:
        ConfigError: the split of published data has fewer levels.
    """
    check_names(env_id, options, levels)
    with contextlib.closing(gym.make(env_id, split=split, **options)) as made:
        env = cast(VagenEnv, made.unwrapped)
        prompt: list[Message] = [{"role": "system", "content": env.system_prompt}]
        says = prompt_hash(env.system_prompt)
        seeds = seeds_of(env, first_seed, num_levels)
    asked = {} if reasoning is None else {"reasoning": dict(reasoning)}
    for seed in seeds:
        row = {"env_id": env_id, "split": split, "seed": seed, "options": options}
        yield prompt, {**row, "prompt_hash": says, **asked}


def check_names(env_id: str, options: Iterable[str], called: Callable[..., Any]) -> None:
    """Raise ConfigError for an unknown id, and for an option that misspells an argument of the
    function `called`.

    The environment would suggest an option of its own: `level` for `num_level`.
    """
    known = option_names(env_id)
    own = {
        name
        for name, each in inspect.signature(called).parameters.items()
        if each.kind is not each.VAR_KEYWORD
    }
    for name in set(options) - known:
        if (meant := difflib.get_close_matches(name, own | known, 1)) and meant[0] in own:
            raise ConfigError(f"{env_id}: unknown option {name!r}. Did you mean {meant[0]!r}?")


def seeds_of(env: VagenEnv, first_seed: int, num_levels: int | None) -> range:
    """Return the seeds of `num_levels` levels of the configured split, see `levels`."""
    count = env.level_count
    for name, value in (
        ("first_seed", first_seed),
        ("num_levels", 1 if num_levels is None else num_levels),
    ):
        if not Whole().admits(plain_integer(value)):
            raise ConfigError(
                f"{env.id}: {name}={shown(value)} is not valid: it must be an integer"
            )
    if num_levels is None:
        num_levels = GENERATED if count is None else max(0, count - first_seed)
    if first_seed < 0 or num_levels < 1 or (count is not None and first_seed + num_levels > count):
        has = (
            "" if count is None else f"; the split {env.config.split!r} has {count}, counted from 0"
        )
        raise ConfigError(
            f"{env.id}: there are no {num_levels} levels from first_seed={first_seed}{has}"
        )
    return range(first_seed, first_seed + num_levels)


def require_whole_context(context: str, library: str) -> None:
    """Raise ConfigError for a context policy other than `"all"`, on behalf of a library that makes
    prompts itself.
    """
    if ContextPolicy.parse(context) != ContextPolicy():
        raise ConfigError(
            f"context={context!r} is not possible with {library}, which appends each turn to the "
            "conversation itself: prompts show all turns; leave it out, or train with "
            "vagen_adapters.ppo"
        )


_TRUST = f"or set {TRUST_ROWS}=1 if you trust the rows"


def _plain(value: Any) -> Any:
    """Turn parquet's arrays back into lists."""
    return value.tolist() if hasattr(value, "tolist") else value
