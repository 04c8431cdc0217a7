"""Navigation: a turn beside its one render and its moves.

Run by `make perf`. Every figure is a median; each pair runs right after one another. `theirs` is
what a turn can't do without.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from perf.bench_grids import resetter

pytest.importorskip("mujoco")

ID = "vagen/Navigation-v0"
ACTIONS = ("moveahead", "moveback", "rotateright", "moveleft", "moveright")
NAMES = ("MoveAhead", "MoveBack", "RotateRight", "MoveLeft", "MoveRight")
REPLY = (
    "<think><observation>The safe is ahead of me and to the left, about 2.6 m "
    "away.</observation><reasoning>I look around first.</reasoning><prediction>The safe will be "
    "on my left.</prediction></think><answer>{}</answer>"
)


def made(**options: Any) -> Any:
    """An environment whose episode goes on for ever."""
    env: Any = gym.make(ID, max_turns=10**9, max_steps=10**9, split="test", **options).unwrapped
    env.reset(seed=3)
    return env


@pytest.mark.benchmark(group="Navigation, turn of 5 actions / its moves and one render")
def test_turn_ours(benchmark: Any) -> None:
    env = made()
    reply = REPLY.format(",".join(ACTIONS))
    benchmark.pedantic(lambda: env.step(reply), rounds=60, warmup_rounds=5)


@pytest.mark.benchmark(group="Navigation, turn of 5 actions / its moves and one render")
def test_turn_theirs(benchmark: Any) -> None:
    simulator = made().simulator

    def turn() -> None:
        for name in NAMES:
            simulator.step(name)
        simulator.frame()

    benchmark.pedantic(turn, rounds=60, warmup_rounds=5)


RESTORE = "Navigation, restore on the same level / a turn"
RESTORED = 20
"""Actions of an episode up to which it is restored: the paper's own have as many."""


@pytest.mark.ratio
@pytest.mark.benchmark(group=RESTORE)
def test_restore_ours(benchmark: Any) -> None:
    """Back by one turn, from another place each time."""
    env = made()
    reply = REPLY.format(",".join(ACTIONS))

    def moment() -> tuple[tuple[bytes], dict[str, Any]]:
        if env._steps >= RESTORED:
            env.reset(seed=3)
        env.step(reply)
        taken = env.snapshot()
        env.step(reply)
        return (taken,), {}

    benchmark.extra_info.update(at_least=10, at_most_us=50)
    benchmark.pedantic(env.restore, setup=moment, rounds=60, warmup_rounds=5)


@pytest.mark.ratio
@pytest.mark.benchmark(group=RESTORE)
def test_restore_theirs(benchmark: Any) -> None:
    env = made()
    reply = REPLY.format(",".join(ACTIONS))
    benchmark.pedantic(lambda: env.step(reply), rounds=40, warmup_rounds=5)


@pytest.mark.benchmark(group="Navigation, frame of 255x255 with shadows")
def test_frame(benchmark: Any) -> None:
    simulator = made().simulator
    benchmark.pedantic(simulator.frame, rounds=60, warmup_rounds=5)


@pytest.mark.benchmark(group="Navigation, frame of 255x255 with cast shadows")
def test_frame_with_cast_shadows(benchmark: Any) -> None:
    simulator = made(cast_shadows=True).simulator
    benchmark.pedantic(simulator.frame, rounds=30, warmup_rounds=3)


@pytest.mark.benchmark(group="Navigation, state dictionary")
def test_state(benchmark: Any) -> None:
    env = made()
    benchmark.pedantic(
        lambda: env._extract().structured(),
        rounds=300,
        warmup_rounds=10,
    )


@pytest.mark.benchmark(group="Navigation, reset with its first picture")
def test_reset(benchmark: Any) -> None:
    benchmark.pedantic(resetter(made()), rounds=40, warmup_rounds=3)
