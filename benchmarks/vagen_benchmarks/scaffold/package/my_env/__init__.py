"""MyEnv: importing it registers `example/MyEnv-v0`, and its sentences with the rule judge."""

from __future__ import annotations

from typing import Any

from my_env import claims as claims
from my_env.env import MyEnv

__all__ = ["MyEnv", "load_environment"]


def load_environment(**options: Any) -> Any:
    """Return levels for verifiers; `vf-eval my_env` calls it.

    Args:
        options: of `vagen_adapters.verifiers_env.load_environment`.
    """
    from vagen_adapters import verifiers_env

    return verifiers_env.load_environment("my_env:example/MyEnv-v0", **options)
