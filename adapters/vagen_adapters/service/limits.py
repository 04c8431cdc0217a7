"""What one call may cost a worker. A call that passes a bound ends its own session, and nothing else in the worker."""

from __future__ import annotations

import contextlib
import resource
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

RESERVE = 64 << 20
"""Bytes of the memory that no call may touch, so that the worker itself can still say what happened."""
SLICE = 1.0
"""Seconds after which a worker answers what it has, and is asked for the rest: together, calls that keep to their bound
must not pass the time after which a silent worker is replaced."""
AGAIN = 0.2
"""CPU seconds after which a call that goes on all the same is told again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a worker process.

    Attributes:
        cpu: seconds of CPU, on all cores together, for opening, a reset or a turn; what an environment has a program
            of its own compute counts there. 0 for no bound.
        memory: bytes of data (`RLIMIT_DATA`) that the worker and each program that it starts may have. 0 for no
            bound. Not `RLIMIT_AS`: OpenGL and torch map gigabytes that they never touch.
    """

    cpu: float = 10.0
    memory: int = 4 << 30


class TooCostly(BaseException):
    """A call passed a bound. No `Exception`: an environment must not take it for a simulator that broke."""


class Guard:
    """Keeps the calls of this process within limits. CPU is bounded in the main thread only: signals arrive there."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._watches = threading.current_thread() is threading.main_thread()
        self._at_work = False
        if self._watches and limits.cpu:
            signal.signal(signal.SIGPROF, self._spent)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Around a call. Raises TooCostly, with the bound and the mend."""
        try:
            with self._memory(), self._cpu():
                yield
        except Exception as error:
            if not _ran_out_of_memory(error):
                raise
            left = f"{self._limits.memory >> 20} MiB" if self._limits.memory else "memory"
            raise TooCostly(
                f"it needs more than the worker has left of its {left}; ask for smaller pictures or fewer sessions, or "
                "start the server with a larger --worker-memory"
            ) from None  # what the call held is in its traceback
        finally:
            self._at_work = False  # whatever the signal interrupted

    @contextlib.contextmanager
    def _cpu(self) -> Iterator[None]:
        if not (self._watches and self._limits.cpu):
            yield
            return
        self._at_work = True
        signal.setitimer(signal.ITIMER_PROF, self._limits.cpu, AGAIN)
        try:
            yield
        finally:
            self._at_work = False
            signal.setitimer(signal.ITIMER_PROF, 0.0)

    def _spent(self, _: int, frame: FrameType | None) -> None:
        if self._at_work:  # a signal may arrive after its call
            raise TooCostly(
                f"it took more than {self._limits.cpu:g} s of CPU; ask for what is found sooner (a smaller size, a "
                "wider range of a solution's length), or start the server with a larger --call-cpu"
            )

    @contextlib.contextmanager
    def _memory(self) -> Iterator[None]:
        if not self._limits.memory:
            yield
            return
        bound(self._limits.memory - RESERVE)
        try:
            yield
        finally:
            bound(self._limits.memory)


def bound(memory: int) -> None:
    """Bound the data of this process and of programs that it starts from now on. More than allowed before is left."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether that is why, even if an environment said it in other words."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
