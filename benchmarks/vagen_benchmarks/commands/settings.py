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
    from vagen_adapters.ppo.setting_types import must_be

    known = {each.name for each in dataclasses.fields(MultiTurnPPOConfig)} - ELSEWHERE
    for name, setting in settings.items():
        if name not in known:
            raise TrainingConfigError(f"{where} {name}: the trainer has no such setting.{did_you_mean(name, known)}")
        kind = must_be(MultiTurnPPOConfig, name, setting)
        if kind is not None:
            raise TrainingConfigError(f"{where} {name}={show(setting)}: it must be {kind}")
