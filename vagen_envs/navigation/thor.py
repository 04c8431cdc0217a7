"""AI2-THOR behind the same interface as the embedded simulator, and its players: Unity processes,
kept for reuse.

`ai2thor` 5.0.0 can hang: for ever if the player dies at its start (its pipe is opened for reading
with nobody to write), until its timeout if the player dies later, and while sending to a player
that never opened its pipe. So every call runs in a thread of its own under a watchdog, which looks
at the process and at the clock, and on trouble kills the player and frees the thread.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import ai2thor.platform
import numpy as np
from ai2thor.controller import Controller

from vagen_envs.errors import ConfigError, LevelError, SimulatorError
from vagen_envs.navigation import ENV_ID
from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.episodes import ThorEpisode, read_episodes
from vagen_envs.navigation.scene import (
    LOOKS,
    MOVES,
    TURNS,
    VISIBILITY_DISTANCE,
    NavigationEpisode,
    Pose,
    SceneObject,
)
from vagen_envs.pictures import Pixels
from vagen_envs.seeding import Split, split_of
from vagen_envs.tables import split_named

GRID_SIZE = 0.1
"""Metres; EB-Navigation's setting. It is no multiple of the step, as there."""
_POLL = 0.05
_LAST_WORDS = 0.3
"""Seconds between two looks at the player, and for which what it wrote before it died is still
read.
"""


class Player:
    """One Unity process behind ai2thor's Controller, under a watchdog. Raises SimulatorError if it
    doesn't come up.
    """

    def __init__(self, config: NavigationConfig, scene: str) -> None:
        self.config = config
        self.broken = ""
        # Made in two steps, so that there is something to kill while the constructor hangs.
        self._controller: Any = Controller.__new__(Controller)
        self._controller.server = None
        build: dict[str, Any] = {
            "platform": getattr(ai2thor.platform, config.thor_platform)
        }  # a string would fail
        if config.thor_executable is not None:
            build = {
                "local_executable_path": config.thor_executable,
                "x_display": os.environ.get("DISPLAY") or "0",
            }
        start = functools.partial(
            self._controller.__init__,
            scene=scene,
            width=config.resolution,
            height=config.resolution,
            fieldOfView=config.fov,
            agentMode="default",
            gridSize=GRID_SIZE,
            visibilityDistance=VISIBILITY_DISTANCE,
            server_timeout=config.thor_step_timeout,
            server_start_timeout=config.thor_start_timeout,
            **build,
        )
        self._watch("start", config.thor_start_timeout, start)

    def reset(self, scene: str) -> Any:
        """Load a scene. The event after it."""
        call = functools.partial(self._controller.reset, scene)
        return self._watch(f"reset to {scene}", self.config.thor_start_timeout, call)

    def step(self, action: str, **arguments: Any) -> Any:
        """Carry out one action. Its event, whether or not the action succeeded."""
        call = functools.partial(self._controller.step, action, **arguments)
        return self._watch(action, self.config.thor_step_timeout, call)

    def _watch(self, name: str, timeout: float, call: Callable[[], Any]) -> Any:
        if self.broken:
            raise SimulatorError(ENV_ID, f"the AI2-THOR player is gone: {self.broken}")
        answer: Future[Any] = Future()

        def work() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)

        thread = threading.Thread(target=work, name=f"ai2thor {name}", daemon=True)
        thread.start()
        # its call would go on beside the next one
        why = "it was interrupted"
        cause = None
        try:
            why = self._trouble(answer, timeout)
            if not why and (cause := answer.exception()):
                why = f"{type(cause).__name__}: {cause}"
        finally:
            if why:
                self._give_up(f"{name}: {why}", thread)
        if why:
            raise SimulatorError(ENV_ID, f"the AI2-THOR player failed at {self.broken}") from cause
        return answer.result()

    def _trouble(self, answer: Future[Any], timeout: float) -> str:
        """Wait for an answer. Why there is none, or nothing."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            died = self._exit_code() is not None
            with contextlib.suppress(TimeoutError):
                answer.exception(_LAST_WORDS if died else _POLL)
                return ""
            if died:
                return f"its process ended with exit code {self._exit_code()}"
        return f"no answer within {timeout:g} s"

    def _exit_code(self) -> int | None:
        process = getattr(self._controller.server, "unity_proc", None)
        return None if process is None else process.poll()

    def _give_up(self, why: str, thread: threading.Thread) -> None:
        self.broken = why
        for _ in range(50):  # it may open its pipe only now
            self.kill()
            thread.join(0.1)
            if not thread.is_alive():
                break

    @property
    def alive(self) -> bool:
        """Whether it can be used."""
        return not self.broken and self._exit_code() is None

    def kill(self) -> None:
        """End the process and whoever waits for it. May be called twice."""
        self.broken = self.broken or "it was closed"
        server = self._controller.server
        if server is None:
            return
        process = getattr(server, "unity_proc", None)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        # A thread may hang in open() of either pipe: open the other end for a moment.
        for path, mode in (
            (server.server_pipe_path, os.O_WRONLY),
            (server.client_pipe_path, os.O_RDONLY),
        ):
            with contextlib.suppress(OSError):
                os.close(os.open(path, mode | os.O_NONBLOCK))
        # Another may spin on a pipe at its end until ai2thor's own timeout: take the pipe away.
        for pipe in (server.server_pipe, server.client_pipe):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()


_idle: dict[tuple[int, NavigationConfig], list[Player]] = defaultdict(list)
"""Players at rest, by process, since a fork has none, and configuration."""


def acquire(config: NavigationConfig, scene: str) -> Player:
    """A player for one user, one at rest if there is one. Starting one takes up to
    `thor_start_timeout` seconds.
    """
    with contextlib.suppress(IndexError):
        while True:
            player = _idle[os.getpid(), config].pop()
            if player.alive:
                return player
            player.kill()
    return Player(config, scene)


def release(player: Player) -> None:
    """Take a player back."""
    if player.alive:
        _idle[os.getpid(), player.config].append(player)
    else:
        player.kill()


@atexit.register
def close_players() -> None:
    """End all players of this process that are at rest."""
    for key in [key for key in _idle if key[0] == os.getpid()]:
        for player in _idle.pop(key):
            player.kill()


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
        self._away = False
        self.teleport(record.episode.start)
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
        """Put the agent somewhere."""
        self._event = self._teleported(pose)
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

    def seen(self) -> list[SceneObject]:
        """The objects that AI2-THOR calls visible."""
        return [
            SceneObject(
                found["objectId"],
                found["objectType"],
                found["position"]["x"],
                found["position"]["z"],
            )
            for found in self._event.metadata["objects"]
            if found["visible"]
        ]

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
