"""Episodes on their way to the run folder: a thread stores what has gathered, so that nobody waits for the disk."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence

from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.playing import Played
from vagen_benchmarks.runs.run_folder import RunWriter

MOST_WAITING = 256
"""Episodes in memory that aren't stored yet, before seats wait."""


GATHERING = 0.02
"""Seconds in which episodes gather: a thread that is woken for each takes the interpreter from all who play."""

EpisodeName = tuple[str, str, str, str, int, int]
"""Key, agent, task, split, seed and repeat, as in `Episode.played`."""


class Writer:
    """Stores episodes in a thread, as many at once as there are.

    Args:
        told: called in that thread with each episode once it is stored.
    """

    def __init__(self, folder: RunWriter, told: Callable[[Episode], None]) -> None:
        self._folder, self._told = folder, told
        self._waiting: queue.SimpleQueue[tuple[EpisodeName, Played] | None] = queue.SimpleQueue()
        self._count = 0
        self._room: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broke: Callable[[BaseException], None] = lambda _: None
        self._error: BaseException | None = None
        self._dollars, self._tokens = 0.0, 0
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def on_error(self, loop: asyncio.AbstractEventLoop, call: Callable[[BaseException], None]) -> None:
        """Whom to tell in which loop when something can't be stored."""

        def broke(error: BaseException) -> None:
            with contextlib.suppress(RuntimeError):  # all was played, and the loop ended before this was found
                loop.call_soon_threadsafe(call, error)

        self._loop, self._broke = loop, broke

    async def put(self, name: EpisodeName, played: Played) -> None:
        """Give an episode over. Waits while too many aren't stored yet."""
        while self._count >= MOST_WAITING:
            self._room = self._room or asyncio.Event()
            await self._room.wait()
        self._count += 1
        self._waiting.put((name, played))

    def _taken(self, count: int) -> None:
        """So many are stored, or can't be; in the loop's thread."""
        self._count -= count
        if self._room is not None:
            self._room.set()
            self._room = None

    def close(self) -> tuple[float, int]:
        """Store the rest. Returns the dollars and tokens of what was stored."""
        self._waiting.put(None)
        self._thread.join()
        return self._dollars, self._tokens

    def check(self) -> None:
        """Raise what kept an episode from being stored, if anything did."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        more = True
        while more:
            batch = [self._waiting.get()]
            time.sleep(GATHERING)
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            more = None not in batch
            played = [each for each in batch if each is not None]
            if self._error is None and played:
                try:
                    self._store(played)
                except BaseException as error:  # a full disk, a defect of ours: the run must not go on
                    self._error = error
                    self._broke(error)
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the run has ended meanwhile
                    self._loop.call_soon_threadsafe(self._taken, len(played))

    def _store(self, batch: Sequence[tuple[EpisodeName, Played]]) -> None:
        episodes = [Episode.played(name, each.turns, each.calls, each.ended, each.content) for name, each in batch]
        pictures = (picture for _, each in batch for turn in each.turns for picture in turn.pictures)
        self._folder.add_all(episodes, pictures)
        for episode in episodes:
            for call in filter(None, episode.calls):
                self._dollars += call["dollars"] or 0.0
                self._tokens += (call["prompt_tokens"] or 0) + (call["completion_tokens"] or 0)
            self._told(episode)
