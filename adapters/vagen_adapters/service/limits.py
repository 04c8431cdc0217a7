"""Bounds of what one call may cost a worker. A call that passes a bound ends its own session and no
other.
"""

from __future__ import annotations

import resource
import signal
import threading
from dataclasses import dataclass
from types import FrameType

RESERVE = 64 << 20
"""Bytes of the memory that no call may use, so that the worker itself can still report what
happened.
"""
AGAIN = 0.2
"""CPU seconds after which a call that swallowed the exception gets it again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a worker process.

    Attributes:
        cpu: seconds of CPU, on all cores together, for opening, a reset or a turn; what an
            environment has a program of its own compute counts there. 0 for no bound.
        memory: bytes of data (`RLIMIT_DATA`) that the worker and each program that it starts may
            have. 0 for no bound. Not `RLIMIT_AS`: OpenGL and torch map gigabytes that they never
                touch.
    """

    cpu: float = 10.0
    memory: int = 4 << 30


class TooCostly(BaseException):
    """A call passed a bound. No `Exception`: an environment must not take it for a simulator that
    broke.
    """


UNLIMITED = Limits(0.0, 0)


class Guard:
    """Keeps the calls of this process within limits: `with guard: …` is one of them.

    Raises TooCostly, with the bound and the fix. CPU is bounded in the main thread only: signals
    arrive there. Memory is bounded all the time, a reserve below what is allowed; that is open from
    when a call ran out to the next one.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._at_work = False
        self._watches = bool(limits.cpu) and threading.current_thread() is threading.main_thread()
        self._reserve_is_open = True
        if self._watches:
            signal.signal(signal.SIGPROF, self._spent)

    def __enter__(self) -> None:
        if self._reserve_is_open and self._limits.memory:
            bound(self._limits.memory - RESERVE)
            self._reserve_is_open = False
        if self._watches:
            self._at_work = True
            signal.setitimer(signal.ITIMER_PROF, self._limits.cpu, AGAIN)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._watches:
            try:
                self._at_work = False
                signal.setitimer(signal.ITIMER_PROF, 0.0)
            finally:
                self._at_work = False  # whatever the signal interrupted
        if self._limits.memory and isinstance(error, Exception) and ran_out_of_memory(error):
            bound(self._limits.memory)
            self._reserve_is_open = True
            # What the call held is in its traceback.
            raise TooCostly(
                f"it needs more than the worker has left of its {self._limits.memory >> 20} MiB; "
                "ask for smaller pictures or fewer sessions, or start the server with a larger "
                "--worker-memory"
            ) from None

    def _spent(self, _: int, frame: FrameType | None) -> None:
        if self._at_work:  # a signal may arrive after its call
            raise TooCostly(
                f"it took more than {self._limits.cpu:g} s of CPU; ask for what is found sooner "
                "(a smaller size, a wider range of a solution's length), or start the server "
                "with a larger --call-cpu"
            )


def bound(memory: int) -> None:
    """Bound the data of this process and of programs that it starts from now on. More than allowed
    before is left.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory is the cause, even if an environment's message words it differently."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
