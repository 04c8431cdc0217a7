"""The robot's true state, as the paper's judge receives it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from vagen_envs.core import State

Seen = tuple[str, str, float]

_WHERE = {
    "ahead": "ahead of the agent",
    "right": "to the right of the agent",
    "left": "to the left of the agent",
    "back": "behind the agent",
}
OUT_OF_SIGHT = "out of sight"
"""The description of a target that can't be seen from the agent's place in any direction."""


@dataclass(frozen=True, slots=True)
class NavigationState(State):
    """A moment of the search (VAGEN, appendix D.1).

    Attributes:
        target_type: AI2-THOR's name of the type looked for, such as `"DeskLamp"`.
        target_distance: horizontal distance from the agent in metres, two decimals.
        target_direction: `ahead`, `right`, `left` or `back`.
        visible_objects: what the picture shows: the target first if it is there, then the nearest,
            five in all: type, direction, distance.
        turned: quarters to the right since the start, 0 to 3. An agent that counts its turns knows
            it without looking, so no description has it; claims are weighed among states that are
            alike in it.
        bearings: of each visible object in whole degrees, to the right of straight ahead. For eyes
            that are taught: no description has them.
        target_in_sight: whether a look from this place, in some direction, shows a part of the
            target. Where it is `False` no picture shows where the target is, so no description says
            it.
        horizon: degrees that the camera looks below the horizontal, -30 to 60. Like `turned` it can
            be counted.
        position: x and z of the agent in metres, in the scene's frame. No description has it.
    """

    kind: ClassVar[str] = "navigation"

    target_type: str
    target_distance: float
    target_direction: str
    visible_objects: tuple[Seen, ...]
    turned: int = 0
    bearings: tuple[int, ...] = ()
    target_in_sight: bool = True
    horizon: int = 0
    position: tuple[float, float] = (0.0, 0.0)

    def sentences(self) -> tuple[str, ...]:
        """The target, then what else is visible, each with direction and distance."""
        target = (self.target_type, self.target_direction, self.target_distance)
        others = [seen for seen in self.visible_objects if seen != target]
        stated = [target, *others] if self.target_in_sight else others
        hidden = (
            [] if self.target_in_sight else [f"the {words(self.target_type)} is {OUT_OF_SIGHT}"]
        )
        return (
            *hidden,
            *(
                f"the {words(kind)} is {_WHERE[where]}, {far:.2f} m away"
                for kind, where, far in stated
            ),
        )

    def structured(self) -> str:
        """The dictionary of VAGEN, appendix D.1; of a target out of sight the distance is
        `None`.
        """
        in_sight = self.target_in_sight
        seen = [
            {"type": kind, "direction_to_player": where, "distance_to_player": far}
            for kind, where, far in self.visible_objects
        ]
        return str(
            {
                "target_obj_type": self.target_type,
                "target_distance_to_player": self.target_distance if in_sight else None,
                "target_direction_to_player": self.target_direction if in_sight else OUT_OF_SIGHT,
                "visible_objects": seen,
            }
        )

    def alike(
        self, others: Iterable[NavigationState], _options: Mapping[str, Any]
    ) -> list[NavigationState]:
        """The instruction names the target: "the lamp is ahead" is what "the target is ahead" is in
        others.
        """

        def renamed(other: NavigationState) -> NavigationState:
            names = {other.target_type: self.target_type, self.target_type: other.target_type}
            seen = tuple(
                [(names.get(kind, kind), way, far) for kind, way, far in other.visible_objects]
            )
            return dataclasses.replace(other, target_type=self.target_type, visible_objects=seen)

        return [renamed(other) for other in others]


def words(kind: str) -> str:
    """AI2-THOR's name as words: `DeskLamp` is `desk lamp`, `TVStand` is `TV stand`."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", kind)
    return " ".join(part if part.isupper() and len(part) > 1 else part.lower() for part in parts)
