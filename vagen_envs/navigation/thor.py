"""AI2-THOR behind the same interface as the embedded simulator.

`ai2thor` 5.0.0 can hang: for ever if the player dies at its start (its pipe is opened for reading with
nobody to write), until its timeout if the player dies later, and while sending to a player that never opened
its pipe. So every call runs in a thread of its own under a watchdog, which looks at the process and at the
clock, and on trouble kills the player and frees the thread.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vagen_envs.errors import ConfigError, LevelError, MissingExtraError, SimulatorError
from vagen_envs.navigation.episodes import ThorEpisode, read_episodes
from vagen_envs.navigation.scene import LOOK_STEP, MOVES, TURN_STEP, VISIBILITY_DISTANCE, Episode, Metadata, Pose, pose_of
from vagen_envs.pictures import Pixels
from vagen_envs.seeding import HashStream, Split, split_of

if TYPE_CHECKING:
    from vagen_envs.navigation.env import NavigationConfig

ENV_ID = "vagen/Navigation-v0"
GRID_SIZE = 0.1
"""Metres; EB-Navigation's setting. It is no multiple of the step, as there."""
_POLL = 0.05
_LAST_WORDS = 0.3
"""Seconds between two looks at the player, and for which what it wrote before it died is still read."""


@dataclass(frozen=True, slots=True)
class PlayerOptions:
    """What a player is started with; players with equal options can stand in for each other."""

    platform: str
    executable: str | None
    resolution: int
    field_of_view: float
    multiview: bool
    start_timeout: float
    step_timeout: float


class Player:
    """One Unity process behind ai2thor's Controller, under a watchdog.

    Raises:
        MissingExtraError: ai2thor isn't installed.
        SimulatorError: the player didn't come up.
    """

    def __init__(self, options: PlayerOptions, scene: str) -> None:
        module = _ai2thor("ai2thor.controller")
        platform = getattr(_ai2thor("ai2thor.platform"), options.platform)  # the class: a string would fail
        self.options = options
        self.broken = ""
        # Made in two steps, so that there is something to kill while the constructor hangs.
        self._controller: Any = module.Controller.__new__(module.Controller)
        self._controller.server = None
        arguments: dict[str, Any] = {
            "scene": scene,
            "width": options.resolution,
            "height": options.resolution,
            "fieldOfView": options.field_of_view,
            "agentMode": "default",
            "gridSize": GRID_SIZE,
            "visibilityDistance": VISIBILITY_DISTANCE,
            "server_timeout": options.step_timeout,
            "server_start_timeout": options.start_timeout,
        }
        if options.executable is not None:
            arguments |= {"local_executable_path": options.executable, "x_display": os.environ.get("DISPLAY") or "0"}
        else:
            arguments |= {"platform": platform}
        self._watch("start", lambda: self._controller.__init__(**arguments), options.start_timeout)

    def reset(self, scene: str) -> Any:
        """Load a scene. The event after it."""
        return self._watch(f"reset to {scene}", lambda: self._controller.reset(scene), self.options.start_timeout)

    def step(self, action: str, **arguments: Any) -> Any:
        """Carry out one action. Its event, whether or not the action succeeded."""
        return self._watch(
            action, lambda: self._controller.step(action=action, **arguments), self.options.step_timeout
        )

    def _watch(self, name: str, call: Callable[[], Any], timeout: float) -> Any:
        if self.broken:
            raise SimulatorError(ENV_ID, f"the AI2-THOR player is gone: {self.broken}")
        answer: list[Any] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                answer.append(call())
            except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
                failure.append(error)

        thread = threading.Thread(target=work, name=f"ai2thor {name}", daemon=True)
        thread.start()
        deadline, died = time.monotonic() + timeout, None
        while thread.is_alive():
            thread.join(_POLL)
            now = time.monotonic()
            if died is None and self._exit_code() is not None:
                died = now
            if thread.is_alive() and died is not None and now - died > _LAST_WORDS:
                self._give_up(name, f"its process ended with exit code {self._exit_code()}", thread)
            if thread.is_alive() and now > deadline:
                self._give_up(name, f"no answer within {timeout:g} s", thread)
        if failure:
            cause = failure[0]
            self._give_up(name, f"{type(cause).__name__}: {cause}", thread, cause)
        return answer[0]

    def _exit_code(self) -> int | None:
        process = getattr(self._controller.server, "unity_proc", None)
        return None if process is None else process.poll()

    def _give_up(self, name: str, why: str, thread: threading.Thread, cause: BaseException | None = None) -> None:
        self.broken = f"{name}: {why}"
        self.kill()
        for _ in range(50):  # it may open its pipe only now
            if not thread.is_alive():
                break
            thread.join(0.1)
            self.kill()
        raise SimulatorError(ENV_ID, f"the AI2-THOR player failed at {self.broken}") from cause

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
        for path, mode in ((server.server_pipe_path, os.O_WRONLY), (server.client_pipe_path, os.O_RDONLY)):
            with contextlib.suppress(OSError):
                os.close(os.open(path, mode | os.O_NONBLOCK))
        # Another may spin on a pipe at its end until ai2thor's own timeout: take the pipe away.
        for pipe in (server.server_pipe, server.client_pipe):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()


