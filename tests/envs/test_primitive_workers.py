"""Workers that die, for real."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.conformance import check
from vagen_envs.errors import SimulatorError

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(importlib.util.find_spec("mani_skill") is None, reason="needs the extra primitive-skill"),
]

PLACE = "vagen/PrimitiveSkillPlace-v0"


@pytest.fixture(scope="module", autouse=True)
def no_workers_left():
    yield
    from vagen_envs.primitive_skill.workers import close_pools

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
    states, over = [], False
    while not over:
        *_, terminated, truncated, info = env.step(env.oracle_reply())
        states.append(info["state"])
        over = terminated or truncated
    return states


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
    env, elsewhere, beside = pooled(), pooled(), pooled()  # who comes third gets the worker with the fewest sessions
    expected = make()
    for each, seed in ((env, 5), (elsewhere, 7), (beside, 6), (expected, 6)):
        each.reset(seed=seed)
    worker = env._session._worker
    assert beside._session._worker is worker
    answer, at_work = worker._answer, threading.Event()
    worker._answer = lambda *seconds: at_work.set() or answer(*seconds)
    killer = threading.Thread(target=lambda: at_work.wait() and os.kill(worker.process.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(SimulatorError, match="killed by SIGKILL; another takes its place"):
        env.step("<think><observation></observation><prediction></prediction></think><answer>pick(0,0,20)</answer>")
    killer.join()
    assert finish(beside) == finish(expected)
    env.reset(seed=6)
    assert finish(env)[-1] == expected.true_state
    for each in (env, elsewhere, beside):
        each.close()


def test_the_vector_form_goes_on_when_a_worker_is_killed():
    envs = gym.make_vec(PLACE, num_envs=3, vectorization_mode="vector_entry_point",
                        workers=2, observation="text")  # fmt: skip
    inner = envs.unwrapped
    texts = envs.reset(seed=0)[0]["text"]
    assert len(texts) == 3
    replies = [env.oracle_reply() for env in inner.envs]
    workers = [env._session._worker for env in inner.envs]
    lone = next(i for i, worker in enumerate(workers) if workers.count(worker) == 1)  # two share a worker
    answer, victim = workers[lone]._answer, workers[lone]
    victim._answer = lambda *seconds: os.kill(victim.process.pid, signal.SIGKILL) or answer(*seconds)
    _, rewards, terminated, truncated, info = envs.step(replies)
    others = [i for i in range(3) if i != lone]
    assert truncated.tolist() == [i == lone for i in range(3)]
    assert not terminated.any()
    assert rewards[lone] == 0
    assert min(rewards[i] for i in others) > 5
    assert "SIGKILL" in info["simulator_error"][lone]
    assert all(info["simulator_error"][i] is None for i in others)
    replies = ["" if i == lone else env.oracle_reply() for i, env in enumerate(inner.envs)]
    _, rewards, terminated, truncated, _ = envs.step(replies)
    assert terminated.tolist() == [i != lone for i in range(3)]
    assert not truncated.any()
    envs.step([env.oracle_reply() if i == lone else "" for i, env in enumerate(inner.envs)])
    *_, terminated, _, _ = envs.step([env.oracle_reply() for env in inner.envs])
    assert terminated.tolist() == [i == lone for i in range(3)]
    envs.close()


def test_seeds_of_the_vector_form_are_those_of_single_environments():
    envs = gym.make_vec(PLACE, num_envs=2, vectorization_mode="vector_entry_point",
                        workers=2, observation="text")  # fmt: skip
    texts = envs.reset(seed=8)[0]["text"]
    alone = pooled()
    assert [alone.reset(seed=seed)[0]["text"] for seed in (8, 9)] == list(texts)
    alone.close()
    envs.close()


def test_forked_processes_simulate_too():
    """Vulkan's and PyTorch's threads don't survive a fork; a child of a process that has simulated must still work."""
    env = make()
    env.reset(seed=0)
    expected = env.true_state
    env.close()
    envs = gym.make_vec(PLACE, num_envs=2, vectorization_mode="async",
                        vector_kwargs={"context": "fork", "shared_memory": False}, observation="text", workers=0)  # fmt: skip
    _, info = envs.reset(seed=[0, 0])
    assert [state == expected for state in info["state"]] == [True, True]
    envs.close()


def test_conforms():
    check(PLACE, seeds=(0,), observation="text", workers=2)  # six seeds of each id: test_primitive_env, slow
