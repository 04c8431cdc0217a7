"""Episodes in furnished rooms, drawn from a stream, each solvable by moves that `step` would make."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vagen_envs.errors import LevelError
from vagen_envs.navigation.camera import Camera, mujoco
from vagen_envs.navigation.floor_plan import GRID, draw_plan, moves_to, out_of_sight
from vagen_envs.navigation.furnishing import draw_house, furnish
from vagen_envs.navigation.house import House, HouseObject, RoomKind
from vagen_envs.navigation.instructions import EvalSet, say
from vagen_envs.navigation.mjcf import AGENT_HEIGHT
from vagen_envs.navigation.scene import NavigationEpisode, NavigationLevel, Pose, bearing, distance
from vagen_envs.navigation.search import fewest_moves, shortest_path
from vagen_envs.navigation.simulator import HouseSimulator, free_pose
from vagen_envs.seeding import HashStream, Split, split_of

Facing = Literal["target", "any"]
"""Where the robot looks at first."""

NEAREST_START, FARTHEST_START = 2.5, 3.0
"""Metres between the start and the target, as in EB-Navigation."""
_MOST_STARTS = 60
_MOST_ROOMS, _MOST_LOOKS, _MOST_HOUSES = 60, 1500, 100
"""Rooms of the split, looks around in them and houses of several rooms after which a search is given up, within some
seconds. It ends by what was done and not by the clock, so that a level is the same everywhere. Of 860 levels of the
default and of rungs 0 and 1 none needs more than 2 rooms and 36 looks; of 14 with ways of 18 to 20 moves one needs 8
and 800."""
_SHARE = 0.01
"""Of the starts on an empty floor, so many at least must be near enough for a window of lengths to be searched."""


@dataclass(slots=True)
class _Patience:
    """How much of a search is left."""

    rooms: int
    looks: int


@functools.lru_cache(maxsize=64)
def nearest_length(step: float, threshold: float) -> int:
    """The length of way up to which there are starts enough to find one: of an empty floor, `_SHARE` of all."""
    steps = [0.05 * i for i in range(1, math.ceil(FARTHEST_START / 0.05) + 1)]
    starts = [Pose(x, z, 0) for x in steps for z in steps if NEAREST_START <= math.hypot(x, z) <= FARTHEST_START]
    lengths = sorted([fewest_moves(start, (0.0, 0.0), step, threshold) for start in starts])
    return lengths[math.ceil(_SHARE * len(lengths))]


@dataclass(frozen=True, slots=True)
class HouseLevels:
    """Draws levels in furnished rooms.

    Args:
        camera: where pictures are made; `None` if none will be asked for.
        eval_set: the flavour of the instruction; `long_horizon` starts with the target behind.
        room: a kind of room, or `None` for any.
        step_length: metres of a move.
        field_of_view: degrees.
        threshold: metres from the target that are near enough.
        longest: most moves of a shortest way.
        shortest: fewest moves of a shortest way.
        rooms: how many.
        cast_shadows: as in `HouseSimulator`.
        facing: `any` lets the robot look in any of the four directions at first, in one room.
    """

    camera: Camera | None
    eval_set: EvalSet
    room: RoomKind | None
    step_length: float
    field_of_view: float
    threshold: float
    longest: int
    shortest: int = 1
    rooms: int = 1
    cast_shadows: bool = False
    facing: Facing = "target"

    def draw(self, stream: HashStream, split: Split) -> NavigationLevel:
        """A level of the split. Both the room and the pose of target and start belong to it.

        Raises:
            LevelError: no room has an episode; the message says what to change.
        """
        mujoco()
        if self.rooms > 1:
            house, episode, content = self.draw_in_rooms(stream, split)
            return NavigationLevel(self._simulator(house, episode.start), episode, content)
        patience = _Patience(_MOST_ROOMS, _MOST_LOOKS)
        while patience.rooms and patience.looks:
            house = draw_house(stream, self.room)
            if split_of(house.content()) != split:
                continue
            patience.rooms -= 1
            simulator = self._simulator(house, Pose(house.width / 200, house.depth / 200, 0))
            targets = house.targets
            stream.shuffle(targets)
            for target in targets:
                level = self._look_for(stream, split, simulator, target, patience)
                if level is not None:
                    return level
        raise LevelError(
            f"no room was found with a way of min_solution_length={self.shortest} to "
            f"max_solution_length={self.longest} moves of {self.step_length} m to within "
            f"success_threshold={self.threshold} m (looked around {_MOST_LOOKS - patience.looks} times in "
            f"{_MOST_ROOMS - patience.rooms} rooms); widen the window, or for longer ways ask for rooms=2 or more"
        )

    def _simulator(self, house: House, start: Pose) -> HouseSimulator:
        return HouseSimulator(
            house,
            start,
            self.camera,
            step_length=self.step_length,
            field_of_view=self.field_of_view,
            cast_shadows=self.cast_shadows,
        )

    def draw_in_rooms(self, stream: HashStream, split: Split) -> tuple[House, NavigationEpisode, bytes]:
        """A house of several rooms of the split, and a task in it whose target no turn brings into sight.

        Floor plans belong to splits, and so do the poses of target and start. Needs no simulator: a way
        that is sure (see `moves_to`) is at least as long as the shortest one.
        """
        houses = 0
        while houses < _MOST_HOUSES:
            plan = draw_plan(stream, self.rooms)
            if split_of(plan.content()) != split:
                continue
            houses += 1
            house = furnish(stream, plan)
            targets = house.targets
            stream.shuffle(targets)
            for target in targets:
                task = self._task_in_rooms(stream, split, house, target)
                if task is not None:
                    episode, pose = task
                    return house, episode, house.content() + pose
        raise LevelError(
            f"no house of rooms={self.rooms} was found with a way of min_solution_length={self.shortest} to "
            f"max_solution_length={self.longest} moves (furnished {houses}); widen the window or change rooms"
        )

    def _task_in_rooms(
        self, stream: HashStream, split: Split, house: House, target: HouseObject
    ) -> tuple[NavigationEpisode, bytes] | None:
        kinds = {each.kind for each in house.objects} - {target.kind}
        instruction = say(stream, self.eval_set, target, kinds)
        if instruction is None:
            return None
        tall = round(100 * AGENT_HEIGHT)
        obstacles = [*house.walls, *(each.rect for each in house.objects if each.z < tall)]
        near = round(100 * self.threshold)
        moves = moves_to(house.width, house.depth, obstacles, target.x, target.y, near)
        places = np.argwhere((moves >= self.shortest) & (moves <= self.longest)).tolist()
        for _ in range(min(_MOST_STARTS, len(places))):
            i, j = stream.choice(places)
            x, y = GRID * (i + 1), GRID * (j + 1)
            start = Pose(x / 100, y / 100, 90 * stream.below(4))
            pose = _pose_bytes(house.kind, target, start)
            if split_of(pose) == split and out_of_sight(house.walls, x, y, target.rect):
                return NavigationEpisode(instruction, target.kind, (target.x / 100, target.y / 100), start), pose
        return None

    def _look_for(
        self, stream: HashStream, split: Split, simulator: HouseSimulator, target: HouseObject, patience: _Patience
    ) -> NavigationLevel | None:
        kinds = {each.kind for each in simulator.house.objects} - {target.kind}
        instruction = say(stream, self.eval_set, target, kinds)
        if instruction is None:
            return None
        at = (target.x / 100, target.y / 100)
        for start in self._starts(stream, target):
            if not patience.looks:
                return None
            if fewest_moves(start, at, self.step_length, self.threshold) > self.longest:
                continue
            pose = _pose_bytes(simulator.house.kind, target, start)
            if split_of(pose) != split or not free_pose(simulator, start):
                continue
            patience.looks -= 1
            # The target is seen from the start, or would be if the agent turned round.
            simulator.teleport(start)
            if not simulator.visible()[simulator.house.objects.index(target)]:
                continue
            path = shortest_path(
                start, at, simulator.blocked, step=self.step_length, threshold=self.threshold, longest=self.longest
            )
            if not path or len(path) < self.shortest:
                continue
            first = Pose(start.x, start.z, self._first_look(stream, start.rotation))
            simulator.teleport(first)
            # A level is named by where it begins to look, too, but its split isn't drawn from that.
            content = simulator.house.content() + pose + (b"" if self.facing == "target" else b"%d" % first.rotation)
            return NavigationLevel(simulator, NavigationEpisode(instruction, target.kind, at, first), content)
        return None

    def _first_look(self, stream: HashStream, towards: int) -> int:
        """Degrees: where the robot looks at first, if the target is `towards`."""
        if self.facing == "any":
            return 90 * stream.below(4)
        return (towards + 180) % 360 if self.eval_set == "long_horizon" else towards

    def _starts(self, stream: HashStream, target: HouseObject) -> Iterator[Pose]:
        """Poses at the right distance, looking towards the target, on a grid of 5 cm."""
        x, z = target.x / 100, target.y / 100
        for _ in range(_MOST_STARTS):
            far, angle = stream.uniform(NEAREST_START, FARTHEST_START), stream.uniform(0, 2 * math.pi)
            pose = Pose(round(20 * (x + far * math.sin(angle))) / 20, round(20 * (z + far * math.cos(angle))) / 20, 0)
            if NEAREST_START <= distance(pose, x, z) <= FARTHEST_START:
                yield Pose(pose.x, pose.z, round(bearing(pose, x, z) / 90) * 90 % 360)

    def close(self) -> None:
        """Nothing to free: the screens that cameras draw on are the process's."""


def _pose_bytes(kind: str, target: HouseObject, start: Pose) -> bytes:
    """Target and start, wherever the furniture is."""
    pose = [kind, target.kind, target.x, target.y, target.z, round(100 * start.x), round(100 * start.z), start.rotation]
    return json.dumps(["navigation pose", *pose]).encode()
