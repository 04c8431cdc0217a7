"""An event loop whose clock jumps to the next timer when nothing else is left to do."""

from __future__ import annotations

import asyncio
import selectors
import time


class _Jumping(selectors.DefaultSelector):
    """Waits no time; the loop's clock moves on instead."""

    now = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """For coroutines that sleep and read the clock, and neither threads nor sockets that others answer."""

    def __init__(self):
        self.clock = _Jumping()
        super().__init__(self.clock)

    def time(self):
        return self.clock.now


def run(coroutine, monkeypatch):
    """Run a coroutine in virtual time: `asyncio.sleep` and `time.monotonic` follow one clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        loop.clock.now = time.monotonic()  # some have read the real clock already
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", loop.time)
            return runner.run(coroutine)
