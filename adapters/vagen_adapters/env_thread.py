"""Environments in a thread of their own, as some simulators require, for the event loops of
libraries.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import gymnasium as gym

from vagen_envs.core import Observation, VagenEnv

Call = Callable[..., Awaitable[Any]]
"""Calls a function with arguments, in the environment's thread."""


@contextlib.asynccontextmanager
async def running(
    make: Callable[..., gym.Env[Any, Any]], *asked: Any
) -> AsyncIterator[tuple[gym.Env[Any, Any], Call]]:
    """Yield `make(*asked)` and a function that calls others in its thread. The environment is
    closed at the end.
    """
    import anyio.to_thread  # the libraries that have an event loop bring it

    with ThreadPoolExecutor(1) as pool:

        async def call(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
            return await anyio.to_thread.run_sync(pool.submit(function, *args, **named).result)

        env = await call(make, *asked)
        try:
            yield env, call
        finally:
            pool.submit(env.close).result()  # also if the episode is cancelled


def start(env: gym.Env[Any, Any], seed: int, split: str | None) -> Observation:
    """Start a level, by default of the configured split, and return its first observation."""
    core = cast(VagenEnv, env.unwrapped)
    env.reset(seed=seed, options={"split": split or core.config.split})
    return core.observed
