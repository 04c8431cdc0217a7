"""The shortest way to the target, by the same move test as `step`."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from vagen_envs.navigation.scene import HORIZONS, MOVES, TURNS, Pose, bearing, distance

NEAREST_START = 2.5
FARTHEST_START = 3.0
"""Metres between the start and the target, as in EB-Navigation."""
_MOST_POSES = 4000
_EDGE = 20.0
"""Degrees from the edge of the picture within which a thing is partly out of it, or hard to make
out.
"""
_ROUNDED = 1e-4
"""Metres that poses, which are rounded, may be nearer by. A bound that is a move too low does no
harm.
"""


def shortest_path(
    start: Pose,
    target: tuple[float, float],
    blocked: Callable[[Pose, str], bool],
    *,
    step: float,
    threshold: float,
    longest: int,
    ends: Callable[[Pose], bool] = lambda _: True,
) -> list[str] | None:
    """Fewest moves, without turning, to within `threshold` of the target, by A*; `None` if it takes
    over `longest`.

    `blocked` is the simulator's move test, `ends` what else must hold of the last pose; lengths are
    in metres.
    """

    def least(pose: Pose) -> int:
        # No move brings it nearer than by its length; what rounding adds must not count as a move.
        return max(0, math.ceil((distance(pose, *target) - threshold) / step - 1e-9))

    cells = {"MoveAhead": (0, 1), "MoveBack": (0, -1), "MoveRight": (1, 0), "MoveLeft": (-1, 0)}
    found: dict[tuple[int, int], tuple[list[str], Pose]] = {(0, 0): ([], start)}
    open_cells: list[tuple[int, int, tuple[int, int]]] = [(least(start), 0, (0, 0))]
    while open_cells and len(found) < _MOST_POSES:
        estimate, negative_cost, cell = heapq.heappop(open_cells)
        if estimate > longest:
            return None
        way, pose = found[cell]
        if len(way) < -negative_cost:
            continue
        if distance(pose, *target) <= threshold and ends(pose):
            return way
        for action, (i, j) in cells.items():
            following = (cell[0] + i, cell[1] + j)
            cost = len(way) + 1
            shorter = following not in found or cost < len(found[following][0])
            if shorter and not blocked(pose, action):
                end = pose.after(action, step)
                found[following] = ([*way, action], end)
                heapq.heappush(open_cells, (cost + least(end), -cost, following))
    return None


def fewest_moves(start: Pose, target: tuple[float, float], step: float, threshold: float) -> int:
    """Moves to within `threshold` of the target if nothing stood in the way: no way has fewer."""
    across = abs(target[0] - start.x)
    along = abs(target[1] - start.z)
    fewest = math.inf
    for sideways in range(math.ceil(across / step) + 1):
        left = max(0.0, across - sideways * step)
        if left <= threshold + _ROUNDED:
            ahead = along - math.sqrt(max(0.0, threshold * threshold - left * left))
            fewest = min(fewest, sideways + max(0, math.ceil((ahead - _ROUNDED) / step)))
    return int(fewest)


def turns_towards(pose: Pose, target: tuple[float, float]) -> list[str]:
    """The quarter turns after which the target is within 45 degrees of straight ahead."""
    angle = bearing(pose, *target)
    quarters = math.ceil((abs(angle) - 45.0) / 90.0 - 1e-9)
    return ["RotateRight" if angle > 0 else "RotateLeft"] * max(0, quarters)


def look_at(pose: Pose, target: tuple[float, float], below: float, fov: float) -> list[str]:
    """The fewest turns and looks after which the target is well within the picture, or as near to
    it as they allow.

    `below` is how many metres the target's middle is below the camera, `fov` the field of view in
    degrees.
    """
    turns = turns_towards(pose, target)
    for turn in turns:
        pose = pose.after(turn, 0.0)
    ahead = distance(pose, *target) * math.cos(math.radians(bearing(pose, *target)))
    down = math.degrees(math.atan2(below, ahead))
    # A look is 30 degrees: the middle third of the usual picture, and any one that it can be
    # brought into.
    reach = max(15.0, fov / 2 - _EDGE)
    horizon = pose.horizon
    looks = []
    for look, sign in (("LookDown", 1), ("LookUp", -1)):
        while sign * (down - horizon) > reach and horizon + 30 * sign in HORIZONS:
            horizon += 30 * sign
            looks.append(look)
    return [*turns, *looks]


def turned_path(path: list[str], turns: list[str]) -> list[str]:
    """The same way for an agent that has turned first."""
    quarter = sum(TURNS.get(turn, 0) for turn in turns)
    names = {way: action for action, way in MOVES.items()}
    return [names[(MOVES[action] - quarter) % 360] for action in path]


def way_that_looks(
    start: Pose,
    path: list[str],
    target: tuple[float, float],
    below: float,
    *,
    step: float,
    fov: float,
    left: int,
) -> list[str]:
    """A path with the turns and looks after which its end shows the target, as far as `left`
    actions allow them: first with turns towards it, then with looks alone, then the path itself.

    The looks come before the last move, after which the episode is over.

    Args:
        start: the pose before the path.
        path: moves without turns.
        target: its place on the floor in metres.
        below: metres from the eyes down to it.
        step: length of a move in metres.
        fov: angle of view in degrees.
        left: actions that may still be taken.
    """
    if not path:
        return path
    for turns in (turns_towards(start, target), []):
        way = [*turns, *turned_path(path, turns)]
        end = start
        for action in way:
            end = end.after(action, step)
        looks = look_at(end, target, below, fov)
        if len(way) + len(looks) <= left:
            return [*way[:-1], *looks, *turned_path(way[-1:], looks)]
    return path
