"""The environment service and the Ray pool beside the same environments in this process.

Run by `make perf`. Here `theirs` is what the service is compared with: the environments in process, or the
pool of local processes where `ours` is the pool of actors. A ratio below 1× is the overhead's inverse.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from gymnasium.vector import AutoresetMode

from perf.bench_grids import REPLY, turner
from perf.service_load import serving
from vagen_adapters.service.backends import PoolBackend
from vagen_adapters.service.client import Service
from vagen_adapters.service.local_pool import local_pool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.remote_vector import RemoteVectorEnv

SOKOBAN = "vagen/Sokoban-v0"
MANY = 64
ONE_TURN = "service: a turn of Sokoban with its picture"
VECTOR = f"service: a turn of {MANY} Sokobans in one request"
POOL = f"Ray pool: a turn of {MANY} Sokobans"
LONG: dict[str, Any] = {"max_turns": 10**6, "max_steps": 10**6}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A server in a process of its own, with two workers."""
    with serving("--workers", "2") as (port, _):
        made = Service(f"http://127.0.0.1:{port}")
        yield made
        made.close()


def turner_of_many(envs: Any) -> Callable[[], Any]:
    """Plays a turn of three actions in each."""
    replies = itertools.cycle([[REPLY.format(answer)] * MANY for answer in ("Up,Left,Down", "Down,Right,Up")])
    envs.reset(seed=7)
    return lambda: envs.step(next(replies))


@pytest.mark.benchmark(group=ONE_TURN)
def test_turn_ours(benchmark: Any, service: Service) -> None:
    benchmark.pedantic(turner(RemoteEnv(service, SOKOBAN, **LONG)), rounds=500, warmup_rounds=20)


@pytest.mark.benchmark(group=ONE_TURN)
def test_turn_theirs(benchmark: Any) -> None:
    benchmark.pedantic(turner(gym.make(SOKOBAN, **LONG).unwrapped), rounds=2000, warmup_rounds=50)


@pytest.mark.benchmark(group=VECTOR)
def test_vector_ours(benchmark: Any, service: Service) -> None:
    benchmark.pedantic(turner_of_many(RemoteVectorEnv(service, SOKOBAN, MANY, **LONG)), rounds=50, warmup_rounds=3)


@pytest.mark.benchmark(group=VECTOR)
def test_vector_theirs(benchmark: Any) -> None:
    envs = gym.make_vec(SOKOBAN, num_envs=MANY, vectorization_mode="sync", **LONG,
                        vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP})  # fmt: skip
    benchmark.pedantic(turner_of_many(envs), rounds=50, warmup_rounds=3)


@contextlib.contextmanager
def in_pool(pool: Any) -> Iterator[RemoteVectorEnv]:
    """Many Sokobans in a pool, which is closed at the end."""
    backend = PoolBackend(pool)
    yield RemoteVectorEnv(backend, SOKOBAN, MANY, **LONG)
    backend.close()


@pytest.mark.benchmark(group=POOL)
def test_pool_ours(benchmark: Any) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    from vagen_adapters.service.ray_pool import ray_pool

    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    # "local": one of its own, and not the cluster whose address another program has left behind
    ray.init("local", num_cpus=2, log_to_driver=False, logging_level="ERROR", object_store_memory=80_000_000,
             include_dashboard=False)  # fmt: skip
    try:
        with in_pool(ray_pool(2)) as envs:
            benchmark.pedantic(turner_of_many(envs), rounds=50, warmup_rounds=3)
    finally:
        ray.shutdown()


@pytest.mark.benchmark(group=POOL)
def test_pool_theirs(benchmark: Any) -> None:
    with in_pool(local_pool(2)) as envs:
        benchmark.pedantic(turner_of_many(envs), rounds=50, warmup_rounds=3)
