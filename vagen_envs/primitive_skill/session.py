"""One level being played, in this process or in a worker."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from vagen_envs.primitive_skill.levels import Facts, Level
from vagen_envs.primitive_skill.skills import Call

if TYPE_CHECKING:
    from vagen_envs.primitive_skill.simulator import Simulator

Pixels = NDArray[np.uint8]

_owner: int | None = None
"""The process that first started a simulator here. Its driver's threads don't survive a fork."""


class Session(Protocol):
    """A level being played."""

    def load(self, level: Level) -> Facts:
        """Begin a level."""

    def run(self, call: Call) -> tuple[str, Facts]:
        """Carry out a skill: what failed, if anything, and what is true then."""

    def imagine(self, calls: Sequence[Call]) -> Facts:
        """What would be true after further skills. Changes nothing."""

    def picture(self) -> Pixels:
        """What the camera sees, uint8 (size, size, 3). A fresh array."""

    def close(self) -> None:
        """Free the scene. May be called twice."""


class LocalSession:
    """A session in this process.

    Looking ahead is done by a twin that has played the same: the physics engine can't be put back to
    an earlier moment exactly, but the same skills on the same level give the same, bit for bit. The
    twin is made when it is first needed, and goes on from where it is as long as its past fits.
    """

    def __init__(self, picture_size: int) -> None:
        self._picture_size = picture_size
        self._now: Simulator | None = None
        self._twin: Simulator | None = None
        self._twin_past: list[Call] | None = None

    def load(self, level: Level) -> Facts:
        self._level = level
        self._past: list[Call] = []
        self._twin_past = None
        self._now = _loaded(self._now, level, self._picture_size)
        return self._now.facts()

    def run(self, call: Call) -> tuple[str, Facts]:
        assert self._now is not None, "load comes first"  # noqa: S101
        self._past.append(call)
        return self._now.run({0: call})[0], self._now.facts()

    def imagine(self, calls: Sequence[Call]) -> Facts:
        wanted = [*self._past, *calls]
        if self._twin is None or self._twin_past is None or self._twin_past != wanted[: len(self._twin_past)]:
            self._twin = _loaded(self._twin, self._level, 0)
            self._twin_past = []
        past = self._twin_past
        assert past is not None  # noqa: S101
        for call in wanted[len(past) :]:
            self._twin.run({0: call})
            past.append(call)
        return self._twin.facts()

    def picture(self) -> Pixels:
        assert self._now is not None, "load comes first"  # noqa: S101
        pixels: Pixels = self._now.pictures()[0]
        return pixels

    def close(self) -> None:
        for simulator in (self._now, self._twin):
            if simulator is not None:
                simulator.close()
        self._now = self._twin = None


def is_forked() -> bool:
    """Whether a process before this one has started a simulator, so that none can be started here any more."""
    return _owner is not None and _owner != os.getpid()


def _loaded(simulator: Simulator | None, level: Level, picture_size: int) -> Simulator:
    global _owner
    with _nothing_collected():
        from vagen_envs.primitive_skill.simulator import Simulator  # brings torch and ManiSkill

    if _owner is None:
        _owner = os.getpid()
        # ManiSkill collects garbage twice a reset, which would read all of PyTorch each time: 0.2 s of 0.4.
        gc.collect()
        gc.freeze()
    if simulator is None:
        return Simulator([level], picture_size)
    simulator.load({0: level})
    return simulator


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """While modules are imported nothing becomes garbage; to look for it takes 0.35 s of the 2.2."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
