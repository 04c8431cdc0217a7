"""`vagen/Sokoban-v0`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from vagen_envs.bounds import REWARD, Open, Several, Whole
from vagen_envs.config import Representation
from vagen_envs.core import Executed, RewardTerm
from vagen_envs.errors import LevelError
from vagen_envs.grid import ACTIONS, GridEnv
from vagen_envs.replies import Action
from vagen_envs.seeding import HashStream, Split, content_hash
from vagen_envs.sokoban.boards import Boards, load_boards
from vagen_envs.sokoban.gym_sokoban import GymSokobanRooms
from vagen_envs.sokoban.levels import Level, draw_level, longest_solution
from vagen_envs.sokoban.simulator import SokobanSimulator
from vagen_envs.sokoban.solver import Solutions
from vagen_envs.solvable import SolvableConfig
from vagen_envs.tables import SplitBy

_STEPS = 120
"""Actions of an episode on a board of others: gym-sokoban's `max_steps`."""


@dataclass(frozen=True, kw_only=True)
class SokobanConfig(SolvableConfig):
    """Options of `vagen/Sokoban-v0`; the defaults are VAGEN's tables 7 and 16."""

    level_fields: ClassVar[tuple[str, ...]] = (
        "dim_room",
        "num_boxes",
        "boxes_on_target",
        "min_solution_length",
        "max_solution_length",
        "boards",
        "generator",
    )
    representations: ClassVar[tuple[Representation, ...]] = (
        "natural_language",
        "symbolic",
        "structured",
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "released": {
            "min_solution_length": 1,
            "max_solution_length": 5,
            "boxes_on_target": True,
            "step_reward_when_solved": True,
            "boxes_counted_from_zero": True,
            "format_per_turn": True,
            "reasoning": "required",
            "parsing": "released",
        },
    }

    rungs: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"dim_room": (6, 6), "num_boxes": 1, "min_solution_length": 1, "max_solution_length": 4},
        {"dim_room": (6, 6), "num_boxes": 1, "min_solution_length": 5, "max_solution_length": 9},
        {"dim_room": (7, 7), "num_boxes": 2, "min_solution_length": 10, "max_solution_length": 14},
        {"dim_room": (8, 8), "num_boxes": 2, "min_solution_length": 15, "max_solution_length": 20},
        {"dim_room": (8, 8), "num_boxes": 3, "min_solution_length": 18, "max_solution_length": 24},
        {"dim_room": (9, 9), "num_boxes": 3, "min_solution_length": 24, "max_solution_length": 30},
    )

    dim_room: Annotated[tuple[int, int], Several(Whole(5, 10), 2, 2), Open()] = (6, 6)
    """Rows and columns of the grid in cells, the surrounding wall included; 5 to 10 each."""
    num_boxes: Annotated[int, Whole(1, 4), Open()] = 1
    """Boxes, and targets; 1 to 4."""
    boxes_on_target: Annotated[bool, Open()] = False
    """Whether boxes may stand on targets at the start, as in gym-sokoban and so in the released
    code.
    """
    min_solution_length: Annotated[int, Whole(1, 60), Open()] = 5
    """Fewest moves of a shortest solution. Table 7 calls `min_actions_to_succeed` = 5 a minimum;
    the released code uses it as a maximum, which is the preset `released` (1 to 5)."""
    max_solution_length: Annotated[int, Whole(1, 60), Open()] = 9
    """Most moves of a shortest solution: 9 is what three turns of three actions can do."""
    generator: Annotated[Literal["own", "gym-sokoban"], Open()] = "own"
    """`own` draws the length of the solution first, each length of the window equally likely.
    `gym-sokoban` draws rooms with that package (extra `gym-sokoban`) until one is in the window, as
    the released code does: most are short, and no box begins on a target."""
    boards: str | None = None
    """Path of a file of boards in the XSB format, or of a folder of such files, as Boxoban and
    XSokoban have them (see `vagen_envs.sokoban.boards`); `None` generates boards. The options for
    size, boxes and solution are then left out; an episode has 120 actions by default, as in
    gym-sokoban. The oracle solves boards of at most 700,000 placements of boxes; others can be
    played without it. Files are read when the environment is made."""
    split_by: SplitBy = "published"
    """Whether `boards` in folders called `train`, `valid` and `test` keep these splits, or all
    boards are split by `content`, or stand in every split (`all`). A few boards, whose content
    would leave `train` empty, stand in every split.
    """
    success_reward: Annotated[float, Open(REWARD)] = 10.0
    """When all boxes stand on targets (table 16)."""
    step_reward: Annotated[float, Open(REWARD)] = -0.1
    """For each action after which the task isn't solved (table 16). "Each step" in the paper; a
    primitive action here and in the released code, not a turn."""
    step_reward_when_solved: Annotated[bool, Open()] = False
    """Whether the action that solves the task gets `step_reward` too, as in gym-sokoban and so in
    the released code. By table 16 it doesn't."""
    box_on_target_reward: Annotated[float, Open(REWARD)] = 1.0
    """For each box pushed onto a target, the last one included (table 16). Section 2.3 instead
    writes the three cases as exclusive; gym-sokoban, which the released code uses, adds them up,
    and so do we."""
    box_off_target_reward: Annotated[float, Open(REWARD)] = -1.0
    """For each box pushed off a target, as in gym-sokoban and so in the released code. The paper
    has none; without it a box that is pushed on and off a target again and again earns more than
    a solution.
    """
    boxes_counted_from_zero: Annotated[bool, Open()] = False
    """Whether the first action is paid `box_on_target_reward` if a box stands on a target after it,
    pushed or not, as in gym-sokoban, which counts from 0, and so in the released code."""
    scale: Annotated[int, Whole(1, 16), Open(Whole(1, 4))] = 1
    """Pixels of a tile are 16 times this; the paper's pictures of 6x6 cells have 96x96 pixels."""

    def __post_init__(self) -> None:
        SolvableConfig.__post_init__(self)
        fewest = 1 if self.boxes_on_target else self.num_boxes
        self.require(
            self.min_solution_length >= fewest,
            "min_solution_length",
            f"at least {fewest}, a push for each box",
        )
        height, width = self.dim_room
        longest = longest_solution(height, width, self.num_boxes, self.boxes_on_target)
        room = f"{height}x{width} cells"
        self.require(
            longest > 0, "num_boxes", f"lower: on {room} so many can't all begin off target"
        )
        must_be = f"at most {longest}: no room of {room} takes more moves; raise dim_room"
        self.require(self.min_solution_length <= longest, "min_solution_length", must_be)
        if self.boards is not None:
            self.require(
                self.boards.strip() != "", "boards", "the path of a file or folder, or left out"
            )
            for name in (*self.level_fields, "difficulty"):
                if name == "boards":
                    continue
                self.require(
                    getattr(self, name) == getattr(type(self), name),
                    name,
                    f"left out beside boards={self.boards!r}",
                )
            largest = max(self.size)
            self.require(
                16 * largest * self.scale <= 2048,
                "scale",
                f"at most {128 // largest} for {largest} cells",
            )

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of a picture, in cells."""
        if self.boards is None:
            return self.dim_room
        return self.imported.height, self.imported.width

    @functools.cached_property
    def imported(self) -> Boards:
        """What `boards` names, as it was when the configuration was made."""
        return load_boards(str(self.boards), self.split_by)

    def longest_solution(self) -> int:
        """Most moves of a shortest solution; unknown for imported boards."""
        return self.max_solution_length if self.boards is None else 1

    @classmethod
    def _of_preset(cls, preset: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        named = cls.presets[preset]
        if options.get("boards") is None:
            return named
        # What a preset says of generated rooms is nothing to boards that are there.
        return {name: value for name, value in named.items() if name not in cls.level_fields}

    @classmethod
    def _following(cls, given: Mapping[str, Any], least: int = 1) -> dict[str, Any]:
        if given.get("boards") is None:
            return super()._following(given, least)
        actions = given.get("max_actions_per_turn", cls.max_actions_per_turn)
        return {"max_steps": _STEPS, "max_turns": -(-_STEPS // actions)}

    def level_key(self) -> dict[str, Any]:
        """Levels depend on what the boards are, not on the path where they lie."""
        if self.boards is not None:
            return {"boards": self.imported.name}
        own = {name: getattr(self, name) for name in self.level_fields if name != "boards"}
        if self.generator == "own":  # the levels of before there was another
            del own["generator"]
        return own


class SokobanEnv(GridEnv):
    """Push every box onto a target, seen from above.

    Actions: `Up`, `Down`, `Left`, `Right` (VAGEN, table 6), several a turn. A board is carved by a
    random walk; its start is drawn among all positions whose exact distance from a solution lies in
    the window. Boards, not only starts, are disjoint between splits.

    Version history:
        v0: first release.
    """

    id = "vagen/Sokoban-v0"
    config_class = SokobanConfig
    prompt_folder = "sokoban"
    config: SokobanConfig
    simulator: SokobanSimulator

    def _constants(self) -> dict[str, str]:
        legend = (
            "Symbols: # wall, _ floor, O target, X box, P you, * box on a target, S you on a "
            "target.\n"
        )
        return {"legend": "" if self.config.observation == "image" else legend}

    def _picture_shape(self) -> tuple[int, int, int]:
        self._rooms = GymSokobanRooms() if self.config.generator == "gym-sokoban" else None
        return self._tiled(*self.config.size, self.config.scale)

    def _drawn(self, stream: HashStream, split: Split) -> SokobanSimulator:
        level = self._level(stream, split)
        self._solutions = Solutions(level.width, level.floor, level.targets)
        standing = level.boxes & level.targets
        counted = 0 if self.config.boxes_counted_from_zero else standing.bit_count()
        return SokobanSimulator(level, counted)

    def _level(self, stream: HashStream, split: Split) -> Level:
        config = self.config
        if config.boards is not None:
            boards = config.imported
            if not boards.splits[split]:
                has = ", ".join(f"{len(rows):,} for {name}" for name, rows in boards.splits.items())
                raise LevelError(
                    f"boards={config.boards!r} has no board for {split} ({has}); use another "
                    'split, or split_by="all", which puts every board into every split'
                )
            return boards.level(split, self._published(range(len(boards.splits[split]))))
        if self._rooms is not None:
            return self._rooms.draw(
                stream,
                split,
                size=config.dim_room,
                num_boxes=config.num_boxes,
                shortest=config.min_solution_length,
                longest=config.max_solution_length,
            )
        return draw_level(
            stream,
            split,
            height=config.dim_room[0],
            width=config.dim_room[1],
            num_boxes=config.num_boxes,
            shortest=config.min_solution_length,
            longest=config.max_solution_length,
            on_target=config.boxes_on_target,
        )

    def _level_count(self, split: Split) -> int | None:
        return None if self.config.boards is None else len(self.config.imported.splits[split])

    def _content(self) -> str:
        return content_hash(self.simulator.level.board)

    def _execute(self, action: Action) -> Executed:
        config = self.config
        moved = self.simulator.step(action.name)
        gained = self.simulator.gain()
        rewards = []
        if gained == 1 and config.box_on_target_reward:
            rewards.append(RewardTerm("box_on_target", config.box_on_target_reward))
        elif gained == -1 and config.box_off_target_reward:
            rewards.append(RewardTerm("box_off_target", config.box_off_target_reward))
        if self.simulator.solved:
            rewards.append(RewardTerm("success", config.success_reward))
        if config.step_reward and (config.step_reward_when_solved or not self.simulator.solved):
            rewards.append(RewardTerm("step", config.step_reward))
        told = self._feedback(action.name, moved, self.simulator)
        return Executed(action.text, moved is not None, tuple(rewards), told)

    def _feedback(self, action: str, went: int | None, _simulator: SokobanSimulator) -> str:
        return f"{action} was blocked." if went is None else ""

    def plan(self) -> Sequence[str]:
        """A shortest solution from here. Raises LevelError if a box is stuck."""
        return [
            ACTIONS[i] for i in self._solutions.moves(self.simulator.boxes, self.simulator.player)
        ]
