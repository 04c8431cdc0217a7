"""The socket to a worker process."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

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
