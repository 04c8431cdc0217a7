"""Settings of the trainer as people write them: whether there are such, and of that type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from vagen_adapters.errors import TrainingConfigError
from vagen_envs.errors import did_you_mean, shown

ELSEWHERE = {"env_id", "env_options", "output_dir"}
"""What a command or a proof says in another place."""


def check_settings(settings: Mapping[str, Any], where: str, show: Callable[[Any], str] = shown) -> None:
    """Raises TrainingConfigError for a name that the trainer doesn't know and for a value of another type.

    Args:
        settings: of `MultiTurnPPOConfig`.
        where: they stand, to begin the message with: `[settings]`.
        show: how a message repeats a value.
    """
    from vagen_adapters.ppo.config import MultiTurnPPOConfig

    known = {each.name: each.default for each in dataclasses.fields(MultiTurnPPOConfig) if each.name not in ELSEWHERE}
    for name, setting in settings.items():
        if name not in known:
            raise TrainingConfigError(f"{where} {name}: the trainer has no such setting.{did_you_mean(name, known)}")
        kind, is_switch = type(known[name]), isinstance(setting, bool)
        if kind is bool and setting is not None and not is_switch:
            raise TrainingConfigError(f"{where} {name}={show(setting)}: it must be true or false")
        if kind in (int, float) and (is_switch or not isinstance(setting, int | float)):
            raise TrainingConfigError(f"{where} {name}={show(setting)}: it must be a number")
        if kind is int and not isinstance(setting, int):
            raise TrainingConfigError(f"{where} {name}={show(setting)}: it must be a whole number")
