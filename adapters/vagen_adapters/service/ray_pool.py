"""A pool whose workers are actors of a Ray cluster, on as many machines as it has.

Ray places the actors and says when one is gone; with an autoscaler it starts machines for actors
that find no room. Everything else is `pool.Pool`'s and the same as for processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

from vagen_adapters.service.host import EnvHost, HostCall, Result
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pool import TIMEOUT, Pool
from vagen_envs.errors import MissingExtraError
from vagen_envs.workers import WorkerDied

try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:
    raise MissingExtraError("vagen_adapters.service.ray_pool", "ray", "ray") from error

PATIENCE = 600.0
"""Seconds for Ray to find a machine for an actor, or to have one started."""


class _Actor(EnvHost):
    """An `EnvHost` that tells where it runs."""

    def place(self) -> str:
        """The process and the node, for messages."""
        node = f"{ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:8]})"
        return f"actor process {os.getpid()} on node {node}"


class RayWorker:
    """One actor, made with Ray's `options`."""

    def __init__(self, options: dict[str, Any], limits: Limits) -> None:
        # Environments have state: an actor that Ray restarts, or a call that it repeats, would be
        # another episode.
        actor_class = ray.remote(_Actor).options(max_restarts=0, max_task_retries=0, **options)
        self._actor = actor_class.remote(limits)
        self.where = "an actor without a machine"

    async def start(self) -> None:
        self.where = await asyncio.wait_for(self._get(self._actor.place.remote()), PATIENCE)

    def run(self, call: HostCall) -> asyncio.Future[Result]:
        return asyncio.create_task(self._get(self._actor.run.remote(call)))

    async def _get(self, reference: Any) -> Any:
        try:
            return await reference
        except RayError as error:
            raise WorkerDied(
                f"{self.where} is gone: {' '.join(str(error).split())[:500]}", during=True
            ) from error

    def close(self) -> None:
        with contextlib.suppress(Exception):  # it, or the whole cluster, may be gone
            ray.kill(self._actor)


def ray_pool(
    size: int = 2, *, timeout: float = TIMEOUT, limits: Limits | None = None, **options: Any
) -> Pool:
    """A pool of actors. `ray.init` comes first; the machines need this package installed.

    Args:
        size: actors. Those that find no room wait for a machine; sessions go to the others
            meanwhile.
        timeout: seconds without an answer after which an actor is replaced.
        limits: bounds of one call; `Limits()` by default.
        options: Ray's for the actors, such as `num_cpus`. By default they are spread over the
            machines.
    """
    options = {"num_cpus": 1, "scheduling_strategy": "SPREAD", **options}
    return Pool(lambda _costly: RayWorker(options, limits or Limits()), size, timeout)
