"""What PrimitiveSkill costs beside its physics and one picture.

Run by `make perf` where the extra `primitive-skill` and a Vulkan driver are at hand. Times are of
the processor, since the promises are, and Vulkan's software driver works on many threads.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from perf.processes import resident
from vagen_envs.errors import SimulatorError

pytest.importorskip("mani_skill")

ID = "vagen/PrimitiveSkillPlace-v0"
REPLY = (
    "<think><observation>{red_cube: (0, 0, 20)}</observation><reasoning>I "
    "try.</reasoning><prediction>{red_cube: (0, 0, 20)}</prediction></think><answer>pick(0, 0, "
    "20)|pick(-100, 200, 150)</answer>"
)
"""Two skills that end as they began, so that each turn is the same work."""


@pytest.fixture(scope="module")
def env() -> Any:
    """A running environment with pictures, whose turns don't end."""
    made: Any = gym.make(
        ID, max_turns=10**9, max_steps=10**9, workers=0, disable_env_checker=True
    ).unwrapped
    try:
        made.reset(seed=7)
    except SimulatorError as error:
        pytest.skip(str(error))
    return made


@pytest.mark.benchmark(group="PrimitiveSkill, turn / physics and picture", timer=time.process_time)
def test_turn_ours(benchmark: Any, env: Any) -> None:
    env.reset(seed=7)
    benchmark.pedantic(env.step, (REPLY,), rounds=25, warmup_rounds=2)


@pytest.mark.benchmark(group="PrimitiveSkill, turn / physics and picture", timer=time.process_time)
def test_turn_theirs(benchmark: Any, env: Any) -> None:
    """ManiSkill's own steps, as many as our turn takes with the same targets, and one capture of
    its camera.
    """
    env.reset(seed=7)
    scene = env._session._scene
    targets: list[Any] = []
    control = scene.control
    scene.control = lambda target: (targets.append(target.clone()), control(target))[1]  # type: ignore[func-returns-value]
    env.step(REPLY)
    del scene.control

    def physics_and_picture() -> None:
        for target in targets:
            control(target)
        env._session.picture(env._level, env._calls)

    benchmark.pedantic(physics_and_picture, rounds=25, warmup_rounds=2)


RESTORE = "PrimitiveSkill, restore on the same level / a turn"


@pytest.mark.ratio
@pytest.mark.benchmark(group=RESTORE, timer=time.process_time)
def test_restore_ours(benchmark: Any, env: Any) -> None:
    """State and picture; the skills are played again when the next one is, see
    `test_skills_again`.
    """
    seeds = itertools.count(100)

    def moment() -> tuple[tuple[bytes], dict[str, Any]]:
        env.reset(seed=next(seeds))
        env.step(REPLY)
        taken = env.snapshot()
        env.step(REPLY)
        return (taken,), {}

    benchmark.extra_info.update(at_least=10, at_most_us=50)
    benchmark.pedantic(env.restore, setup=moment, rounds=10, warmup_rounds=1)


@pytest.mark.ratio
@pytest.mark.benchmark(group=RESTORE, timer=time.process_time)
def test_restore_theirs(benchmark: Any, env: Any) -> None:
    env.reset(seed=7)
    benchmark.pedantic(env.step, (REPLY,), rounds=10, warmup_rounds=1)


@pytest.mark.benchmark(
    group="PrimitiveSkill, the scene back after one turn too many", timer=time.process_time
)
def test_skills_again(benchmark: Any, env: Any) -> None:
    env.reset(seed=7)
    env.step(REPLY)
    moment = env.snapshot()

    def one_too_many() -> None:
        env.step(REPLY)
        env.restore(moment)

    benchmark.pedantic(
        lambda: env._simulated().picture(env._level, env._calls), setup=one_too_many, rounds=8
    )


@pytest.mark.benchmark(group="PrimitiveSkill, reset with a picture", timer=time.process_time)
def test_reset(benchmark: Any, env: Any) -> None:
    seeds = itertools.count()
    benchmark.pedantic(lambda: env.reset(seed=next(seeds)), rounds=20, warmup_rounds=2)


@pytest.mark.benchmark(group="PrimitiveSkill, one picture", timer=time.process_time)
def test_picture(benchmark: Any, env: Any) -> None:
    env.reset(seed=7)
    benchmark.pedantic(env._session.picture, (env._level, env._calls), rounds=20, warmup_rounds=2)


@pytest.mark.benchmark(group="PrimitiveSkill, one more env (ms are MB)", timer=time.process_time)
def test_memory(benchmark: Any, env: Any) -> None:
    env.reset(seed=1)  # the first one, with all that a process needs once
    before = resident()
    more: list[Any] = [gym.make(ID, workers=0, disable_env_checker=True) for _ in range(5)]
    for each in more:
        each.reset(seed=1)
    megabytes = (resident() - before) / len(more) / 1e6
    for each in more:
        each.close()
    benchmark.pedantic(_wait(megabytes / 1e3), rounds=1)


def _wait(seconds: float) -> Callable[[], None]:
    def wait() -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    return wait
