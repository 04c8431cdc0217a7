"""Episodes in furnished rooms, drawn from a stream, each solvable by moves that `step` would make."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from vagen_envs.errors import LevelError
from vagen_envs.navigation.camera import mujoco
from vagen_envs.navigation.floor_plan import GRID, draw_plan, moves_to, out_of_sight
from vagen_envs.navigation.furnishing import draw_house, furnish
from vagen_envs.navigation.house import House, HouseObject
from vagen_envs.navigation.instructions import say
from vagen_envs.navigation.mjcf import AGENT_HEIGHT
from vagen_envs.navigation.scene import NavigationEpisode, NavigationLevel, Pose, bearing, distance
from vagen_envs.navigation.search import FARTHEST_START, NEAREST_START, fewest_moves, shortest_path
from vagen_envs.navigation.simulator import HouseSimulator, free_pose
from vagen_envs.seeding import HashStream, Split, split_of

if TYPE_CHECKING:
    from vagen_envs.navigation.config import NavigationConfig

_MOST_STARTS = 60
_MOST_ROOMS, _MOST_LOOKS, _MOST_HOUSES = 60, 1500, 100
"""Rooms of the split, looks around in them and houses of several rooms after which a search is given up, within some
seconds. It ends by what was done and not by the clock, so that a level is the same everywhere. Usual windows need 2
rooms and 36 looks at most; ways of 18 to 20 moves needed up to 8 and 800."""


class HouseLevels:
    """Draws levels in furnished rooms.

    Args:
        config: the environment's options.
    """

    def __init__(self, config: NavigationConfig) -> None:
        mujoco()
        self.config = config
        self._looks = 0

    def draw(self, stream: HashStream, split: Split) -> NavigationLevel[HouseSimulator]:
        """A level of the split. Both the room and the pose of target and start belong to it.

        Raises:
            LevelError: no room has an episode; the message says what to change.
        """
        config = self.config
        if config.rooms > 1:
            house, episode, content = self.draw_in_rooms(stream, split)
            return NavigationLevel(self._simulator(house, episode.start), episode, content)
        rooms = self._looks = 0
        while rooms < _MOST_ROOMS and self._looks < _MOST_LOOKS:
            house = draw_house(stream, None if config.room == "any" else config.room)
            if split_of(house.content()) != split:
                continue
            rooms += 1
            simulator = self._simulator(house, Pose(house.width / 200, house.depth / 200, 0))
            targets = house.targets
            stream.shuffle(targets)
            for target in targets:
                level = self._look_for(stream, split, simulator, target)
                if level is not None:
                    return level
        raise LevelError(
            f"no room was found with a way of min_solution_length={config.min_solution_length} to "
            f"max_solution_length={config.max_solution_length} moves of {config.step_length} m to within "
            f"success_threshold={config.success_threshold} m (looked around {self._looks} times in {rooms} "
            "rooms); widen the window, or for longer ways ask for rooms=2 or more"
        )

    def _simulator(self, house: House, start: Pose) -> HouseSimulator:
        config = self.config
        return HouseSimulator(
            house,
            start,
            config.resolution,
            step_length=config.step_length,
            field_of_view=config.fov,
            cast_shadows=config.cast_shadows,
        )

    def draw_in_rooms(self, stream: HashStream, split: Split) -> tuple[House, NavigationEpisode, bytes]:
        """A house of several rooms of the split, and a task in it whose target no turn brings into sight.

        Floor plans belong to splits, and so do the poses of target and start. Needs no simulator: a way
        that is sure (see `moves_to`) is at least as long as the shortest one.
        """
        config, houses = self.config, 0
        while houses < _MOST_HOUSES:
            plan = draw_plan(stream, config.rooms)
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
            f"no house of rooms={config.rooms} was found with a way of "
            f"min_solution_length={config.min_solution_length} to max_solution_length={config.max_solution_length} "
            f"moves (furnished {houses}); widen the window or change rooms"
        )

    def _task_in_rooms(
        self, stream: HashStream, split: Split, house: House, target: HouseObject
    ) -> tuple[NavigationEpisode, bytes] | None:
        config = self.config
        kinds = {placed.kind for placed in house.objects} - {target.kind}
        instruction = say(stream, config.eval_set, target, kinds)
        if instruction is None:
            return None
        tall = round(100 * AGENT_HEIGHT)
        obstacles = [*house.walls, *(placed.rect for placed in house.objects if placed.z < tall)]
        near = round(100 * config.success_threshold)
        moves = moves_to(house.width, house.depth, obstacles, target.x, target.y, near)
        places = np.argwhere((moves >= config.min_solution_length) & (moves <= config.max_solution_length)).tolist()
        for _ in range(min(_MOST_STARTS, len(places))):
            i, j = stream.choice(places)
            x, y = GRID * (i + 1), GRID * (j + 1)
            start = Pose(x / 100, y / 100, 90 * stream.below(4))
            pose = _pose_bytes(house.kind, target, start)
            if split_of(pose) == split and out_of_sight(house.walls, x, y, target.rect):
                return NavigationEpisode(instruction, target.kind, (target.x / 100, target.y / 100), start), pose
        return None

    def _look_for(
        self, stream: HashStream, split: Split, simulator: HouseSimulator, target: HouseObject
    ) -> NavigationLevel[HouseSimulator] | None:
        config = self.config
        kinds = {placed.kind for placed in simulator.house.objects} - {target.kind}
        instruction = say(stream, config.eval_set, target, kinds)
        if instruction is None:
            return None
        at = (target.x / 100, target.y / 100)
        for start in self._starts(stream, target):
            if self._looks >= _MOST_LOOKS:
                return None
            if fewest_moves(start, at, config.step_length, config.success_threshold) > config.max_solution_length:
                continue
            pose = _pose_bytes(simulator.house.kind, target, start)
            if split_of(pose) != split or not free_pose(simulator, start):
                continue
            self._looks += 1
            # The target is seen from the start, or would be if the agent turned round.
            simulator.teleport(start)
            if not simulator.visible()[simulator.house.objects.index(target)]:
                continue
            path = shortest_path(
                start,
                at,
                simulator.blocked,
                step=config.step_length,
                threshold=config.success_threshold,
                longest=config.max_solution_length,
            )
            if not path or len(path) < config.min_solution_length:
                continue
            first = Pose(start.x, start.z, self._first_look(stream, start.rotation))
            simulator.teleport(first)
            # A level is named by where it begins to look, too, but its split isn't drawn from that.
            content = simulator.house.content() + pose + (b"" if config.facing == "target" else b"%d" % first.rotation)
            return NavigationLevel(simulator, NavigationEpisode(instruction, target.kind, at, first), content)
        return None

    def _first_look(self, stream: HashStream, towards: int) -> int:
        """Degrees: where the robot looks at first, if the target is `towards`."""
        if self.config.facing == "any":
            return 90 * stream.below(4)
        return (towards + 180) % 360 if self.config.eval_set == "long_horizon" else towards

    def _starts(self, stream: HashStream, target: HouseObject) -> Iterator[Pose]:
        """Poses at the right distance, looking towards the target, on a grid of 5 cm."""
        x, z = target.x / 100, target.y / 100
        for _ in range(_MOST_STARTS):
            far, angle = stream.uniform(NEAREST_START, FARTHEST_START), stream.uniform(0, 2 * math.pi)
            pose = Pose(round(20 * (x + far * math.sin(angle))) / 20, round(20 * (z + far * math.cos(angle))) / 20, 0)
            if NEAREST_START <= distance(pose, x, z) <= FARTHEST_START:
                yield Pose(pose.x, pose.z, round(bearing(pose, x, z) / 90) * 90 % 360)


def _pose_bytes(kind: str, target: HouseObject, start: Pose) -> bytes:
    """Target and start, wherever the furniture is."""
    pose = [kind, target.kind, target.x, target.y, target.z, round(100 * start.x), round(100 * start.z), start.rotation]
    return json.dumps(["navigation pose", *pose]).encode()
