"""AI2-THOR behind the same interface as the embedded simulator."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from vagen_envs.errors import ConfigError, LevelError, SimulatorError
from vagen_envs.navigation import ENV_ID
from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.episodes import ThorEpisode, read_episodes
from vagen_envs.navigation.players import Player, acquire, release
from vagen_envs.navigation.scene import (
    EYE_Y,
    LOOKS,
    MOVES,
    TURNS,
    NavigationEpisode,
    Pose,
    SceneObject,
    bearing,
    distance,
)
from vagen_envs.pictures import Pixels
from vagen_envs.seeding import Split, split_of
from vagen_envs.tables import split_named

LEAST_SHOWN = 50 / 255**2
"""Share of a picture's pixels from which an object is in it: about what the embedded simulator's
`SEEN` rays are.
"""


class ThorSimulator:
    """One episode in AI2-THOR."""

    def __init__(self, player: Player, record: ThorEpisode, step_length: float) -> None:
        self._player = player
        self._move = {"moveMagnitude": step_length}
        self._y = record.y
        self._event = player.reset(record.scene)
        if player.config.multiview:
            camera = player.step("GetMapViewCameraProperties", raise_for_failure=True).metadata[
                "actionReturn"
            ]
            camera |= {"orthographic": True, "skyboxColor": "white"}
            player.step("AddThirdPartyCamera", **camera, raise_for_failure=True)
        self._moves: dict[tuple[float, float, int], bool] = {}
        self._sights: dict[tuple[float, float, str], bool] = {}
        self._away = False
        self._event = self._teleported(record.episode.start)
        if not self._event.metadata["lastActionSuccess"]:
            why = self._event.metadata["errorMessage"]
            raise LevelError(
                f"the start of the episode in {record.scene} can't be taken up ({why}); correct "
                "its agentPose"
            )

    @property
    def pose(self) -> Pose:
        """Where the agent is; its rotation and horizon to the nearest degree."""
        agent = self._event.metadata["agent"]
        at = agent["position"]
        rotation = round(agent["rotation"]["y"]) % 360
        return Pose(at["x"], at["z"], rotation, round(agent["cameraHorizon"]))

    def step(self, action: str) -> bool:
        """Carry out one of AI2-THOR's eight actions. Whether it succeeded."""
        if self._away:
            self.teleport(self.pose)
        how = self._move if action in MOVES else {"degrees": abs({**TURNS, **LOOKS}[action])}
        self._event = self._player.step(action, **how)
        return bool(self._event.metadata["lastActionSuccess"])

    def blocked(self, pose: Pose, action: str) -> bool:
        """Whether a move from this pose fails: it is tried, and the agent is put back before its
        next step.
        """
        key = (round(pose.x, 3), round(pose.z, 3), (pose.rotation + MOVES[action]) % 360)
        if key not in self._moves:
            self._away = True
            tried = self._teleported(pose, renderImage=False)
            if tried.metadata["lastActionSuccess"]:
                tried = self._player.step(action, **self._move, renderImage=False)
            self._moves[key] = not tried.metadata["lastActionSuccess"]
        return self._moves[key]

    def teleport(self, pose: Pose) -> None:
        """Put the agent somewhere. Raises SimulatorError if it can't be there."""
        event = self._teleported(pose)
        if not event.metadata["lastActionSuccess"]:
            # Where the agent is now nobody knows: it may be where a move or a look was tried.
            why = f"AI2-THOR did not take the agent to {pose} ({event.metadata['errorMessage']})"
            raise SimulatorError(ENV_ID, why)
        self._event = event
        self._away = False

    def _teleported(self, pose: Pose, **arguments: Any) -> Any:
        return self._player.step(
            "Teleport",
            position={"x": pose.x, "y": self._y, "z": pose.z},
            rotation={"x": 0, "y": pose.rotation, "z": 0},
            horizon=pose.horizon,
            standing=True,
            **arguments,
        )

    @property
    def objects(self) -> list[SceneObject]:
        """All objects of the scene."""
        return [_described(found) for found in self._event.metadata["objects"]]

    def seen(self) -> list[SceneObject]:
        """The objects that the picture shows, within `VISIBILITY_DISTANCE`."""
        return [
            _described(found)
            for found in self._event.metadata["objects"]
            if self._shows(self._event, found)
        ]

    def _shows(self, event: Any, found: Any) -> bool:
        """Whether the picture of an event shows an object.

        AI2-THOR's `visible` tests some points of an object and is also set for objects that
        the picture doesn't show (its issues 1120 and 1199), so their pixels are counted, too.
        """
        if not found["visible"]:
            return False
        mask = event.instance_masks.mask(found["objectId"])
        least = LEAST_SHOWN * self._player.config.resolution**2
        return mask is not None and int(np.count_nonzero(mask)) >= least

    def in_sight(self, pose: Pose, name: str) -> bool:
        """Whether the agent, looking from this place towards an object, sees some part of it."""
        key = (round(pose.x, 3), round(pose.z, 3), name)
        if key not in self._sights:
            found = self._event.get_object(name)
            at = found["position"]
            ahead = round(pose.rotation + bearing(pose, at["x"], at["z"])) % 360
            down = math.degrees(
                math.atan2(EYE_Y - self.height(name), distance(pose, at["x"], at["z"]))
            )
            horizons = sorted(range(-30, 61, 30), key=lambda horizon: abs(horizon - down))
            self._sights[key] = any(
                self._shown_from(Pose(pose.x, pose.z, ahead, horizon), name)
                for horizon in horizons[:2]
            )
        return self._sights[key]

    def _shown_from(self, pose: Pose, name: str) -> bool:
        """Whether the picture from a pose shows an object; the agent is put back before its next
        step.
        """
        self._away = True
        event = self._teleported(pose)
        return bool(event.metadata["lastActionSuccess"]) and self._shows(
            event, event.get_object(name)
        )

    def height(self, name: str) -> float:
        """The height of an object's position above the floor, in metres; the agent's middle is
        0.9 m above it.
        """
        return float(self._event.get_object(name)["position"]["y"] - self._y + 0.9)

    def frame(self) -> Pixels:
        """What the agent sees."""
        return self._checked(self._event.frame)

    def map_frame(self) -> Pixels:
        """The scene from above."""
        return self._checked((self._event.third_party_camera_frames or [None])[-1])

    def _checked(self, frame: Any) -> Pixels:
        side = self._player.config.resolution
        if frame is None or frame.shape != (side, side, 3):
            seen = "no frame" if frame is None else f"a frame of shape {frame.shape}"
            raise SimulatorError(ENV_ID, f"AI2-THOR gave {seen}, not one of {(side, side, 3)}")
        return np.array(frame, np.uint8)


