"""Episodes in furnished rooms, drawn from a stream, each solvable by moves that `step` would
make.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from vagen_envs.errors import LevelError
from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.floor_plan import (
    GRID,
    Field,
    FloorPlan,
    draw_plan,
    moves_to,
    out_of_sight,
)
from vagen_envs.navigation.furnishing import draw_house, furnish
from vagen_envs.navigation.house import House, HouseObject
from vagen_envs.navigation.instructions import candidates
from vagen_envs.navigation.mjcf import AGENT_HEIGHT
from vagen_envs.navigation.scene import NavigationEpisode, Pose, bearing, distance
from vagen_envs.navigation.search import FARTHEST_START, NEAREST_START, fewest_moves, shortest_path
from vagen_envs.navigation.simulator import HouseSimulator, free_pose
from vagen_envs.seeding import HashStream, Split, split_of

_MOST_STARTS = 60
_MOST_ROOMS = 60
_MOST_LOOKS = 1500
_MOST_HOUSES = 100
"""Rooms of the split, looks around in them and houses of several rooms after which a search is
given up, within some seconds. It ends by what was done and not by the clock, so that a level is the
same everywhere. Usual windows need 2 rooms and 36 looks at most; ways of 18 to 20 moves needed up
to 8 and 800."""

HouseLevel = tuple[HouseSimulator, NavigationEpisode]


class HouseLevels:
    """Draws levels in furnished rooms."""

    def __init__(self, config: NavigationConfig) -> None:
        self.config = config
        self._looks = 0

    def draw(self, stream: HashStream, split: Split) -> HouseLevel:
        """A level of the split. Rooms and floor plans belong to splits, and so do the poses of
        target and start.
        """
        config = self.config
        find, most = (
            (self._in_rooms, _MOST_HOUSES) if config.rooms > 1 else (self._in_a_room, _MOST_ROOMS)
        )
        houses = self._looks = 0
        while houses < most and self._looks < _MOST_LOOKS:
            drawn: FloorPlan | House
            if config.rooms > 1:
                drawn = draw_plan(stream, config.rooms)
            else:
                drawn = draw_house(stream, None if config.room == "any" else config.room)
            if split_of(drawn.content()) != split:
                continue
            houses += 1
            house = drawn if isinstance(drawn, House) else furnish(stream, drawn)
            for level in find(stream, split, house):
                return level
        other = "change rooms" if config.rooms > 1 else "for longer ways ask for rooms=2 or more"
        raise LevelError(
            f"no house of rooms={config.rooms} was found with a way of "
            f"min_solution_length={config.min_solution_length} to "
            f"max_solution_length={config.max_solution_length} moves of {config.step_length} m "
            f"to within success_threshold={config.success_threshold} m (looked around "
            f"{self._looks} times in {houses} houses); widen the window, or {other}"
        )

    def _targets(self, stream: HashStream, house: House) -> Iterator[tuple[HouseObject, str]]:
        """The things that can be looked for, and what asks for one, in random order."""
        targets = house.targets
        stream.shuffle(targets)
        for target in targets:
            texts = candidates(
                self.config.eval_set, target, {it.kind for it in house.objects} - {target.kind}
            )
            if texts:  # else every one would be true of something else as well
                yield target, stream.choice(texts)

    def _in_rooms(self, stream: HashStream, split: Split, house: House) -> Iterator[HouseLevel]:
        """Levels whose target no turn brings into sight. A way that is sure is at least as long as
        the shortest one.
        """
        config = self.config
        simulator = HouseSimulator(house, Pose(house.width / 200, house.depth / 200, 0), config)
        for target, instruction in self._targets(stream, house):
            moves = self._sure_moves(simulator, target)
            fits = (moves >= config.min_solution_length) & (moves <= config.max_solution_length)
            places = np.argwhere(fits).tolist()
            for _ in range(min(_MOST_STARTS, len(places))):
                i, j = stream.choice(places)
                x = GRID * (i + 1)
                y = GRID * (j + 1)
                start = Pose(x / 100, y / 100, 90 * stream.below(4))
                pose = _pose_bytes(house.kind, target, start)
                if split_of(pose) == split and out_of_sight(house.walls, x, y, target.rect):
                    at = (target.x / 100, target.y / 100)
                    content = house.content() + pose
                    episode = NavigationEpisode(instruction, target.kind, at, start, content)
                    simulator.teleport(start)
                    yield simulator, episode

    def _sure_moves(self, simulator: HouseSimulator, target: HouseObject) -> Field:
        """From each place of the grid the moves of a way that is sure, see `moves_to`."""
        house = simulator.house
        ends = self._ends(simulator, target)
        tall = round(100 * AGENT_HEIGHT)
        near = round(100 * self.config.success_threshold)
        obstacles = [*house.walls, *(placed.rect for placed in house.objects if placed.z < tall)]
        return moves_to(
            house.width,
            house.depth,
            obstacles,
            target.x,
            target.y,
            near,
            lambda x, y: ends(Pose(x / 100, y / 100, 0)),
        )

    def _ends(self, simulator: HouseSimulator, target: HouseObject) -> Callable[[Pose], bool]:
        """Whether a place near enough to the target is one where the task is done."""
        if not self.config.success_needs_sight:
            return lambda _: True
        name = simulator.objects[simulator.house.objects.index(target)].name
        return lambda pose: simulator.in_sight(pose, name)

    def _in_a_room(self, stream: HashStream, split: Split, house: House) -> Iterator[HouseLevel]:
        """Levels whose target is seen from the start, or would be if the agent turned round."""
        config = self.config
        step = config.step_length
        threshold = config.success_threshold
        longest = config.max_solution_length
        simulator = HouseSimulator(house, Pose(house.width / 200, house.depth / 200, 0), config)
        for target, instruction in self._targets(stream, house):
            at = (target.x / 100, target.y / 100)
            for start in _starts(stream, *at):
                if self._looks >= _MOST_LOOKS:
                    return
                if fewest_moves(start, at, step, threshold) > longest:
                    continue
                pose = _pose_bytes(house.kind, target, start)
                if split_of(pose) != split or not free_pose(simulator, start):
                    continue
                self._looks += 1
                simulator.teleport(start)
                if not simulator.visible()[house.objects.index(target)]:
                    continue
                path = shortest_path(
                    start,
                    at,
                    simulator.blocked,
                    step=step,
                    threshold=threshold,
                    longest=longest,
                    ends=self._ends(simulator, target),
                )
                if not path or len(path) < config.min_solution_length:
                    continue
                first = start
                if config.facing == "any":
                    first = replace(start, rotation=90 * stream.below(4))
                elif config.eval_set == "long_horizon":
                    first = replace(start, rotation=(start.rotation + 180) % 360)
                simulator.teleport(first)
                # A level is named by where it begins to look, too, but its split isn't drawn from
                # that.
                look = b"" if config.facing == "target" else b"%d" % first.rotation
                yield (
                    simulator,
                    NavigationEpisode(
                        instruction, target.kind, at, first, house.content() + pose + look
                    ),
                )


def _starts(stream: HashStream, x: float, z: float) -> Iterator[Pose]:
    """Poses at the right distance, looking towards a target, on a grid of 5 cm."""
    for _ in range(_MOST_STARTS):
        far = stream.uniform(NEAREST_START, FARTHEST_START)
        angle = stream.uniform(0, 2 * math.pi)
        pose = Pose(
            round(20 * (x + far * math.sin(angle))) / 20,
            round(20 * (z + far * math.cos(angle))) / 20,
            0,
        )
        if NEAREST_START <= distance(pose, x, z) <= FARTHEST_START:
            yield replace(pose, rotation=round(bearing(pose, x, z) / 90) * 90 % 360)


def _pose_bytes(kind: str, target: HouseObject, start: Pose) -> bytes:
    """Target and start, wherever the furniture is."""
    pose = [
        kind,
        target.kind,
        target.x,
        target.y,
        target.z,
        round(100 * start.x),
        round(100 * start.z),
        start.rotation,
    ]
    return json.dumps(["navigation pose", *pose]).encode()
