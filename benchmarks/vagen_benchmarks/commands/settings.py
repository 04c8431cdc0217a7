"""Check the names and types of the trainer's settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from vagen_adapters.errors import TrainingConfigError
from vagen_envs.errors import did_you_mean, shown

ELSEWHERE = {"environments", "output_dir"}
"""Settings that the command has options of their own for."""


def check_settings(settings: Mapping[str, Any], where: str, show: Callable[[Any], str] = shown) -> None:
    """Check settings of `MultiTurnPPOConfig`.

    Args:
        settings: of `MultiTurnPPOConfig`.
        where: the option that gave them, named in messages.
        show: how messages print a value.

    Raises:
        TrainingConfigError: a name is unknown, or a value has the wrong type.
    """
    from vagen_adapters.ppo.config import MultiTurnPPOConfig
    from vagen_adapters.ppo.setting_types import must_be

    known = {each.name for each in dataclasses.fields(MultiTurnPPOConfig)} - ELSEWHERE
    for name, setting in settings.items():
        if name not in known:
            raise TrainingConfigError(f"{where} {name}: the trainer has no such setting.{did_you_mean(name, known)}")
        kind = must_be(MultiTurnPPOConfig, name, setting)
        if kind is not None:
            raise TrainingConfigError(f"{where} {name}={show(setting)}: it must be {kind}")
