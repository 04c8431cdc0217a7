"""One level being played, in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vagen_envs.pictures import Pixels
from vagen_envs.primitive_skill.levels import Facts, ManipulationLevel
from vagen_envs.primitive_skill.skills import SkillCall

if TYPE_CHECKING:
    from vagen_envs.primitive_skill.simulator import ManipulationSimulator

_owner: int | None = None
"""The process that first started a simulator here. Its driver's threads don't survive a fork."""


class LocalSession:
    """A session in this process.

    A second simulator looks ahead, since PhysX can't be put back to an earlier moment exactly, but the same skills on
    the same level give the same, bit for bit. It is made when it is first needed, and goes on from where it is as long
    as its past fits.
    """

    def __init__(self, picture_size: int, device: str) -> None:
        self._picture_size, self._device = picture_size, device
        self._now: ManipulationSimulator | None = None
        self._twin: ManipulationSimulator | None = None
        self._twin_past: list[SkillCall] | None = None

    def load(self, level: ManipulationLevel) -> Facts:
        """Begin a level."""
        self._level = level
        self._past: list[SkillCall] = []
        self._twin_past = None
        self._now = self._loaded(self._now, self._picture_size)
        return self._now.facts()

    def run(self, call: SkillCall) -> tuple[str, Facts]:
        """Carry out a skill. Returns what failed, if anything, and what is true then."""
        assert self._now is not None, "load comes first"  # noqa: S101
        self._past.append(call)
        return self._now.run(call), self._now.facts()

    def imagine(self, calls: Sequence[SkillCall]) -> Facts:
        """What would be true after further skills. Changes nothing."""
        wanted = [*self._past, *calls]
        if self._twin is None or self._twin_past is None or self._twin_past != wanted[: len(self._twin_past)]:
            self._twin, self._twin_past = self._loaded(self._twin, 0), []
        for call in wanted[len(self._twin_past) :]:
            self._twin.run(call)
            self._twin_past.append(call)
        return self._twin.facts()

    def picture(self) -> Pixels:
        """What the camera sees, uint8 (size, size, 3). A fresh array."""
        assert self._now is not None, "load comes first"  # noqa: S101
        return self._now.picture()

    def close(self) -> None:
        """Free the scenes. May be called twice."""
        for simulator in (self._now, self._twin):
            if simulator is not None:
                simulator.close()
        self._now = self._twin = None

    def _loaded(self, simulator: ManipulationSimulator | None, picture_size: int) -> ManipulationSimulator:
        global _owner
        from vagen_envs.primitive_skill.simulator import ManipulationSimulator  # brings torch and ManiSkill

        _owner = _owner or os.getpid()
        if simulator is None:
            return ManipulationSimulator(self._level, picture_size, self._device)
        simulator.load(self._level)
        return simulator


def is_forked() -> bool:
    """Whether a process before this one has started a simulator, so that none can be started here any more."""
    return _owner is not None and _owner != os.getpid()
