"""MyEnv: importing it registers `example/MyEnv-v0`, and its sentences with the rule judge."""

from __future__ import annotations

import importlib
from typing import Any

from my_env import claims as claims
from my_env.env import MyEnv as MyEnv

# `vf-eval my_env` looks for a taskset here; verifiers is imported only then.
__all__ = ["MyEnv", "MyEnvTaskset", "Play"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("my_env.verifiers_taskset"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
