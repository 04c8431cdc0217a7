"""Whether an environment is the one whose prompt a row shows.

Libraries take the prompt from a row and the environment from elsewhere: a factory, a server,
another version of this package. A model that reads the rules of one and plays the other trains
without an error.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from vagen_adapters.ends import step_limit
from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError, shown
from vagen_envs.seeding import content_hash


def prompt_hash(system_prompt: str) -> str:
    """Return 32 hexadecimal digits that name what a system prompt says."""
    return content_hash(system_prompt.encode("utf-8", "surrogatepass"))


def require_prompt_of(
    env: gym.Env[Any, Any],
    env_id: str | None,
    hashed: str | None,
    options: Mapping[str, Any] | str | None = None,
) -> None:
    """Check that a row's prompt is that of an environment.

    Args:
        env: the environment, with or without wrappers.
        env_id: the row's. None isn't compared, as for rows that were made without `levels`.
        hashed: the row's `prompt_hash`. None isn't compared.
        options: the row's, for the message only.

    Raises:
        ConfigError: the prompt is of another id, or says something else. The message names both
            environments.
    """
    for name, value in (("env_id", env_id), ("prompt_hash", hashed)):
        if not isinstance(value, str | None):
            raise ConfigError(
                f"the row's {name}={shown(value)} is not valid: it must be a string, as levels(…) "
                "writes it"
            )
    core: VagenEnv = env.unwrapped  # type: ignore[assignment]
    own_id = core.id if core.spec is None else core.spec.id
    is_same_id = _is_same_id(env_id, own_id)
    if is_same_id and hashed is None:
        return
    here = prompt_hash(core.system_prompt)
    if is_same_id and hashed == here:
        return
    own_options = {} if core.spec is None else core.spec.kwargs
    theirs = _named(env_id or own_id, options, hashed)
    raise ConfigError(
        f"the row's prompt is of {theirs}, but the environment is "
        f"{_named(own_id, own_options, here)}; make the rows with levels(…) of the environment's "
        "own id and options"
    )


def require_options_of(env: gym.Env[Any, Any], options: Mapping[str, Any] | str) -> None:
    """Check that a row's options are those of an environment that wasn't made from the row.

    What the prompt doesn't say may differ, too: the size of a board, the number of turns. Which
    levels are drawn is the row's to say.

    Raises:
        ConfigError: the message has the options that differ.
    """
    core: VagenEnv = env.unwrapped  # type: ignore[assignment]
    named = _object(options)
    own = {} if core.spec is None else core.spec.kwargs
    if "max_episode_steps" in named:  # Gymnasium's own, which a row need not name
        own = {**own, "max_episode_steps": step_limit(env)}
    defaults: dict[str, Any] = {"preset": "paper"}
    for each in dataclasses.fields(core.config):
        defaults[each.name] = each.default
    left_out = {"level", "num_levels", "render_mode", "split", *core.config.machine_fields}
    differing = []
    for name in sorted((named.keys() | own.keys()) - left_out):
        # A row is data: nothing is made of its options, which may name files.
        theirs = named.get(name, defaults.get(name))
        ours = own.get(name, getattr(core.config, name, defaults.get(name)))
        if _plain(theirs) != _plain(ours):
            differing.append(f"{name}={shown(theirs)} (here {shown(ours)})")
    if differing:
        raise ConfigError(
            f"the row is of {core.id} with {', '.join(differing)}; make the rows with levels(…) of "
            "the environment's own options"
        )


def _object(options: Any) -> dict[str, Any]:
    """A row's options, which may be JSON."""
    named = options
    if isinstance(options, str):
        try:
            named = json.loads(options)
        except (ValueError, RecursionError):
            named = None
    if not isinstance(named, Mapping):
        raise ConfigError(
            f"the row's options are {shown(options)}; they must be a dictionary, or an object as "
            "JSON, as levels(…) writes them"
        )
    return dict(named)


def _plain(value: Any) -> Any:
    """A value as it comes out of JSON, which has no tuples."""
    return json.loads(json.dumps(value, default=str))


def _is_same_id(asked: str | None, own: str) -> bool:
    """An id may name a module to import, and leave out the version."""
    name = own if asked is None else asked.rpartition(":")[2]
    return name in (own, own.rpartition("-v")[0])


def _named(env_id: str, options: Mapping[str, Any] | str | None, hashed: str | None) -> str:
    made_with = f" with {shown(options)}" if options else ""
    return f"{env_id[:80]}{made_with} (prompt {'unknown' if hashed is None else hashed[:8]})"
