"""The options of `vagen/Navigation-v0`."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from vagen_envs.bounds import REWARD, Number, Open, Whole
from vagen_envs.config import EnvConfig
from vagen_envs.navigation.episodes import read_episodes
from vagen_envs.navigation.instructions import EvalSet
from vagen_envs.navigation.search import NEAREST_START
from vagen_envs.seeding import content_hash
from vagen_envs.solvable import SolvableConfig
from vagen_envs.tables import SplitBy

_SETS = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, kw_only=True)
class NavigationConfig(SolvableConfig):
    """Options of `vagen/Navigation-v0`; the defaults are VAGEN's tables 11 and 18."""

    spare_steps: ClassVar[int] = 4
    level_fields: ClassVar[tuple[str, ...]] = (
        "backend",
        "eval_set",
        "room",
        "step_length",
        "success_threshold",
        "fov",
        "max_solution_length",
        "episodes",
    )
    rungs: ClassVar[tuple[Mapping[str, Any], ...]] = tuple(_SETS["rungs"])
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = _SETS["presets"]

    backend: Literal["house", "thor"] = "house"
    """`house`: furnished rooms of our own in MuJoCo, levels without end. `thor`: AI2-THOR (extra
    `thor`), with `episodes` in EB-Navigation's format."""
    eval_set: Annotated[EvalSet, Open()] = "base"
    """The flavour of the instructions, EB-Navigation's subsets; under `long_horizon` the target is
    behind at the start. With `thor` the file says it all."""
    room: Annotated[Literal["any", "kitchen", "living_room", "bedroom"], Open()] = "any"
    """Kind of room, for `house`."""
    max_actions_per_turn: Annotated[int, Open(Whole(1, 20))] = 5
    max_turns: int = 4
    max_steps: int = 20
    """Primitive actions in an episode: four turns of five."""
    resolution: Annotated[int, Whole(32, 1024), Open(Whole(32, 512))] = 255
    """Pixels of a side of a picture; 32 to 1024."""
    down_sample_ratio: Annotated[float, Number(0.01, 1.0), Open()] = 1.0
    """The picture is made smaller by this factor, above 0 to 1. So says table 11; in
    EB-Navigation's code the option of this name instead thins out the episodes."""
    fov: Annotated[float, Number(30.0, 140.0), Open()] = 100.0
    """Field of view in degrees, 30 to 140."""
    multiview: Annotated[bool, Open()] = False
    """Show the scene from above as well, to the right of what the agent sees: the picture is twice
    as wide.
    """
    success_threshold: Annotated[float, Number(0.3, NEAREST_START), Open()] = 1.0
    """Metres: the task is done when the target is horizontally at most this far, and in sight. The
    released code has 1.5."""
    success_needs_sight: Annotated[bool, Open()] = True
    """Whether the task is done only where a free line leads from the camera to some part of the
    target, whichever way the robot looks. The paper measures the distance alone, so that a target
    behind a wall counts: `released`."""
    step_length: Annotated[float, Number(0.05, 1.0), Open()] = 0.25
    """Metres of a move. The released code has 0.5."""
    rooms: Annotated[int, Whole(1, 8), Open()] = 1
    """Rooms with doorways between them, for `house`: 1 to 8. With several the target is out of
    sight at first, whichever way the robot turns, `room` doesn't count, and moves are of 0.25 m."""
    min_solution_length: Annotated[int, Whole(1, 1000), Open(Whole(1, 400))] = 1
    """Fewest moves of a shortest way; with several rooms of a sure one, and a bolder one may be
    shorter by a few.
    """
    max_solution_length: Annotated[int, Whole(1, 1000), Open(Whole(1, 400))] = 16
    """Most moves of a shortest way. 16 leaves room for two turns and two looks in 20 actions. Turns
    and steps that aren't given are as many as it needs, and four actions more."""
    facing: Annotated[Literal["target", "any"], Open()] = "target"
    """`target`: the robot looks towards the target at first (away from it under `long_horizon`).
    `any`: in any of the four directions, so that walking ahead without looking seldom does. In
    several rooms it's always any."""
    success_reward: Annotated[float, Open(REWARD)] = 10.0
    """When the target is reached (table 18)."""
    step_reward: Annotated[float, Open(REWARD)] = -0.1
    """For each action after which it isn't (table 18). The released code has none."""
    cast_shadows: Annotated[bool, Open()] = False
    """Have lamps cast shadows in `house`: three times the time of a frame on a CPU, little on a
    GPU. Without, things still have a shadow where they touch the floor."""
    episodes: str | None = None
    """For `thor`: path of a JSON file in EB-Navigation's format. It is not part of this package."""
    split_by: SplitBy = "published"
    """For `thor`: `published` puts the episodes into `test`, as EB-Navigation has no others, unless
    the file's name says another split; `content` splits them by scene; `all` puts all of them into
    every split.
    """
    thor_platform: Literal["CloudRendering", "Linux64"] = "CloudRendering"
    """For `thor`: without a screen (Vulkan), or with an X display."""
    thor_executable: str | None = None
    """For `thor`: path of a Unity build. `None` takes the one that ai2thor downloads or has
    downloaded.
    """
    thor_start_timeout: Annotated[float, Number(0.1, 86_400)] = 120.0
    """For `thor`: seconds until a player that hasn't come up is given up."""
    thor_step_timeout: Annotated[float, Number(0.1, 86_400)] = 30.0
    """For `thor`: seconds until a player that doesn't answer is given up."""

    def __post_init__(self) -> None:
        SolvableConfig.__post_init__(self)
        self.require(
            self.shown_pixels >= 16, "down_sample_ratio", "large enough to leave 16 pixels"
        )
        self.require(
            self.success_threshold < NEAREST_START, "success_threshold", f"below {NEAREST_START}"
        )
        # A start a whole number of moves away from the threshold is rare.
        least = math.floor((NEAREST_START - self.success_threshold) / self.step_length + 1e-9) + 1
        self.require(
            self.max_solution_length >= least or self.backend != "house",
            "max_solution_length",
            f"from {least}, since a way begins {NEAREST_START} m from the target",
        )
        self.require(self.rooms == 1 or self.backend == "house", "rooms", 'of the backend "house"')
        self.require(
            self.facing == "target" or self.backend == "house", "facing", 'of the backend "house"'
        )
        self.require(
            self.rooms == 1 or self.step_length == 0.25, "step_length", "0.25 with several rooms"
        )
        self.require(
            self.backend == "house" or self.episodes is not None,
            "episodes",
            'a path with backend="thor"',
        )

    def longest_solution(self) -> int:
        """AI2-THOR's episodes are what they are."""
        return self.max_solution_length if self.backend == "house" else 1

    @classmethod
    def _needed(cls, given: Mapping[str, Any]) -> dict[str, int]:
        if "max_solution_length" not in given or given.get("backend", "house") != "house":
            return {}  # it follows from turns and steps, or a file says it
        longest = given["max_solution_length"]
        actions = given.get("max_actions_per_turn", cls.max_actions_per_turn)
        return {"max_turns": math.ceil(longest / actions), "max_steps": longest}

    def level_key(self) -> dict[str, Any]:
        """Levels depend on what the episodes are, not on the path where they lie."""
        key = EnvConfig.level_key(self)
        if self.rooms > 1 or self.min_solution_length > 1:
            key |= {"rooms": self.rooms, "min_solution_length": self.min_solution_length}
        if self.facing != "target":
            key |= {"facing": self.facing}
        if self.episodes is None:
            return key
        tasks = [record.episode for record in read_episodes(self.episodes)]
        content = b"".join(task.content + task.instruction.encode() for task in tasks)
        return {**key, "episodes": content_hash(content)}

    @property
    def shown_pixels(self) -> int:
        """Height of the picture that is shown."""
        return max(1, round(self.resolution * self.down_sample_ratio))
