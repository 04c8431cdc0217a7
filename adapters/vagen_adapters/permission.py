"""Environments for clients elsewhere: what they may ask for is permitted, everything else is not.

Options that a client may set say so in their annotation, and within which bounds
(`vagen_envs.bounds.Open`). All others are closed: paths, modules, addresses and names that are
looked up anywhere, and whatever Gymnasium's `make` takes. Beyond that the operator may offer values
by name (`Offers`); a client says the name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from vagen_envs.bounds import Bound, OneOf, bounds_of
from vagen_envs.config import EnvConfig
from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError, did_you_mean, shown
from vagen_envs.registration import declared

Offers = Mapping[str, Mapping[str, str]]
"""What an operator offers: option → the name that clients say → the value that it stands for."""


def remote_bounds(config_class: type[EnvConfig]) -> dict[str, Bound]:
    """The options that are open to clients, and their bounds."""
    bounds = bounds_of(config_class)  # type: ignore[arg-type]
    return {name: opened for name, (_, opened) in bounds.items() if opened is not None}


def permitted(env_id: str, options: Mapping[str, Any], offers: Offers) -> dict[str, Any]:
    """The options for `gym.make` that a client's options stand for.

    Args:
        env_id: one that the operator serves, never one that only a client named: Gymnasium imports
            modules that an id names.
        options: the client's, any JSON.
        offers: see `Offers`.

    Raises:
        ConfigError: an option is closed, or out of bounds. Nothing has been made, opened or looked
            up.
    """
    spec, config_class = _declared(env_id)
    bounds: dict[str, Bound] = {}
    if config_class is not None:
        bounds = {"preset": OneOf(tuple(config_class.presets)), **remote_bounds(config_class)}
    offers = {name: offers[name] for name in offers if name in option_names(env_id)}
    for name in spec.kwargs:  # what makes the id the one it is
        bounds[name] = OneOf((spec.kwargs[name],))
    return {name: _value(env_id, name, value, bounds, offers) for name, value in options.items()}


def make_permitted(env_id: str, options: Mapping[str, Any], offers: Offers) -> VagenEnv:
    """The environment that a client asks for. Raises ConfigError as `permitted`, and what making it
    raises.
    """
    return cast(
        VagenEnv,
        gym.make(env_id, disable_env_checker=True, **permitted(env_id, options, offers)).unwrapped,
    )


def told(env: VagenEnv, options: Mapping[str, Any], offers: Offers) -> dict[str, Any]:
    """The environment's configuration as its client may see it: the name of what was offered, not
    its value.
    """
    named = {
        name: value
        for name, value in options.items()
        if isinstance(value, str) and value in offers.get(name, {})
    }
    return dataclasses.asdict(env.config) | named


def check_offers(env_ids: Sequence[str], offers: Offers) -> None:
    """Raise ConfigError for an offered option that none of these environments has."""
    known = {name for env_id in env_ids for name in option_names(env_id)}
    for name in offers:
        if name not in known:
            raise ConfigError(
                f"no environment here has an option {name!r} to offer.{did_you_mean(name, known)}"
            )


def _declared(env_id: str) -> tuple[EnvSpec, type[EnvConfig] | None]:
    """An id, and what declares its options: `None` for an environment of another contract, where
    all are closed.
    """
    spec, creator = declared(env_id)
    is_ours = isinstance(creator, type) and issubclass(creator, VagenEnv)
    return spec, creator.config_class if is_ours else None


def option_names(env_id: str) -> set[str]:
    """The options of an id; none of an environment of another contract. Raises ConfigError if there
    is no such id.
    """
    _, config_class = _declared(env_id)
    if config_class is None:
        return set()
    return {field.name for field in dataclasses.fields(config_class)}


def _value(env_id: str, name: str, value: Any, bounds: Mapping[str, Bound], offers: Offers) -> Any:
    offered = offers.get(name, {})
    if type(value) is str and value in offered:
        return offered[value]
    if name not in bounds and not offered:
        hint = did_you_mean(name, {*bounds, *offers})
        raise ConfigError(
            f"{env_id}: option {shown(name)} is closed to clients of a server; leave it out.{hint}"
        )
    if name not in bounds or not bounds[name].admits(value):
        wanted = [str(bounds[name])] if name in bounds else []
        wanted += [f"one of {', '.join(map(repr, offered))}"] if offered else []
        must = " or ".join(wanted)
        raise ConfigError(
            f"{env_id}: {name}={shown(value)} is not valid: a client's must be {must}"
        )
    return value
