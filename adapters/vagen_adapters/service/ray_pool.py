"""A pool whose workers are actors of a Ray cluster, on as many machines as that has.

Ray starts the actors, finds machines for them, and, under its autoscaler, more machines when actors find no
room; it says when one is gone. What follows from that (another actor, on another machine if need be; sessions
that are opened again; calls in one message) is `pool.Pool`'s, and the same as for processes here.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import Any

from vagen_adapters.service.host import Call, Done, EnvHost
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pool import Pool, WaitingHost
from vagen_adapters.service.ray_cluster import takes_connections
from vagen_envs.errors import MissingExtraError
from vagen_envs.workers import TIMEOUT, WorkerDied

# Ray's library ends the program when its control process (GCS) has been gone for a minute. Here that is an error in the
# sessions, of which `_lost_cluster` speaks.
os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(10**6))  # more overflows, in milliseconds

try:
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RayError
except ImportError as error:
    raise MissingExtraError("vagen_adapters.service.ray_pool", "ray", "ray") from error

PATIENCE = 600.0
"""Seconds for Ray to find a machine, or to have one started."""
LOOK_EVERY = 5.0
"""Seconds of waiting for Ray after which its control process is looked for."""


class RayHost(WaitingHost):
    """One actor.

    Args:
        options: Ray's for the actor, such as `num_cpus`, `num_gpus`, `resources`, `scheduling_strategy`.
        timeout: seconds for a message; an actor that doesn't answer is killed.
        patience: seconds for Ray to find a machine, or to have a new one started.
        limits: what one call may cost the actor.
    """

    def __init__(
        self,
        options: dict[str, Any],
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        limits: Limits = Limits(),  # noqa: B008
    ) -> None:
        lost = _lost_cluster()
        if lost:
            raise WorkerDied(lost, during=False)
        super().__init__()
        self._timeout, self._patience = timeout, patience
        # Environments are state: an actor that Ray restarted, or a call that it repeated, would be another episode.
        made = ray.remote(_Actor).options(max_restarts=0, max_task_retries=0, **options)
        self._actor = made.remote(limits)
        self._place = self._actor.place.remote()
        self.where = "an actor that has no machine yet"

    def do(self, calls: Sequence[Call]) -> list[Done]:
        try:
            self._wait_for_place()
            done: list[Done] = _get(self._actor.timed.remote(calls), self._timeout)
        except GetTimeoutError as error:
            raise WorkerDied(self._gave_up(), during=True) from error
        except RayActorError as error:
            raise WorkerDied(self._why(error), during=True) from error
        return done

    def find_death(self) -> str:
        try:
            if self._place is not None and not ray.wait([self._place], timeout=0)[0]:
                return ""
            self._wait_for_place()
            _get(self._actor.timed.remote([]), self._timeout)
        except GetTimeoutError:
            return self._gave_up()
        except RayError as error:
            return self._why(error)
        except WorkerDied as death:
            return str(death)
        return ""

    def is_ready(self) -> bool:
        if self._place is not None and ray.wait([self._place], timeout=0)[0]:
            with contextlib.suppress(RayError):  # it is said when somebody asks it for something
                self._wait_for_place()
        return self._place is None

    def _wait_for_place(self) -> None:
        place = self._place
        if place is not None:
            node, self.pid = _get(place, self._patience)
            self.where = f"actor process {self.pid} on node {node}"
            self._place = None

    def _gave_up(self) -> str:
        self.close()
        if self._place is not None:
            return f"no machine had room for an actor within {self._patience:g} s"
        return f"{self.where} gave no answer within {self._timeout:g} s and was killed"

    def _why(self, error: RayError) -> str:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{self.where} is gone: {' '.join(lines)[:500]}"

    def close(self) -> None:
        super().close()
        with contextlib.suppress(Exception):  # it, or the whole cluster, may be gone
            if not _lost_cluster():
                ray.kill(self._actor)


def _get(reference: Any, seconds: float) -> Any:
    """What Ray has, within so many seconds. Raises Ray's errors, and WorkerDied where the cluster is gone."""
    until = time.monotonic() + seconds
    while not ray.wait([reference], timeout=min(LOOK_EVERY, max(0.0, until - time.monotonic())))[0]:
        lost = _lost_cluster()
        if lost:
            raise WorkerDied(lost, during=True)
        if time.monotonic() >= until:
            break
    # It is there, or the time is over, which Ray then says by its own error.
    return ray.get(reference, timeout=0.1)


def _lost_cluster() -> str:
    """Why the cluster can't be asked, empty while its control process takes connections."""
    address = ray.get_runtime_context().gcs_address
    return "" if takes_connections(address) else f"Ray's control process at {address} is gone; start the cluster again"


class _Actor(EnvHost):
    """An `EnvHost` that says where it is."""

    def place(self) -> tuple[str, int]:
        """The node's address and id, and the process."""
        import os

        context = ray.get_runtime_context()
        return f"{ray.util.get_node_ip_address()} ({context.get_node_id()[:8]})", os.getpid()


def ray_pool(
    size: int = 2, most: int | None = None, *, sessions_each: int = 64, spare_after: float = 60.0,
    timeout: float = TIMEOUT, patience: float = PATIENCE, limits: Limits = Limits(), **options: Any,  # noqa: B008
) -> Pool:  # fmt: skip
    """A pool of actors. `ray.init` comes first; the machines need this package installed.

    Where more actors are wanted than the cluster has room for, Ray's autoscaler (if the cluster has one) starts
    machines, and ends them when the actors are gone. `timeout`, `patience` and `limits` are `RayHost`'s, `options`
    Ray's for each actor, such as `num_cpus`; actors are spread over the machines by default. The rest is as for `Pool`.
    """
    options = {"num_cpus": 1, "scheduling_strategy": "SPREAD", **options}
    return Pool(lambda: RayHost(options, timeout, patience, limits), size, most, sessions_each, spare_after)
