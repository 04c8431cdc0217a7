"""The next rollout is begun beside the updates of this one, by a schedule that no clock decides.

Beside each of a rollout's last updates some turns of the next rollout are played, in a thread and
with the weights as they were when that update began; then the weights change, and the same episodes
go on with the new ones. How many turns follows from how many the rollout before took. So a run is
the same however long anything takes.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode
from vagen_adapters.ppo.rollout import Rollout


class AsyncRollout:
    """A rollout that is played in parts, beside a number of `updates`.

    It has environments of its own and plays in one thread, because simulators belong to a thread.
    """

    def __init__(
        self,
        rollout: Rollout,
        updates: int,
        autocast: Callable[[], contextlib.AbstractContextManager[Any]],
        *,
        snapshots: bool = False,
    ) -> None:
        self.rollout = rollout
        self.updates = updates
        self.autocast = autocast
        self.snapshots = snapshots
        self._thread = ThreadPoolExecutor(1, "ahead")
        self._part: Future[None] | None = None
        self._turns: Iterator[None] | None = None
        self._episodes: list[PPOEpisode] = []
        self._share = 0
        self._begun: tuple[tuple[LevelSeed, ...], int] | None = None

    def play(self, levels: Sequence[LevelSeed], seed: int, version: int) -> None:
        """Begin or continue levels with the weights of this `version`, for a part of their turns;
        returns at once.
        """
        self.wait()
        if self._turns is None:
            # As many as make all parts and the rest at the end equal.
            self._share = math.ceil(self.rollout.calls / (self.updates + 1))
            self._begin(levels, seed)
        self._take_over(version)
        self._part = self._thread.submit(self._some, self._share)

    def finish(self, levels: Sequence[LevelSeed], seed: int, version: int) -> list[PPOEpisode]:
        """Play these levels to their end with the weights as they are now, from where they are if
        they were begun.
        """
        self.wait()
        if self._begun != (tuple(levels), seed):
            self._begin(levels, seed)
        self._take_over(version)
        self._thread.submit(self._some, None).result()
        self._turns = self._begun = None
        return self._episodes

    def wait(self) -> None:
        """Until the part that is played now is over. Raises what it raised."""
        if self._part is not None:
            part = self._part
            self._part = None
            part.result()

    def _begin(self, levels: Sequence[LevelSeed], seed: int) -> None:
        self._begun = (tuple(levels), seed)
        self._episodes = [PPOEpisode(level) for level in levels]
        self._turns = self.rollout.turns(self._episodes, seed, snapshots=self.snapshots)

    def _take_over(self, version: int) -> None:
        self.rollout.sampler.sync()
        self.rollout.version = version

    def _some(self, turns: int | None) -> None:
        assert self._turns is not None  # noqa: S101 - for the type checker
        with self.autocast():
            for _ in itertools.islice(self._turns, turns):
                pass
