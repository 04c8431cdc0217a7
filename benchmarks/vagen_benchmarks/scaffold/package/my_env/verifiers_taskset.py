"""The taskset of verifiers: `vf-eval my_env -m MODEL --env.taskset.split test`."""

from __future__ import annotations

from vagen_adapters.verifiers_env import Play
from vagen_adapters.verifiers_taskset import taskset_of

__all__ = ["MyEnvTaskset", "Play"]

MyEnvTaskset = taskset_of("my_env:example/MyEnv-v0")
