"""The socket to a worker process, and what vector environments take."""

from __future__ import annotations

import os
import signal
import sys
import threading

import gymnasium as gym
import numpy as np
import pytest

from vagen_envs.errors import ConfigError, ReplyTypeError
from vagen_envs.vectors import TurnVectorEnv
from vagen_envs.workers import Worker, WorkerDied

MODULE = """
import contextlib, sys, time
from multiprocessing.connection import Connection
from vagen_envs.workers import answer_calls

def answer(word, seconds):
    time.sleep(seconds)
    return word

with contextlib.suppress(EOFError, OSError):
    answer_calls(Connection(int(sys.argv[1])), answer, lambda: None)
"""


def test_the_answer_of_an_interrupted_call_is_not_given_to_the_next(tmp_path, monkeypatch):
    (tmp_path / "a_worker.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    worker = Worker("x", "a_worker")
    assert worker.call("first", 0) == "first"
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        worker.call("interrupted", 1)
    with pytest.raises(WorkerDied, match="interrupted"):
        worker.call("next", 0)
    worker.close()


class Lakes(TurnVectorEnv):
    def __init__(self):
        self._take_over([gym.make("vagen/FrozenLake-v0").unwrapped for _ in range(2)])

    def reset(self, *, seed=None, options=None):
        results = [env.reset(seed=each) for env, each in zip(self.envs, self._seeds(seed), strict=True)]
        self._ended[:] = False
        return self._batch([shown for shown, _ in results]), self._infos([info for _, info in results])

    def step(self, actions):
        return self._together_stepped(
            [env.step(each) for env, each in zip(self.envs, self._replies(actions), strict=True)]
        )


def levels(seed):
    return Lakes().reset(seed=seed)[1]["level"]["seed"].tolist()


def test_seeds_are_one_for_each_or_one_to_count_from():
    assert levels(7) == levels(np.int64(7)) == levels([7, 8]) == [7, 8]
    for wrong in ([7], [7, 8, 9], "78", 1.5):
        with pytest.raises(ConfigError, match="seed="):
            levels(wrong)


@pytest.mark.parametrize("wrong", ["UU", ["Up"], ["Up"] * 3, ["Up", None], ["Up", b"Up"], None])
def test_replies_are_one_for_each_and_text(wrong):
    envs = Lakes()
    envs.reset(seed=1)
    with pytest.raises(ReplyTypeError, match="2 environments"):
        envs.step(wrong)
    assert all(env._turns == 0 for env in envs.envs)


def test_a_reply_to_an_ended_episode_is_not_looked_at():
    assert Lakes()._replies([None, None]) == [None, None]
