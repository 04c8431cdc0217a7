"""SIGTERM and SIGUSR1, by which clusters say that a job's time is over, as a request that a
training looks at.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

# Windows has no SIGUSR1.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name))


class StopRequest:
    """Notes that a signal has come, from `listen` to `restore`. Python only lets the main thread
    listen.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._before: dict[int, Any] = {}

    def listen(self) -> None:
        """Take the signals over."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}

    def restore(self) -> None:
        """Give them back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, _: FrameType | None) -> None:
        self.received = signal.Signals(number).name
