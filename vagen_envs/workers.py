"""A process of this package's own, and the socket to it: started, asked, found dead, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from vagen_envs.errors import SimulatorError

TIMEOUT = 300.0
START_TIMEOUT = 900.0
"""Seconds after which a worker that doesn't answer, or doesn't start, is taken for dead. A robot's
skill takes a tenth of a second and a start ten, but a busy machine may take fifty times as long."""


class WorkerDied(Exception):  # noqa: N818 - not an error of the caller's
    """A worker is gone. `during` is true if it was at work on the call that found out."""

    def __init__(self, cause: str, *, during: bool = False) -> None:
        super().__init__(cause)
        self.during = during


class Worker:
    """One process and the socket to it. Calls of several threads wait for each other.

    Args:
        name: the environment that a SimulatorError of the worker names.
        module: run as `python -m MODULE FD ARGUMENTS…`; it calls `answer_calls`.
        arguments: for the module, after the number of its socket.
        timeout: seconds after which a worker that doesn't answer is killed.
        environment: variables that its environment has besides.
    """

    def __init__(
        self, name: str, module: str, *arguments: str, timeout: float = TIMEOUT, **environment: str
    ) -> None:
        self.process, ours = started(module, *arguments, **environment)
        self._name = name
        self._timeout = timeout
        self._connection = Connection(ours.detach())
        self._lock = threading.Lock()
        self.has_started = False
        self.sessions = 0
        self.dead = ""

    def call(self, *message: Any) -> Any:
        """Ask, and wait for the answer.

        Raises:
            WorkerDied: the process is gone, or doesn't answer any more and was killed.
            SimulatorError: the simulator itself failed; the worker lives on.
        """
        with self._lock:
            if self.dead:
                raise WorkerDied(self.dead, during=False)
            during = False
            try:
                if not self.has_started:
                    self._answer(START_TIMEOUT)
                    self.has_started = True
                self._connection.send(message)
                during = True
                return self._answer(self._timeout)
            except (EOFError, OSError) as error:
                self.dead = cause_of_end(self.process, error)
                raise WorkerDied(self.dead, during=during) from error
            except BaseException as error:
                if isinstance(error, Exception):
                    raise
                # the answer that is still to come would be taken for the next call's
                self.process.kill()
                self.dead = (
                    f"worker process {self.process.pid} was killed, since a call to it was "
                    "interrupted"
                )
                raise

    def _answer(self, timeout: float) -> Any:
        if not self._connection.poll(timeout):
            self.process.kill()
            raise TimeoutError(f"no answer within {timeout:.0f} s")
        good, result = self._connection.recv()
        if not good:
            raise SimulatorError(self._name, result)
        return result

    def close(self) -> None:
        """End the process."""
        self.dead = self.dead or "it was closed"
        self._connection.close()
        self.process.terminate()
        self.process.wait()


def started(
    module: str, *arguments: str, **environment: str
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process `python -m MODULE FD ARGUMENTS…` and a socket; FD is the process's end of it.

    Environment variables of the process are added to this one's.
    """
    ours, theirs = socket.socketpair()
    # Not multiprocessing: its children re-import __main__, and daemons such as AsyncVectorEnv's
    # can't have any.
    with theirs:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", module, str(theirs.fileno()), *arguments],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
    return process, ours


def cause_of_end(process: subprocess.Popen[bytes], error: Exception) -> str:
    """In words, why a process is gone whose socket gave this error. It is killed if it isn't
    gone.
    """
    try:
        # A process that ends closes its socket a moment before it can be waited for; one that
        # lingers hangs.
        code = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if isinstance(error, TimeoutError):
        return f"worker process {process.pid} gave {error} and was killed"
    if code < 0:
        return f"worker process {process.pid} was killed by {signal.Signals(-code).name}"
    return f"worker process {process.pid} ended with status {code}"


def answer_calls(
    connection: Connection, answer: Callable[..., Any], warm_up: Callable[[], object]
) -> None:
    """A worker's whole life: warm up, say so, and answer until the other end or the parent process
    is gone.

    Ctrl-C is for the process that started this one, which then ends it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    if not _say(connection, warm_up):
        return
    while True:
        while not connection.poll(5):
            if os.getppid() != parent:
                return
        _say(connection, answer, *connection.recv())


def _say(connection: Connection, call: Callable[..., Any], *message: Any) -> bool:
    try:
        answer = (True, call(*message))
    except Exception as error:
        cause = (
            error.cause if isinstance(error, SimulatorError) else f"{type(error).__name__}: {error}"
        )
        answer = (False, cause)
    connection.send(answer)
    return answer[0]
