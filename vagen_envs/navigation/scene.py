"""What both simulators speak: poses, episodes, and what is visible.

Coordinates are AI2-THOR's: metres, x right, y up, z forward, left-handed; a rotation of 0 looks
along z and 90 along x; a horizon is positive below the horizontal. Everything that judges an
episode is written here, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vagen_envs.navigation.state import NavigationState

MOVES: Mapping[str, int] = {"MoveAhead": 0, "MoveBack": 180, "MoveRight": 90, "MoveLeft": 270}
"""Where each move goes, clockwise in degrees from where the agent looks."""

TURNS: Mapping[str, int] = {"RotateRight": 90, "RotateLeft": -90}
LOOKS: Mapping[str, int] = {"LookUp": -30, "LookDown": 30}
"""VAGEN's steps in degrees."""

ACTIONS: Mapping[str, str] = {action.lower(): action for action in (*MOVES, *TURNS, *LOOKS)}
"""AI2-THOR's names by the paper's (table 10, prompts of appendix B), which are in lower case."""

HORIZONS = range(-30, 61)
"""AI2-THOR's limits of the camera, in degrees below the horizontal."""

VISIBILITY_DISTANCE = 10.0
"""Metres; EB-Navigation's setting."""

NEAREST = 5
"""How many visible objects a state names, as in VAGEN's code."""

EYE_Y = 1.576
"""Metres; the camera of AI2-THOR's default agent."""


@dataclass(frozen=True, slots=True)
class Pose:
    """Where the agent is: metres and degrees."""

    x: float
    z: float
    rotation: int
    horizon: int = 0

    def after(self, action: str, step: float) -> Pose:
        """The pose after one of AI2-THOR's actions that succeeds; moves are of `step` metres."""
        if action not in MOVES:
            turned = (self.rotation + TURNS.get(action, 0)) % 360
            return Pose(self.x, self.z, turned, self.horizon + LOOKS.get(action, 0))
        dx, dz = heading(self.rotation + MOVES[action])
        x = round(self.x + step * dx, 6)
        z = round(self.z + step * dz, 6)
        return Pose(x, z, self.rotation, self.horizon)


class SceneObject(NamedTuple):
    """An object: AI2-THOR's names of it and of its type, and where it is in metres."""

    name: str
    kind: str
    x: float
    z: float


@dataclass(frozen=True, slots=True)
class NavigationEpisode:
    """A task in some scene.

    Attributes:
        target_type: AI2-THOR's name of the type looked for.
        target_position: x and z in metres; success is measured to it.
        content: the canonical content of scene, target and start.
    """

    instruction: str
    target_type: str
    target_position: tuple[float, float]
    start: Pose
    content: bytes = field(repr=False)


def heading(rotation: int) -> tuple[float, float]:
    """X and z of a step of 1 m; exact for quarter turns."""
    angle = math.radians(rotation % 360)
    return round(math.sin(angle), 15), round(math.cos(angle), 15)


def bearing(pose: Pose, x: float, z: float) -> float:
    """Where a point is, clockwise from where the agent looks: above -180 to 180 degrees."""
    angle = math.degrees(math.atan2(x - pose.x, z - pose.z)) - pose.rotation
    return 180.0 - (180.0 - angle) % 360.0


def direction(angle: float) -> str:
    """A bearing in words: within 45 degrees `ahead`, to 135 `right` or `left`, else `back` (VAGEN's
    code).
    """
    if abs(angle) <= 45.0:
        return "ahead"
    if abs(angle) > 135.0:
        return "back"
    return "right" if angle > 0 else "left"


def distance(pose: Pose, x: float, z: float) -> float:
    """Horizontal distance in metres."""
    return math.hypot(x - pose.x, z - pose.z)


def target_among(objects: Iterable[SceneObject], episode: NavigationEpisode) -> str | None:
    """The name of the target: of the objects of its type the nearest to where the episode has
    it.
    """
    x, z = episode.target_position
    same = [each for each in objects if each.kind == episode.target_type]
    return min(same, key=lambda each: math.hypot(each.x - x, each.z - z)).name if same else None


def extract(
    pose: Pose,
    visible: Iterable[SceneObject],
    episode: NavigationEpisode,
    target: str,
    in_sight: bool,
) -> NavigationState:
    """The state the paper's judge is given (VAGEN, appendix D.1).

    `target` is the target's name, `in_sight` whether some look from here shows it.
    """
    x, z = episode.target_position
    # The task is about the target: a picture that shows it has it in the state, however much is
    # nearer.
    by_distance = sorted(
        (seen.name != target, distance(pose, seen.x, seen.z), seen) for seen in visible
    )
    nearest = [(far, seen) for _, far, seen in by_distance[:NEAREST]]
    bearings = [bearing(pose, seen.x, seen.z) for _, seen in nearest]
    return NavigationState(
        target_type=episode.target_type,
        target_distance=round(distance(pose, x, z), 2),
        target_direction=direction(bearing(pose, x, z)),
        visible_objects=tuple(
            (seen.kind, direction(angle), round(far, 2))
            for (far, seen), angle in zip(nearest, bearings, strict=True)
        ),
        turned=round((pose.rotation - episode.start.rotation) / 90) % 4,
        bearings=tuple(map(round, bearings)),
        target_in_sight=in_sight,
        horizon=pose.horizon,
        position=(round(pose.x, 3), round(pose.z, 3)),
    )
