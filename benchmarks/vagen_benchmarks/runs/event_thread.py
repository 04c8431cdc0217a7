"""Run a coroutine in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any


def in_a_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a thread with its own event loop, since a notebook's thread has a running
    one already.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    thread = threading.Thread(
        target=asyncio.Runner(loop_factory=lambda: loop).run, args=(_ended(task),), daemon=True
    )
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)  # in steps, so that Ctrl-C is noticed
    except KeyboardInterrupt:
        with contextlib.suppress(RuntimeError):  # it has ended meanwhile
            loop.call_soon_threadsafe(task.cancel)
        thread.join(5.0)
        raise
    if not task.cancelled():
        task.result()


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
