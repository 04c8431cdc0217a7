"""Turns enough for the level, and levels that the turns are enough for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from vagen_envs.bounds import Whole
from vagen_envs.config import MOST, EnvConfig


@dataclass(frozen=True, kw_only=True)
class SolvableConfig(EnvConfig):
    """Options of an environment whose levels are drawn by the length of their shortest solution.

    Turns and steps that aren't given are as many as the longest level needs. A window that isn't given ends
    where given turns and steps do. Values that don't fit are refused: its oracle couldn't solve it.
    """

    spare_steps: ClassVar[int] = 0
    """Actions that turns and steps which aren't given leave beyond the longest solution."""

    min_solution_length: Annotated[int, Whole(1, MOST)] = 5
    max_solution_length: Annotated[int, Whole(1, MOST)] = 9

    def __post_init__(self) -> None:
        EnvConfig.__post_init__(self)
        self.require(
            self.min_solution_length <= self.max_solution_length,
            "max_solution_length",
            f"at least min_solution_length={self.min_solution_length}",
        )
        longest = self.longest_solution()
        turns = -(-longest // self.max_actions_per_turn)
        why = f"a level may take {longest} actions, {self.max_actions_per_turn} a turn"
        self.require(self.max_turns >= turns, "max_turns", f"at least {turns}: {why}")
        self.require(self.max_steps >= longest, "max_steps", f"at least {longest}, which a level may take")

    def longest_solution(self) -> int:
        """Most actions of a shortest solution of any level."""
        return self.max_solution_length

    @classmethod
    def _usual_length(cls, given: Mapping[str, Any]) -> int:  # noqa: ARG003  (a hook)
        """`max_solution_length` where it isn't given and nothing else bounds it."""
        usual: int = cls._default("max_solution_length")
        return usual

    @classmethod
    def _following(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: cls._default(name) for name in _BUDGET} | {"max_solution_length": cls._usual_length(given)}
        values |= {name: value for name, value in given.items() if name in _BUDGET}
        if any(type(value) is not int or value < 1 for value in values.values()):
            return {}  # checked by the constructor
        follows = {}
        allowed = [values["max_turns"] * values["max_actions_per_turn"]] if "max_turns" in given else []
        allowed += [values["max_steps"]] if "max_steps" in given else []
        if "max_solution_length" not in given:
            follows["max_solution_length"] = min([values["max_solution_length"], *allowed])
        longest = follows.get("max_solution_length", values["max_solution_length"])
        follows["min_solution_length"] = min(values["min_solution_length"], longest)
        steps = longest + cls.spare_steps
        follows["max_turns"] = max(values["max_turns"], -(-steps // values["max_actions_per_turn"]))
        follows["max_steps"] = max(values["max_steps"], steps)
        return follows


_BUDGET = ("max_turns", "max_actions_per_turn", "max_steps", "min_solution_length", "max_solution_length")
