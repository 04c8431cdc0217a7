"""Options of environments whose levels are drawn by the length of their shortest solution."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from vagen_envs.bounds import (
    Whole,
)
from vagen_envs.config import MOST, EnvConfig


@dataclass(frozen=True, kw_only=True)
class SolvableConfig(EnvConfig):
    """Options of an environment whose levels are drawn by the length of their shortest solution.

    Turns and steps that aren't given are as many as the longest level needs. A window that isn't
    given ends where given turns and steps do. Values that don't fit are refused: its oracle
    couldn't solve it.
    """

    spare_steps: ClassVar[int] = 0
    """Actions that turns and steps which aren't given leave beyond the longest solution."""

    min_solution_length: Annotated[int, Whole(1, MOST)] = 5
    max_solution_length: Annotated[int, Whole(1, MOST)] = 9

    def __post_init__(self) -> None:
        EnvConfig.__post_init__(self)
        least = self.min_solution_length
        self.require(
            self.max_solution_length >= least,
            "max_solution_length",
            f"at least min_solution_length={least}",
        )
        longest = self.longest_solution()
        turns = -(-longest // self.max_actions_per_turn)
        why = f"a level may take {longest} actions, {self.max_actions_per_turn} a turn"
        self.require(self.max_turns >= turns, "max_turns", f"at least {turns}: {why}")
        self.require(
            self.max_steps >= longest, "max_steps", f"at least {longest}, which a level may take"
        )

    def longest_solution(self) -> int:
        """Most actions of a shortest solution of any level."""
        return self.max_solution_length

    @classmethod
    def _following(cls, given: Mapping[str, Any], least: int = 1) -> dict[str, Any]:
        """Turns, steps and window; where nothing else bounds the longest solution it is at least
        `least`.
        """
        values: dict[str, Any] = {
            field.name: field.default for field in dataclasses.fields(cls)
        } | dict(given)
        longest = values["max_solution_length"]
        if "max_solution_length" not in given:
            allowed = []
            if "max_turns" in given:
                allowed.append(values["max_turns"] * values["max_actions_per_turn"])
            if "max_steps" in given:
                allowed.append(values["max_steps"])
            longest = min([max(longest, least), *allowed])
        steps = longest + cls.spare_steps
        return {
            "max_solution_length": longest,
            "min_solution_length": min(values["min_solution_length"], longest),
            "max_turns": max(values["max_turns"], -(-steps // values["max_actions_per_turn"])),
            "max_steps": max(values["max_steps"], steps),
        }
