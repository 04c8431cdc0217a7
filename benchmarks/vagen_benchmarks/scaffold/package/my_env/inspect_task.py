"""The task of inspect_ai: `inspect eval my_env/my_env --model openai/MODEL -T num_levels=100`."""

from __future__ import annotations

from typing import Any

from inspect_ai import Task, task

from vagen_adapters.inspect_env import task_of


@task
def my_env(num_levels: int = 100, **options: Any) -> Task:
    """Play levels of the test split.

    Args:
        num_levels: how many samples.
        options: of the task (`context`, `judge`, …) and of the environment.
    """
    return task_of("my_env:example/MyEnv-v0")(num_levels=num_levels, **options)
