"""Workers that die, for real."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading

import gymnasium as gym
import oracle
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.conformance import check
from vagen_envs.errors import SimulatorError

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(
        importlib.util.find_spec("mani_skill") is None, reason="needs the extra primitive-skill"
    ),
]

PLACE = "vagen/PrimitiveSkillPlace-v0"


@pytest.fixture(scope="module", autouse=True)
def no_workers_left():
    yield
    from vagen_envs.primitive_skill.sessions import close_pools

    close_pools()


def make(workers=0):
    return gym.make(PLACE, observation="text", workers=workers).unwrapped


def pooled():
    """One that plays in a worker. All tests share a pool of two: each start of a worker takes six seconds of a core."""
    return make(workers=2)


def test_a_snapshot_passes_between_other_numbers_of_workers():
    moment = make(workers=1).snapshot()
    for workers in (0, 2):
        env = make(workers)
        env.restore(moment)
        assert env.snapshot() == moment


def finish(env):
    """Let the oracle play on: the states."""
    return [turn.after for turn in oracle.finish(env)]


def kill(worker):
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()


def test_a_worker_killed_between_turns_costs_nothing():
    untouched, env = make(), pooled()
    for each in (untouched, env):
        each.reset(seed=4)
        each.step(each.oracle_reply())
    before = env._session._worker
    kill(before)
    assert finish(env) == finish(untouched)
    assert env._session._worker is not before
    env.close()


def test_a_worker_killed_during_a_turn_loses_that_episode_only():
    env, elsewhere, beside = (
        pooled(),
        pooled(),
        pooled(),
    )  # who comes third gets the worker with the fewest sessions
    expected = make()
    for each, seed in ((env, 5), (elsewhere, 7), (beside, 6), (expected, 6)):
        each.reset(seed=seed)
    worker = env._session._worker
    assert beside._session._worker is worker
    answer, at_work = worker._answer, threading.Event()
    worker._answer = lambda *seconds: at_work.set() or answer(*seconds)
    killer = threading.Thread(
        target=lambda: at_work.wait() and os.kill(worker.process.pid, signal.SIGKILL)
    )
    killer.start()
    with pytest.raises(SimulatorError, match="killed by SIGKILL; another takes its place"):
        env.step(
            "<think><observation></observation><prediction></prediction></think><answer>pick(0,0,20)</answer>"
        )
    killer.join()
    assert finish(beside) == finish(expected)
    env.reset(seed=6)
    assert finish(env)[-1] == expected.true_state
    for each in (env, elsewhere, beside):
        each.close()


def test_forked_processes_simulate_too():
    """Vulkan's and PyTorch's threads don't survive a fork; a child of a process that has simulated must still work."""
    env = make()
    env.reset(seed=0)
    expected = env.true_state
    env.close()
    envs = gym.make_vec(
        PLACE,
        num_envs=2,
        vectorization_mode="async",
        vector_kwargs={"context": "fork", "shared_memory": False},
        observation="text",
        workers=0,
    )
    _, info = envs.reset(seed=[0, 0])
    assert [state == expected for state in info["state"]] == [True, True]
    envs.close()


def test_conforms():
    check(
        PLACE, seeds=(0,), observation="text", workers=2
    )  # six seeds of each id: test_primitive_env, slow
