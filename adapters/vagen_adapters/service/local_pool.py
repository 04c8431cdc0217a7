"""A pool whose workers are processes on this machine."""

from __future__ import annotations

import asyncio
import select
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from vagen_adapters.service.host import Call
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.pipe import Unpacker, packed_calls, read_done
from vagen_adapters.service.pool import Pool, Told, tell_gone
from vagen_envs.workers import START_TIMEOUT, TIMEOUT, WorkerDied, cause_of_end, started

ENDING = 5.0
"""Seconds for a worker to end before it is killed."""


class LocalHost:
    """A worker process on this machine.

    Its answers are read by the event loop that it was told to attend, so that a turn wakes no thread; by a thread of
    its own where there is none.
    """

    def __init__(self, timeout: float = TIMEOUT, limits: Limits = Limits()) -> None:  # noqa: B008 - it is frozen
        bounds = (str(limits.cpu), str(limits.memory))
        self._process, self._socket = started("vagen_adapters.service.worker", *bounds)
        self.pid = self._process.pid
        self.pids: Sequence[int] = (self.pid,)
        self.where = f"process {self.pid}"
        self._timeout = timeout
        self._answers = Unpacker(self._socket)
        self._is_up = self._is_read = self._closed = False
        self._since = time.monotonic()  # since when it has been at work, or starting
        self._told: Told | None = None
        self._cause = ""
        self._late: TimeoutError | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        with self._lock:
            if self._is_read or self._closed:
                return
            self._is_read = True
            self._loop = loop
        if loop is None:
            threading.Thread(target=self._read, name=self.where, daemon=True).start()
        else:
            self._socket.setblocking(False)
            loop.call_soon_threadsafe(loop.add_reader, self._socket.fileno(), self._readable)

    def begin(self, calls: Sequence[Call], told: Told) -> None:
        with self._lock:
            cause, self._told = self._cause, None if self._cause else told
            if self._is_up:
                self._since = time.monotonic()
        if cause:
            tell_gone(told, cause)
            return
        self.attend(None)
        data = packed_calls(calls)
        try:
            sent = self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it is gone, which is told when its answers end
        if sent < len(data):  # more than fits between the processes: whoever asks doesn't wait for it
            threading.Thread(target=self._send, args=(data[sent:],), daemon=True).start()

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._cause:
            try:
                view = view[self._socket.send(view, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                # A worker reads on when its turn is over; those of grids take 0.6 ms.
                time.sleep(0.001)
            except OSError:
                return

    def _read(self) -> None:
        while self._take(0):
            pass

    def _readable(self) -> None:
        self._take(socket.MSG_DONTWAIT)

    def _take(self, flags: int) -> bool:
        """Read once. Whether there is more to come."""
        messages: list[Any] | None = None
        try:
            messages = self._answers.receive(flags)
        except BlockingIOError:
            return True
        except OSError:  # it is gone
            pass
        if messages is None:
            if self._loop is not None:
                self._loop.remove_reader(self._socket.fileno())
            threading.Thread(target=self._bury, daemon=True).start()  # it may take a moment to end
            return False
        for message in messages:
            with self._lock:
                told = self._told if self._is_up else None
                if self._is_up:
                    self._told = None
                self._is_up, self._since = True, time.monotonic()
            if told is not None:
                told(read_done(message), None)
        return True

    def _bury(self) -> None:
        cause = cause_of_end(self._process, self._late or EOFError())
        with self._lock:
            self._cause = cause
            told, self._told = self._told, None
        self._socket.close()
        if told is not None:
            told([], WorkerDied(cause, during=True))

    def is_ready(self) -> bool:
        if not self._is_read:  # its first message says that it is up
            arrival = select.poll()
            arrival.register(self._socket.fileno(), select.POLLIN)
            return bool(arrival.poll(0)) and self._process.poll() is None
        return self._is_up and self._process.poll() is None

    def cause_of_death(self) -> str:
        with self._lock:
            is_busy, seconds = self._told is not None or not self._is_up, time.monotonic() - self._since
        most = self._timeout if self._is_up else START_TIMEOUT
        if is_busy and seconds > most and self._late is None:
            self._late = TimeoutError(f"no answer within {most:.0f} s")
            self._process.kill()
        return "" if self._told is not None else self._cause

    def close(self) -> None:
        with self._lock:
            self._closed = True
            is_read, self._is_read = self._is_read, True
        self._process.terminate()
        try:
            self._process.wait(ENDING)
        except subprocess.TimeoutExpired:  # it stands still
            self._process.kill()
            self._process.wait()
        if not is_read:
            self._socket.close()


def local_pool(
    size: int = 2, most: int | None = None, *, sessions_each: int = 64, spare_after: float = 60.0,
    timeout: float = TIMEOUT, limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> Pool:  # fmt: skip
    """A pool of worker processes on this machine.

    A worker that doesn't answer for `timeout` seconds is killed; `limits` bounds what one call may cost it. The rest
    is as for `Pool`.
    """
    return Pool(lambda: LocalHost(timeout, limits), size, most, sessions_each, spare_after)
