"""An episode's simulators, in this process."""

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
    """Simulates levels and skills.

    PhysX can't be put back to an earlier moment exactly, but the same skills on the same level give the same, bit for
    bit. Every call names the level and the skills since its start; those that its simulator has played aren't repeated.
    A second simulator looks ahead, so that the first one needn't play the episode again.
    """

    def __init__(self, picture_size: int, device: str) -> None:
        self._now, self._ahead = _Played(picture_size, device), _Played(0, device)

    def run(self, level: ManipulationLevel, calls: Sequence[SkillCall]) -> tuple[str, Facts]:
        """What the last of the skills reports as failed, if anything, and what is true then."""
        return self._now.bring(level, calls)

    def imagine(self, level: ManipulationLevel, calls: Sequence[SkillCall]) -> tuple[str, Facts]:
        """`run` in the other simulator, without pictures."""
        return self._ahead.bring(level, calls)

    def picture(self, level: ManipulationLevel, calls: Sequence[SkillCall]) -> Pixels:
        """What the camera sees after the skills, uint8 (size, size, 3). A fresh array."""
        self._now.bring(level, calls)
        assert self._now.simulator is not None  # noqa: S101 - just brought there
        return self._now.simulator.picture()

    def close(self) -> None:
        """Free the scenes. May be called twice."""
        for played in (self._now, self._ahead):
            if played.simulator is not None:
                played.simulator.close()
                played.simulator = None


class _Played:
    """A simulator, and what it has played."""

    def __init__(self, picture_size: int, device: str) -> None:
        self._options = picture_size, device
        self.simulator: ManipulationSimulator | None = None
        self._level: ManipulationLevel | None = None
        self._calls: list[SkillCall] = []

    def bring(self, level: ManipulationLevel, calls: Sequence[SkillCall]) -> tuple[str, Facts]:
        """Play what is missing."""
        global _owner
        from vagen_envs.primitive_skill.simulator import ManipulationSimulator  # brings torch and ManiSkill

        _owner = _owner or os.getpid()
        played, failed = len(self._calls), ""
        if self.simulator is None or self._level != level or self._calls != list(calls[:played]):
            self._level = None  # unknown, should the simulator break
            if self.simulator is None:
                self.simulator = ManipulationSimulator(level, *self._options)
            else:
                self.simulator.load(level)
            played = 0
        self._level = None
        for call in calls[played:]:
            failed = self.simulator.run(call)
        self._level, self._calls = level, list(calls)
        return failed, self.simulator.facts()


def is_forked() -> bool:
    """Whether a process before this one has started a simulator, so that none can be started here any more."""
    return _owner is not None and _owner != os.getpid()
