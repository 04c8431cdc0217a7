"""Sokoban and FrozenLake beside gym-sokoban and Gymnasium.

Run by `make perf`. Every figure is a median, of resets a mean; each pair runs right after one
another.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv as GymnasiumLake

import vagen_envs  # noqa: F401
from perf import peers

REPLY = (
    "<think><observation>The box is below and on the left side of the player. The target is "
    "below the box.</observation><reasoning>I walk around the box and then push it "
    "down.</reasoning><prediction>The box is below the player and the target is below the "
    "box.</prediction></think><answer>{}</answer>"
)


@pytest.fixture(params=["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
def any_grid(request: pytest.FixtureRequest) -> str:
    """The id of an environment."""
    name: str = request.param
    return name


def fresh(env: Any, prepare: Callable[[], Any] = lambda: None) -> Callable[[], Any]:
    """A setup that brings the environment to a level that it has not shown before."""
    seeds = itertools.count(10_000)

    def setup() -> None:
        env.reset(seed=next(seeds))
        prepare()

    return setup


def turner(env: Any, level: int = 7) -> Callable[[], Any]:
    """Plays turns of three actions that keep the game going."""
    replies = itertools.cycle(
        [REPLY.format(answer) for answer in ("Up,Left,Down", "Down,Right,Up")]
    )
    env.reset(seed=level)

    def turn() -> None:
        if env.step(next(replies))[2]:
            env.reset(seed=level)

    return turn


def resetter(env: Any) -> Callable[[], Any]:
    """Resets with a new seed each time."""
    seeds = itertools.count()
    return lambda: env.reset(seed=next(seeds))


def mean_of_least(reset: Callable[[int], Any], seeds: int) -> float:
    """Seconds of CPU of a reset, on average over seeds, each the least of three.

    A median would say nothing of the levels for which more is tried, and by the clock a busy
    machine stops the slow ones more often.
    """
    least = [math.inf] * seeds
    for _ in range(3):
        for seed in range(seeds):
            began = time.process_time()
            reset(seed)
            least[seed] = min(least[seed], time.process_time() - began)
    return statistics.fmean(least)


@pytest.mark.ratio
@pytest.mark.benchmark(group="Sokoban 6x6, reset in the window 5-9")
def test_reset_ours(benchmark: Any) -> None:
    env: Any = gym.make("vagen/Sokoban-v0").unwrapped
    peer, quiet = peers.sokoban_env(), io.StringIO()
    mean_of_least(lambda seed: env.reset(seed=seed), 100)
    ours = mean_of_least(lambda seed: env.reset(seed=seed), 3000)
    with contextlib.redirect_stdout(quiet):  # it says whenever it tries again
        theirs = mean_of_least(lambda seed: peers.sokoban_reset_in_window(peer, seed, 5, 9), 200)
    benchmark.extra_info.update(at_least=100, taken=ours, theirs=theirs)
    benchmark.pedantic(lambda: env.reset(seed=0), rounds=1)


@pytest.mark.ratio
@pytest.mark.benchmark(group="Sokoban 6x6, picture")
def test_picture_ours(benchmark: Any) -> None:
    env: Any = gym.make("vagen/Sokoban-v0", observation="text").unwrapped
    benchmark.extra_info["at_least"] = 60
    benchmark.pedantic(lambda: env._picture().pixels, setup=fresh(env), rounds=1000)


@pytest.mark.ratio
@pytest.mark.benchmark(group="Sokoban 6x6, picture")
def test_picture_theirs(benchmark: Any) -> None:
    env = peers.sokoban_env()
    peers.sokoban_reset_in_window(env, 1, 5, 9)
    benchmark.pedantic(lambda: env.render("rgb_array"), rounds=500, warmup_rounds=10)


@pytest.mark.ratio
@pytest.mark.benchmark(group="Sokoban, turn of 3 actions with text and picture")
def test_turn_ours(benchmark: Any) -> None:
    env = gym.make("vagen/Sokoban-v0").unwrapped
    benchmark.extra_info["at_least"] = 100
    reply = REPLY.format("Up,Left,Down")
    benchmark.pedantic(env.step, (reply,), setup=fresh(env), rounds=1000)


@pytest.mark.ratio
@pytest.mark.benchmark(group="Sokoban, turn of 3 actions with text and picture")
def test_turn_theirs(benchmark: Any) -> None:
    env = peers.sokoban_env()
    peers.sokoban_reset_in_window(env, 1, 5, 9)
    actions = itertools.cycle([(1, 3, 2), (2, 4, 1)])
    benchmark.pedantic(
        lambda: [env.step(action) for action in next(actions)], rounds=300, warmup_rounds=10
    )


@pytest.mark.ratio
@pytest.mark.benchmark(group="FrozenLake 4x4, picture")
def test_lake_picture_ours(benchmark: Any) -> None:
    env: Any = gym.make("vagen/FrozenLake-v0", observation="text").unwrapped
    benchmark.extra_info["at_least"] = 25
    benchmark.pedantic(lambda: env._picture().pixels, setup=fresh(env), rounds=1000)


@pytest.mark.ratio
@pytest.mark.benchmark(group="FrozenLake 4x4, picture")
def test_lake_picture_theirs(benchmark: Any) -> None:
    env = GymnasiumLake(render_mode="rgb_array")
    env.reset(seed=1)
    benchmark.pedantic(env.render, rounds=500, warmup_rounds=10)


def test_turns_a_second(benchmark: Any, any_grid: str) -> None:
    """The first turn on levels that were never shown, with text and picture."""
    benchmark.group = f"{any_grid}, turns on one core"
    env = gym.make(any_grid, disable_env_checker=True).unwrapped
    benchmark.extra_info["at_least_per_s"] = 20_000
    replies = itertools.cycle([REPLY.format(each) for each in ("Up,Left,Down", "Down,Right,Up")])
    setup = fresh(env)

    def arguments() -> tuple[tuple[str], dict[str, Any]]:
        setup()
        return (next(replies),), {}

    benchmark.pedantic(env.step, setup=arguments, rounds=1000)


def moments(env: Any) -> Callable[[], tuple[tuple[Any], dict[str, Any]]]:
    """A setup that leaves the environment a turn after a moment, on another level each time."""
    setup = fresh(env)

    def moment() -> tuple[tuple[bytes], dict[str, Any]]:
        setup()
        env.step("I look around.")
        taken = env.snapshot()
        env.step(env.oracle_reply())
        return (taken,), {}

    return moment


def test_snapshot(benchmark: Any, any_grid: str) -> None:
    benchmark.group = f"{any_grid}, snapshot in the middle of an episode"
    env: Any = gym.make(any_grid).unwrapped
    setup = fresh(env, lambda: env.step("I look around."))
    benchmark.pedantic(env.snapshot, setup=setup, rounds=1000)


def test_restore_ours(benchmark: Any, any_grid: str) -> None:
    """Back by one turn, each time on another level, whose picture is drawn anew."""
    benchmark.group = f"{any_grid}, restore / a turn"
    env: Any = gym.make(any_grid).unwrapped
    benchmark.pedantic(env.restore, setup=moments(env), rounds=1000)


def test_restore_theirs(benchmark: Any, any_grid: str) -> None:
    """The turn that a restore takes back."""
    benchmark.group = f"{any_grid}, restore / a turn"
    env: Any = gym.make(any_grid).unwrapped
    setup = fresh(env)

    def arguments() -> tuple[tuple[str], dict[str, Any]]:
        setup()
        return (env.oracle_reply(),), {}

    benchmark.pedantic(env.step, setup=arguments, rounds=1000)


@pytest.mark.benchmark(group="PNG of an observation at 96x96")
def test_png(benchmark: Any) -> None:
    """Of another picture each time."""
    env: Any = gym.make("vagen/Sokoban-v0", observation="text").unwrapped
    setup = fresh(env)

    def arguments() -> tuple[tuple[Any], dict[str, Any]]:
        setup()
        return (env._picture(),), {}

    benchmark.pedantic(lambda picture: picture.png, setup=arguments, rounds=1000)


@pytest.mark.benchmark(group="import vagen_envs, in a new process")
def test_import(benchmark: Any) -> None:
    code = (
        "import time; began = time.perf_counter(); import vagen_envs; print(time.perf_counter() "
        "- began)"
    )

    def seconds() -> float:
        return float(
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout  # noqa: S603
        )

    taken = sorted(seconds() for _ in range(7))[3]
    # The interpreter's own start doesn't count, so the time comes from inside the process.
    benchmark.pedantic(time.sleep, (taken,), rounds=1)
