"""Environments that rows of a data set ask for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

from vagen_envs.errors import ConfigError
from vagen_envs.permission import make_permitted
from vagen_envs.seeding import Split
from vagen_rewards import with_reasoning

TRUST_ROWS = "VAGEN_TRUST_ROWS"
"""The environment variable that is `1` where rows may set every option, name every judge and import every module."""
OPEN_JUDGES = (None, "rule")
"""Judges that a row may name: they read no file and call nobody."""


def make_from_row(
    env_id: str, options: Mapping[str, Any] | None, reasoning: Mapping[str, Any] | None = None
) -> gym.Env[Any, Any]:
    """The environment of a row, without Gymnasium's wrappers, with the reward for reasoning that the row asks for.

    A data set may come from anywhere, so its rows may do what a client of a server may: name what is registered or in
    a module that this program has imported already, and set open options within their bounds. Who made the rows allows
    everything with `VAGEN_TRUST_ROWS=1`, in the environment of the processes that read them.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`.
        options: for `gym.make`; those that are None, as columns of parquet have them, are left out.
        reasoning: as for `vagen_rewards.with_reasoning`.

    Raises:
        ConfigError: the row asks for more. Nothing has been made, opened or imported.
    """
    said = {name: _plain(value) for name, value in (options or {}).items() if value is not None}
    if os.environ.get(TRUST_ROWS) == "1":
        return with_reasoning(gym.make(env_id, **said).unwrapped, reasoning)
    module = env_id.rpartition(":")[0]
    if module and module not in sys.modules:
        raise ConfigError(
            f"a row's environment {env_id[:80]!r} would import {module[:80]!r}; import that module before, {_MEND}"
        )
    if reasoning is not None and (reasoning.get("judge") not in OPEN_JUDGES or reasoning.get("llm")):
        raise ConfigError(f"a row's judge {str(reasoning.get('judge'))[:80]!r} may call others; leave it out, {_MEND}")
    try:
        made = make_permitted(env_id, said, {})
    except ConfigError as error:
        raise ConfigError(f"{error} (a row of data asks for it; leave it out, {_MEND})") from None
    return with_reasoning(made, reasoning)


def levels_of(
    env_id: str,
    split: Split,
    first_seed: int,
    num_levels: int,
    reasoning: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """What `make_from_row` and a reset need of each level, from the seed `first_seed` on."""
    asked = {} if reasoning is None else {"reasoning": dict(reasoning)}
    for seed in range(first_seed, first_seed + num_levels):
        yield {"env_id": env_id, "split": split, "seed": seed, "options": options, **asked}


_MEND = f"or set {TRUST_ROWS}=1 if the rows are yours"


def _plain(value: Any) -> Any:
    """Arrays of parquet as the lists that they were."""
    return value.tolist() if hasattr(value, "tolist") else value