def _ai2thor(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f'{ENV_ID} with backend="thor"', "thor", "ai2thor") from error


class Pool:
    """Players at rest, by their options. A broken one is dropped, and a new one is started in its place."""

    def __init__(self) -> None:
        self._idle: dict[PlayerOptions, list[Player]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def acquire(self, options: PlayerOptions, scene: str) -> Player:
        """A player for one user, one at rest if there is one. Starting one takes up to `start_timeout` seconds."""
        with self._lock:
            if self._process != os.getpid():  # a fork: they belong to the parent
                self._idle, self._process = {}, os.getpid()
            idle = self._idle.get(options, [])
            while idle:
                player = idle.pop()
                if player.alive:
                    return player
                player.kill()
        return Player(options, scene)

    def release(self, player: Player) -> None:
        """Take a player back."""
        if not player.alive:
            player.kill()
            return
        with self._lock:
            self._idle.setdefault(player.options, []).append(player)

    def close(self) -> None:
        """End all players at rest."""
        with self._lock:
            players = [player for idle in self._idle.values() for player in idle]
            self._idle = {}
        if self._process == os.getpid():
            for player in players:
                player.kill()


POOL = Pool()
"""The players of this process."""

atexit.register(POOL.close)


class ThorSimulator:
    """One episode in AI2-THOR."""

    def __init__(self, player: Player, record: ThorEpisode, step_length: float) -> None:
        self._player, self._step_length, self._y = player, step_length, record.y
        self._event = player.reset(record.scene)
        if player.options.multiview:
            properties = player.step("GetMapViewCameraProperties", raise_for_failure=True).metadata["actionReturn"]
            player.step("AddThirdPartyCamera", **{**properties, "orthographic": True}, skyboxColor="white", raise_for_failure=True)
        self._moves: dict[tuple[float, float, int], bool] = {}
        self._away = False
        self.teleport(record.episode.start)
        if not self._event.metadata["lastActionSuccess"]:
            why = self._event.metadata["errorMessage"]
            raise LevelError(f"the start of the episode in {record.scene} can't be taken up ({why}); correct its agentPose")

    @property
    def pose(self) -> Pose:
        """Where the agent is."""
        return pose_of(self._event.metadata)

    def step(self, action: str) -> bool:
        """Carry out one of AI2-THOR's eight actions. Whether it succeeded."""
        if self._away:
            self.teleport(self.pose)
        self._event = self._act(action)
        return bool(self._event.metadata["lastActionSuccess"])

    def _act(self, action: str) -> Any:
        if action in MOVES:
            return self._player.step(action, moveMagnitude=self._step_length)
        return self._player.step(action, degrees=TURN_STEP if action.startswith("Rotate") else LOOK_STEP)

    def blocked(self, pose: Pose, action: str) -> bool:
        """Whether a move from this pose fails: it is tried, and the agent is put back before its next step."""
        key = (round(pose.x, 3), round(pose.z, 3), (pose.rotation + MOVES[action]) % 360)
        if key not in self._moves:
            self._away = True
            tried = self._teleported(pose, renderImage=False)
            if tried.metadata["lastActionSuccess"]:
                tried = self._player.step(action, moveMagnitude=self._step_length, renderImage=False)
            self._moves[key] = not tried.metadata["lastActionSuccess"]
        return self._moves[key]

    def teleport(self, pose: Pose) -> None:
        """Put the agent somewhere."""
        self._event = self._teleported(pose)
        self._away = False

    def _teleported(self, pose: Pose, **arguments: Any) -> Any:
        return self._player.step(
            "Teleport", position={"x": pose.x, "y": self._y, "z": pose.z}, rotation={"x": 0, "y": pose.rotation, "z": 0},
            horizon=pose.horizon, standing=True, **arguments,
        )  # fmt: skip

    def metadata(self) -> Metadata:
        """AI2-THOR's own, of the last step."""
        found: Metadata = self._event.metadata
        return found

    def frame(self) -> Pixels:
        """What the agent sees."""
        return self._checked(self._event.frame)

    def map_frame(self) -> Pixels:
        """The scene from above."""
        frames = self._event.third_party_camera_frames
        return self._checked(frames[-1] if frames else None)

    def _checked(self, frame: Any) -> Pixels:
        side = self._player.options.resolution
        if frame is None or frame.shape != (side, side, 3):
            seen = "no frame" if frame is None else f"a frame of shape {frame.shape}"
            raise SimulatorError(ENV_ID, f"AI2-THOR gave {seen}, not one of {(side, side, 3)}")
        return np.array(frame, np.uint8)


@dataclass(frozen=True, slots=True)
class ThorLevel:
    """An episode ready to be played: as `levels.Level`."""

    simulator: ThorSimulator
    episode: Episode
    content: bytes


class ThorLevels:
    """Draws levels from a file of episodes. Splits are by scene, so no room is in two of them.

    Raises:
        ConfigError: the file or the executable is not to be used.
        MissingExtraError: ai2thor isn't installed.
    """

    def __init__(self, config: NavigationConfig) -> None:
        _ai2thor("ai2thor.controller")
        self._config = config
        self._episodes = read_episodes(config.episodes or "")
        if config.episode is not None and not 0 <= config.episode < len(self._episodes):
            raise ConfigError(f"episode={config.episode} is not valid: the file has episodes 0 to {len(self._episodes) - 1}")
        if config.thor_executable is not None and not os.access(Path(config.thor_executable), os.X_OK):
            raise ConfigError(f"thor_executable={config.thor_executable!r} is not valid: it must be a file one can execute")
        self._options = PlayerOptions(
            config.thor_platform, config.thor_executable, config.resolution, config.fov, config.multiview,
            config.thor_start_timeout, config.thor_step_timeout,
        )  # fmt: skip
        self._player: Player | None = None

    def draw(self, stream: HashStream, split: Split) -> ThorLevel:
        """An episode of the split, in a player that is started, or restarted, if need be."""
        if self._config.episode is not None:
            record = self._episodes[self._config.episode]
        else:
            known = [each for each in self._episodes if split_of(each.scene.encode()) == split]
            if not known:
                raise LevelError(f"no scene of {self._config.episodes} belongs to split {split!r}; use another split or episode=")
            record = stream.choice(known)
        if self._player is None or not self._player.alive:
            self.close()
            self._player = POOL.acquire(self._options, record.scene)
        simulator = ThorSimulator(self._player, record, self._config.step_length)
        return ThorLevel(simulator, record.episode, record.content())

    def close(self) -> None:
        """Give the player back."""
        if self._player is not None:
            player, self._player = self._player, None
            POOL.release(player)
