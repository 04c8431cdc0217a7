"""The options of `vagen/PrimitiveSkill-v0`."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from vagen_envs.bounds import REWARD, Open, Several, Whole
from vagen_envs.config import EnvConfig, Representation
from vagen_envs.errors import ConfigError, shown
from vagen_envs.primitive_skill import tasks
from vagen_envs.primitive_skill.levels import FLOOR, TABLE, Workspace

_SETS = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, kw_only=True)
class PrimitiveSkillConfig(EnvConfig):
    """Options of `vagen/PrimitiveSkill-v0`; the defaults are VAGEN's tables 13 and 19."""

    level_fields: ClassVar[tuple[str, ...]] = ("task",)
    machine_fields: ClassVar[tuple[str, ...]] = ("workers",)
    rungs: ClassVar[tuple[Mapping[str, Any], ...]] = tuple(_SETS["rungs"])
    representations: ClassVar[tuple[Representation, ...]] = ("natural_language", "structured")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = _SETS["presets"]

    representation: Representation = "structured"
    """The paper uses the structured form for this environment (section 4), natural language
    elsewhere.
    """
    separator: str = "|"
    max_actions_per_turn: Annotated[int, Open(Whole(1, 10))] = 2
    """Table 13."""
    max_turns: int = 3
    """Table 13."""
    task: Annotated[Literal["place", "stack", "drawer", "align"], Open()] = "place"
    """The task."""
    cubes: Annotated[int, Whole(2, 5), Open()] = 3
    """How high the tower of `stack` is to be: 2 to 5 cubes."""
    distractors: Annotated[int, Whole(0, 2), Open()] = 0
    """Further cubes that stand about in `place` and `stack`: 0 to 2, and beside five cubes of a
    tower 1.
    """
    covered: Annotated[bool, Open()] = False
    """Whether the first distractor of `stack` stands on the tower's lowest cube at the start, and
    has to go first.
    """
    positions_in_text: Annotated[bool, Open()] = True
    """Whether the observation lists positions, without names, as in the paper; in `drawer` by
    default it doesn't, but in the preset `released`. Heights and ranges give some away: from the
    text alone 88 % of `drawer` and 62 % of `align` are solved. Without, all is to be read off the
    picture, for which the prompt has the camera's pose and two known points."""
    success_reward: Annotated[float, Open(REWARD)] = 10.0
    """When the task is done (table 19)."""
    step_reward: Annotated[float, Open(REWARD)] = -0.1
    """For each skill after which the task isn't done (table 19)."""
    stage_rewards: Annotated[tuple[float, float, float], Open(Several(REWARD, 3, 3))] = (
        2.0,
        4.0,
        6.0,
    )
    """For reaching stage 0, 1 and 2 (see `tasks`), once each: (stage + 1) × 2 of table 19. Section
    2.3 says +1, which is the preset `plus_one`; the released code pays (stage + 1) × 2 in one of
    its four tasks only."""
    payment: Annotated[Literal["each", "released"], Open()] = "each"
    """`each`: a stage when it is reached, success when the task is done, a step for each skill
    after which it isn't. `released`: all at the episode's end, a step for every skill; success
    stands for the stages, not beside them; and only `align` has stages, whichever cube came first:
    a red cube on the line 0, a green one 1."""
    out_of_workspace: Annotated[Literal["clip", "refuse"], Open()] = "clip"
    """Coordinates outside the workspace are moved to its edge, as in the released code, and the
    agent is told; or the action is refused, which the turn records as a problem."""
    picture_size: Annotated[int, Whole(64, 1024), Open(Whole(64, 512))] = 300
    """Height and width of the picture in pixels; 64 to 1024."""
    assets: str = ""
    """With `task="drawer"`, the folder of ManiSkill's assets (see `cabinets`) from which the
    published scene, YCB's apple and a cabinet of PartNet-Mobility, is loaded; empty for simple
    shapes, which need no download."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Where pictures are rendered. Physics is computed on the CPU, where it is exact."""
    workers: Annotated[int, Whole(0, 256)] = 1
    """Simulate in a pool of this many worker processes, which this process's environments share, so
    that a simulator that dies takes nothing else with it; 0 simulates in this process. It changes
    nothing that is to be seen."""

    def __post_init__(self) -> None:
        EnvConfig.__post_init__(self)
        self.require(self.cubes == 3 or self.task == "stack", "cubes", "3 unless task='stack'")
        self.require(
            self.cubes + self.distractors <= 6, "distractors", "0 or 1 beside five cubes of a tower"
        )
        cubic = self.task in ("place", "stack")
        self.require(
            not self.distractors or cubic, "distractors", "0 unless task is 'place' or 'stack'"
        )
        self.require(
            not self.covered or (self.task == "stack" and self.distractors > 0),
            "covered",
            "False without a distractor",
        )
        needed = tasks.skills_needed(self.task, self.cubes, self.covered)
        turns = math.ceil(needed / self.max_actions_per_turn)
        why = f"the task takes {needed} skills, {self.max_actions_per_turn} a turn"
        self.require(self.max_turns >= turns, "max_turns", f"at least {turns}: {why}")
        self.require(
            self.max_steps >= needed, "max_steps", f"at least {needed}, which the task takes"
        )
        self.require(
            not self.assets or self.task == "drawer", "assets", "empty unless task='drawer'"
        )

    @classmethod
    def _following(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Each thing of a drawer's scene has a height of its own: listed, all would be told."""
        values = super()._following(given)
        if given.get("task") == "drawer":
            values["positions_in_text"] = False
        return values

    def level_key(self) -> dict[str, Any]:
        """The options that levels depend on; the published scene has levels of its own, wherever
        its files are.
        """
        key = EnvConfig.level_key(self)
        if self.cubes != 3 or self.distractors:
            key = {**key, "cubes": self.cubes, "distractors": self.distractors}
        if self.covered:
            key = {**key, "covered": True}
        return {**key, "scene": "published"} if self.assets else key

    @classmethod
    def _rung(cls, rung: int, beside: Mapping[str, Any]) -> Mapping[str, Any]:
        """Cubes that a rung has and another task hasn't are no mistake in an option that nobody
        gave.
        """
        ladder = super()._rung(rung, beside)
        task = beside.get("task", ladder["task"])
        own = ladder["task"]
        lacks = {"place": {"cubes", "covered"}, "stack": set()}.get(
            str(task), {"cubes", "covered", "distractors"}
        )
        more = [f"{name}={ladder[name]}" for name in ladder if name in lacks and name not in beside]
        if task != own and more:
            raise ConfigError(
                f"task={shown(task)} is not valid: it must be left out beside difficulty={rung}, "
                f"which is {own!r} with {', '.join(more)}, or difficulty be left out"
            )
        return ladder

    @classmethod
    def _needed(cls, given: Mapping[str, Any]) -> dict[str, int]:
        task, cubes, covered, actions = (
            given.get(name, getattr(cls, name))
            for name in ("task", "cubes", "covered", "max_actions_per_turn")
        )
        skills = tasks.skills_needed(task, cubes, covered)
        return {"max_turns": math.ceil(skills / actions), "max_steps": skills}

    @property
    def workspace(self) -> Workspace:
        """The limits of the skills' coordinates."""
        return FLOOR if self.task == "drawer" else TABLE