def _described(found: Any) -> SceneObject:
    """An object as AI2-THOR's metadata describe it."""
    at = found["position"]
    return SceneObject(found["objectId"], found["objectType"], at["x"], at["z"])


class ThorLevels:
    """Levels from a file of episodes. Raises ConfigError if that file or the executable can't be
    used.
    """

    def __init__(self, config: NavigationConfig) -> None:
        self._config = config
        self._episodes = read_episodes(config.episodes or "")
        if config.thor_executable is not None and not os.access(
            Path(config.thor_executable), os.X_OK
        ):
            raise ConfigError(
                f"thor_executable={config.thor_executable!r} is not valid: it must be a file one "
                "can execute"
            )
        self._player: Player | None = None

    def of_split(self, split: Split) -> list[ThorEpisode]:
        """The episodes of a split, in the order of the file."""
        if self._config.split_by == "content":
            return [record for record in self._episodes if split_of(record.scene.encode()) == split]
        if self._config.split_by == "all":
            return list(self._episodes)
        published = split_named(Path(self._config.episodes or "").name) or "test"
        return list(self._episodes) if split == published else []

    def load(self, record: ThorEpisode) -> tuple[ThorSimulator, NavigationEpisode]:
        """An episode in a player that is started, or restarted, if need be."""
        if self._player is None or not self._player.alive:
            self.close()
            self._player = acquire(self._config, record.scene)
        return ThorSimulator(self._player, record, self._config.step_length), record.episode

    def close(self) -> None:
        """Give the player back."""
        if self._player is not None:
            player = self._player
            self._player = None
            release(player)
