"""EB-Navigation's episode files (EmbodiedBench, 2025), read from a path of the user's. None is part
of this package.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_envs.errors import ConfigError
from vagen_envs.navigation.scene import NavigationEpisode, Pose


@dataclass(frozen=True, slots=True)
class ThorEpisode:
    """An episode in a scene of AI2-THOR such as `FloorPlan11`; y is the height of the agent's
    middle in metres.
    """

    scene: str
    episode: NavigationEpisode
    y: float


def read_episodes(path: str | Path) -> tuple[ThorEpisode, ...]:
    """The episodes of a file, in its order.

    The file is JSON: a list, or an object with a list `tasks`, of objects with `targetObjectType`,
    `target_position` {x, z}, `agentPose` {position {x, y, z}, rotation, horizon}, `scene` and
    `instruction`. `targetObjectIds` and `object_to_hide` may be there; like EB-Navigation's own
    code we don't need them.

    Episodes that are malformed are left out and counted in one warning. Raises ConfigError if none
    can be read.
    """
    try:
        data = json.loads(Path(path).read_bytes())  # which knows UTF-8 and UTF-16 with their marks
    except (OSError, ValueError) as error:
        why = f"episodes={str(path)!r} can't be read ({error}); give a JSON file as EB-Navigation's"
        raise ConfigError(why) from error
    tasks = data.get("tasks") if isinstance(data, dict) else data
    if not isinstance(tasks, list) or not tasks:
        raise ConfigError(f"episodes={str(path)!r} has no episodes; it needs a list under 'tasks'")
    found = []
    reasons = []
    for index, task in enumerate(tasks):
        try:
            found.append(_episode(task, f"{path}, episode {index}"))
        except ConfigError as error:
            reasons.append(error)
    if not found:
        raise reasons[0]
    if reasons:
        warnings.warn(
            f"{len(reasons)} of {len(tasks)} episodes are left out; the first: {reasons[0]}",
            stacklevel=2,
        )
    return tuple(found)


def _episode(task: Any, where: str) -> ThorEpisode:
    try:
        target = task["target_position"]
        agent = task["agentPose"]
        at = agent["position"]
        rotation = agent["rotation"]
        if isinstance(rotation, dict):
            rotation = rotation["y"]
        numbers = at["x"], at["y"], at["z"], rotation, agent["horizon"], target["x"], target["z"]
        x, y, z, turn, horizon, *goal = floats = [float(number) for number in numbers]
        for number in floats:
            if not math.isfinite(number):  # Python's JSON has them
                raise ValueError(f"{number} is not a finite number")
        scene, kind, instruction = words = (
            task["scene"],
            task["targetObjectType"],
            task["instruction"],
        )
        if not all(isinstance(text, str) and text for text in words):
            raise TypeError("scene, targetObjectType and instruction must be non-empty strings")
    except KeyError as error:
        raise ConfigError(f"{where} lacks {error}; add it as in EB-Navigation's files") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{where} is malformed ({error}); write it as in EB-Navigation's files"
        ) from error
    start = Pose(x, z, round(turn) % 360, round(horizon))
    content = json.dumps(
        ["navigation thor", scene, kind, goal, [x, z, start.rotation, start.horizon]]
    ).encode()
    return ThorEpisode(
        scene, NavigationEpisode(instruction, kind, (goal[0], goal[1]), start, content), y
    )
