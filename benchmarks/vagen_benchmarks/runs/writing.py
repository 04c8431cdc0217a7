"""Episodes on their way to the run folder, some at once: in the event loop, or in a thread where that takes long."""

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
"""Seconds in which episodes gather: storing thirty at once takes a tenth off a turn's time."""

EpisodeName = tuple[str, str, str, str, int, int]
"""Key, agent, task, split, seed and repeat, as in `Episode.played`."""
_Waiting = tuple[EpisodeName, Played]


class Writer:
    """Stores episodes, as many at once as have gathered.

    Those of quick environments are stored in the event loop: their pictures are small and mostly drawn for the model
    already, and a thread that hashes and encodes them beside a busy loop has to be given the interpreter for each,
    which made a turn a fifth dearer. A simulator's pictures take milliseconds, and have a thread.

    Args:
        told: called with each episode once it is stored, one at a time.
    """

    def __init__(self, folder: RunWriter, told: Callable[[Episode], None]) -> None:
        self._folder, self._told = folder, told
        self._gathered: list[_Waiting] = []
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._stored = 0.0
        self._count = 0
        self._room: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broke: Callable[[BaseException], None] = lambda _: None
        self._error: BaseException | None = None
        self._storing = threading.Lock()
        self._dollars, self._tokens = 0.0, 0
        self._thread: threading.Thread | None = None

    def on_error(self, loop: asyncio.AbstractEventLoop, call: Callable[[BaseException], None]) -> None:
        """Whom to tell in which loop when something can't be stored."""

        def broke(error: BaseException) -> None:
            with contextlib.suppress(RuntimeError):  # all was played, and the loop ended before this was found
                loop.call_soon_threadsafe(call, error)

        self._loop, self._broke = loop, broke

    async def put(self, name: EpisodeName, played: Played, *, quick: bool) -> None:
        """Give an episode over. Waits while too many aren't stored yet."""
        if quick:
            self._gathered.append((name, played))
            if time.monotonic() - self._stored >= GATHERING:
                self._store_gathered()
                await asyncio.sleep(0)  # an agent that never waits leaves the loop no other moment
            elif len(self._gathered) == 1:
                asyncio.get_running_loop().call_later(GATHERING, self._store_gathered)
            return
        while self._count >= MOST_WAITING:
            self._room = self._room or asyncio.Event()
            await self._room.wait()
        self._count += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
            self._thread.start()
        self._waiting.put((name, played))

    def _taken(self, count: int) -> None:
        """So many are stored, or can't be; in the loop's thread."""
        self._count -= count
        if self._room is not None:
            self._room.set()
            self._room = None

    def close(self) -> tuple[float, int]:
        """Store the rest. Returns the dollars and tokens of what was stored."""
        self._store_gathered()
        if self._thread is not None:
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
            self._store(played)
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the run has ended meanwhile
                    self._loop.call_soon_threadsafe(self._taken, len(played))

    def _store_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._store(gathered)
        self._stored = time.monotonic()

    def _store(self, batch: Sequence[_Waiting]) -> None:
        with self._storing:
            if self._error is not None or not batch:
                return
            try:
                episodes = [
                    Episode.played(name, each.turns, each.calls, each.ended, each.content, each.summaries)
                    for name, each in batch
                ]
                pictures = (picture for _, each in batch for turn in each.turns for picture in turn.pictures)
                self._folder.add_all(episodes, pictures)
                for episode in episodes:
                    self._count_in(episode)
                    self._told(episode)
            except BaseException as error:  # a full disk, a defect of ours: the run must not go on
                self._error = error
                self._broke(error)

    def _count_in(self, episode: Episode) -> None:
        for call in episode.all_calls:
            self._dollars += call["dollars"] or 0.0
            self._tokens += (call["prompt_tokens"] or 0) + (call["completion_tokens"] or 0)
