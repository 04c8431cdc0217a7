"""The environment service beside the same environments in this process.

Run by `make perf`. Here `theirs` are the environments in process. A ratio below 1× is the
overhead's inverse.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from gymnasium.vector import AutoresetMode

from perf.bench_grids import REPLY, turner
from perf.service_load import serving
from vagen_adapters.service.client import Service
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.remote_vector import RemoteVectorEnv

SOKOBAN = "vagen/Sokoban-v0"
MANY = 64
ONE_TURN = "service: a turn of Sokoban with its picture"
VECTOR = f"service: a turn of {MANY} Sokobans in one request"
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
    replies = itertools.cycle(
        [[REPLY.format(answer)] * MANY for answer in ("Up,Left,Down", "Down,Right,Up")]
    )
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
    benchmark.pedantic(
        turner_of_many(RemoteVectorEnv(service, SOKOBAN, MANY, **LONG)), rounds=50, warmup_rounds=3
    )


@pytest.mark.benchmark(group=VECTOR)
def test_vector_theirs(benchmark: Any) -> None:
    envs = gym.make_vec(
        SOKOBAN,
        num_envs=MANY,
        vectorization_mode="sync",
        **LONG,
        vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
    )
    benchmark.pedantic(turner_of_many(envs), rounds=50, warmup_rounds=3)
