"""`vagen/FrozenLake-v0`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from vagen_envs.bounds import REWARD, Number, Open, OrNone, Several, Whole, Words
from vagen_envs.config import Representation
from vagen_envs.core import Executed, RewardTerm
from vagen_envs.errors import LevelError
from vagen_envs.frozen_lake import levels, maps
from vagen_envs.frozen_lake.simulator import FrozenLakeSimulator
from vagen_envs.grid import GridEnv
from vagen_envs.replies import Action
from vagen_envs.seeding import HashStream, Split, content_hash
from vagen_envs.solvable import SolvableConfig

_HOLES_OF_CORNERS = 0.2
"""Gymnasium's chance of a hole. Of maps with 0.65, whose cells are drawn alike, hardly one of 8x8
can be crossed.
"""
_MOST_SLIPPERY = 1_000  # the ladder's top rung never needs a second one; narrow budgets do


@dataclass(frozen=True, kw_only=True)
class FrozenLakeConfig(SolvableConfig):
    """Options of `vagen/FrozenLake-v0`; the defaults are VAGEN's tables 9 and 17."""

    level_fields: ClassVar[tuple[str, ...]] = (
        "desc",
        "size",
        "hole_probability",
        "corners",
        "min_solution_length",
        "max_solution_length",
        "is_slippery",
    )
    representations: ClassVar[tuple[Representation, ...]] = (
        "natural_language",
        "symbolic",
        "structured",
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "released": {
            "corners": True,
            "hole_probability": 0.2,
            "min_solution_length": 1,
            "step_reward": 0.0,
            "format_per_turn": True,
            "reasoning": "required",
            "parsing": "released",
        },
    }

    rungs: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"size": 4, "hole_probability": 0.3, "min_solution_length": 1, "max_solution_length": 4},
        {"size": 4, "hole_probability": 0.65, "min_solution_length": 5, "max_solution_length": 9},
        {"size": 6, "hole_probability": 0.6, "min_solution_length": 9, "max_solution_length": 12},
        {"size": 8, "hole_probability": 0.7, "min_solution_length": 13, "max_solution_length": 16},
        {
            "size": 10,
            "hole_probability": 0.7,
            "is_slippery": True,
            "min_solution_length": 14,
            "max_solution_length": 26,
        },
        {"size": 12, "hole_probability": 0.8, "min_solution_length": 24, "max_solution_length": 27},
    )

    desc: Annotated[tuple[str, ...] | None, OrNone(Several(Words(16), 16)), Open()] = None
    """A map in Gymnasium's letters, such as `("SFFF", "FHFH", "FFFH", "HFFG")`, for every level: a
    rectangle of up to 16x16 with one or more starts and goals, as rows, lists of letters or
    Gymnasium's array. Then `size` and the window don't count, and there are no splits. `None` draws
    a map (table 9)."""
    size: Annotated[int, Whole(3, 16), Open()] = 4
    """Rows and columns; 3 to 16."""
    is_slippery: Annotated[bool, Open()] = False
    """Slip to either side with a third each, as in Gymnasium. Slips are part of the seed. The
    paper's prompt says that tiles are slippery although they aren't; ours says what is true."""
    hole_probability: Annotated[float, Open(Number(0.0, 1.0))] = 0.65
    """Chance of each cell off the way to be a hole: with start and goal anywhere, 4x4 cells have
    six on average, and the best of all blind strings of nine moves solves 4 % of the levels (5 %
    with a chance of 0.6). Gymnasium's maps, `corners`, have 0.2."""
    corners: Annotated[bool, Open()] = False
    """Start at the upper left and have the goal at the lower right, as Gymnasium's maps and so the
    released code's do. Such a way has 2 (`size` - 1) moves or an even number more: on 4x4 cells 6.
    Beside it a chance of holes that isn't given is 0.2, a window that isn't given reaches so far,
    and a rung sets no holes and no shorter ways."""
    min_solution_length: Annotated[int, Whole(1, 256), Open()] = 5
    """Fewest moves of a shortest safe way: table 9's `min_actions_to_succeed`, which the released
    code never reads. The start and the goal are anywhere: from corner to corner of a 4x4 map every
    way would have 6 moves."""
    max_solution_length: Annotated[int, Whole(1, 256), Open()] = 9
    """Most moves of a shortest safe way, up to 256: 9 is what three turns of three actions can
    do.
    """
    success_reward: Annotated[float, Open(REWARD)] = 10.0
    """When the goal is reached (table 17)."""
    step_reward: Annotated[float, Open(REWARD)] = -0.1
    """For each action after which the goal isn't reached (table 17), falling into a hole included.
    The released code has none."""
    scale: Annotated[int, Whole(1, 16), Open(Whole(1, 2))] = 1
    """Pixels of a tile are 32 times this; a 4x4 map has 128x128 pixels. 1 to 16, and at most 2048
    pixels a side.
    """

    def __post_init__(self) -> None:
        SolvableConfig.__post_init__(self)
        self.require(
            0.0 <= self.hole_probability < 1.0, "hole_probability", "at least 0 and below 1"
        )
        self._require_ways()
        rows = self.size if self.desc is None else max(map(len, (self.desc, *self.desc)))
        self.require(
            rows * self.scale <= 64,
            "scale",
            f"at most {64 // rows} with {rows} rows: 2048 pixels a side",
        )

    def _require_ways(self) -> None:
        """Some lake has a way within the window."""
        if self.desc is not None:
            return
        longest = levels.longest_way(self.size)
        least = self.min_solution_length
        cells = f"{self.size}x{self.size} cells"
        if self.corners:
            least = levels.way_between_corners(self.size, least)
            why = (
                f"from corner to corner of {cells} a way has {2 * (self.size - 1)} moves or an "
                "even number more"
            )
            must_be = (
                f"at least {least}: {why}; it follows from max_turns and max_steps where they "
                "are given"
            )
            self.require(self.max_solution_length >= least, "max_solution_length", must_be)
        self.require(
            least <= longest,
            "min_solution_length",
            f"at most {longest}, the longest way on {cells}; raise size",
        )

    def longest_solution(self) -> int:
        return self.max_solution_length if self.desc is None else _length(self.desc)

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        return super()._read(name, maps.rows_of(value) or value if name == "desc" else value)

    @classmethod
    def _rung(cls, rung: int, beside: Mapping[str, Any]) -> Mapping[str, Any]:
        """A rung's holes leave hardly a way from corner to corner, and its ways may be too short
        for one.
        """
        ladder = super()._rung(rung, beside)
        if not beside.get("corners"):
            return ladder
        least = levels.way_between_corners(beside.get("size", ladder["size"]))
        lengths = {
            name: max(ladder[name], least)
            for name in ("min_solution_length", "max_solution_length")
        }
        return {
            name: value for name, value in ladder.items() if name != "hole_probability"
        } | lengths

    @classmethod
    def _following(cls, given: Mapping[str, Any], least: int = 1) -> dict[str, Any]:
        if given.get("desc") is not None:
            most = given.get("max_actions_per_turn", cls.max_actions_per_turn)
            turns = -(-_length(given["desc"]) // most)
            return {"max_turns": max(cls.max_turns, turns)}
        if not given.get("corners"):
            return super()._following(given, least)
        least = levels.way_between_corners(given.get("size", cls.size))
        return super()._following(given, least) | {"hole_probability": _HOLES_OF_CORNERS}


def _length(desc: Sequence[str]) -> int:
    """Moves of the shortest safe way from the farthest start."""
    lake = maps.read_lake(desc)
    far = levels.distances(lake.size, lake.cells)
    return max(far[at] or 0 for at, letter in enumerate("".join(desc)) if letter == "S")


class FrozenLakeEnv(GridEnv):
    """Walk over a frozen lake to the goal, and keep out of the holes, seen from above.

    Actions: `Up`, `Down`, `Left`, `Right` (VAGEN, table 8), several a turn. Falling into a hole
    terminates the episode without success. Maps, not only starts, are disjoint between splits.

    Version history:
        v0: first release.
    """

    id = "vagen/FrozenLake-v0"
    config_class = FrozenLakeConfig
    prompt_folder = "frozen_lake"
    config: FrozenLakeConfig
    simulator: FrozenLakeSimulator

    def _constants(self) -> dict[str, str]:
        legend = "Symbols: _ frozen, O hole, G goal, P you, X you in a hole, * you on the goal.\n"
        straight = (
            "The ice is not slippery: each action moves you one cell, unless the edge of the "
            "lake stops you."
        )
        slippery = (
            "The ice is slippery: with one chance in three each, "
            "an action moves you straight on, to its left or to its right."
        )
        return {
            "legend": "" if self.config.observation == "image" else legend,
            "ice": slippery if self.config.is_slippery else straight,
        }

    def _picture_shape(self) -> tuple[int, int, int]:
        desc = self.config.desc
        size = self.config.size
        rows, columns = (len(desc), len(desc[0])) if desc else (size, size)
        return self._tiled(rows, columns, self.config.scale)

    def _drawn(self, stream: HashStream, split: Split) -> FrozenLakeSimulator:
        config = self.config
        slips = stream if config.is_slippery else None
        if config.desc is not None:
            return FrozenLakeSimulator(maps.read_lake(config.desc, stream), slips)
        for _ in range(_MOST_SLIPPERY):
            lake = levels.draw_lake(
                stream,
                split,
                size=config.size,
                hole_probability=config.hole_probability,
                shortest=config.min_solution_length,
                longest=config.max_solution_length,
                corners=config.corners,
            )
            simulator = FrozenLakeSimulator(lake, slips)
            if slips is None or simulator.plan(config.max_solution_length) is not None:
                return simulator
        raise LevelError(
            f"none of {_MOST_SLIPPERY} slippery lakes can be crossed in "
            f"{config.max_solution_length} actions with the slips to come; raise "
            "max_solution_length or lower hole_probability"
        )

    def _content(self) -> str:
        return content_hash(self.simulator.lake.map())

    def _execute(self, action: Action) -> Executed:
        went = self.simulator.step(action.name)
        rewards: tuple[RewardTerm, ...] = ()
        if self.simulator.solved:
            rewards = (RewardTerm("success", self.config.success_reward),)
        elif self.config.step_reward:
            rewards = (RewardTerm("step", self.config.step_reward),)
        told = self._feedback(action.name, went, self.simulator)
        return Executed(action.text, went is not None, rewards, told)

    def _feedback(self, action: str, went: str | None, simulator: FrozenLakeSimulator) -> str:
        feedback = ""
        if went is None:
            slippery = self.config.is_slippery
            by = "did not move you" if slippery else "was blocked by the edge"
            feedback = f"{action} {by}."
        elif went != action:
            feedback = f"{action} slipped: you went {went}."
        return f"{feedback} You fell into a hole.".strip() if simulator.lost else feedback

    def plan(self) -> Sequence[str]:
        """A shortest safe way from here. It knows the slips to come. Raises LevelError where there
        is none.
        """
        lake = self.simulator.lake
        way = self.simulator.plan(4 * len(lake.cells))
        if way is None:
            raise LevelError("there is no safe way to the goal from here; reset for another level")
        return way
