"""AI2-THOR's players: Unity processes behind ai2thor's Controller, under watchdogs and in a pool.

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
from typing import Any

from vagen_envs.errors import MissingExtraError, SimulatorError
from vagen_envs.navigation import ENV_ID
from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.scene import VISIBILITY_DISTANCE

GRID_SIZE = 0.1
"""Metres; EB-Navigation's setting. It is no multiple of the step, as there."""
_POLL = 0.05
_LAST_WORDS = 0.3
"""Seconds between two looks at the player, and for which what it wrote before it died is still read."""


class Player:
    """One Unity process behind ai2thor's Controller, under a watchdog.

    Raises:
        MissingExtraError: ai2thor isn't installed.
        SimulatorError: the player didn't come up.
    """

    def __init__(self, config: NavigationConfig, scene: str) -> None:
        module = ai2thor("ai2thor.controller")
        platform = getattr(ai2thor("ai2thor.platform"), config.thor_platform)  # the class: a string would fail
        self.config = config
        self.broken = ""
        # Made in two steps, so that there is something to kill while the constructor hangs.
        self._controller: Any = module.Controller.__new__(module.Controller)
        self._controller.server = None
        arguments: dict[str, Any] = {
            "scene": scene,
            "width": config.resolution,
            "height": config.resolution,
            "fieldOfView": config.fov,
            "agentMode": "default",
            "gridSize": GRID_SIZE,
            "visibilityDistance": VISIBILITY_DISTANCE,
            "server_timeout": config.thor_step_timeout,
            "server_start_timeout": config.thor_start_timeout,
        }
        if config.thor_executable is not None:
            arguments |= {
                "local_executable_path": config.thor_executable,
                "x_display": os.environ.get("DISPLAY") or "0",
            }
        else:
            arguments |= {"platform": platform}
        self._watch("start", lambda: self._controller.__init__(**arguments), config.thor_start_timeout)

    def reset(self, scene: str) -> Any:
        """Load a scene. The event after it."""
        return self._watch(f"reset to {scene}", lambda: self._controller.reset(scene), self.config.thor_start_timeout)

    def step(self, action: str, **arguments: Any) -> Any:
        """Carry out one action. Its event, whether or not the action succeeded."""
        return self._watch(
            action, lambda: self._controller.step(action=action, **arguments), self.config.thor_step_timeout
        )

    def _watch(self, name: str, call: Callable[[], Any], timeout: float) -> Any:
        if self.broken:
            raise SimulatorError(ENV_ID, f"the AI2-THOR player is gone: {self.broken}")
        answer: list[Any] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                answer.append(call())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=work, name=f"ai2thor {name}", daemon=True)
        thread.start()
        deadline, died = time.monotonic() + timeout, None
        try:
            while thread.is_alive():
                thread.join(_POLL)
                now = time.monotonic()
                if died is None and self._exit_code() is not None:
                    died = now
                if thread.is_alive() and died is not None and now - died > _LAST_WORDS:
                    self._give_up(name, f"its process ended with exit code {self._exit_code()}", thread)
                if thread.is_alive() and now > deadline:
                    self._give_up(name, f"no answer within {timeout:g} s", thread)
        except KeyboardInterrupt:
            with contextlib.suppress(SimulatorError):
                self._give_up(name, "it was interrupted", thread)  # else its call would go on beside the next one
            raise
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


def ai2thor(name: str) -> Any:
    """A module of ai2thor. Raises MissingExtraError where it isn't installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f'{ENV_ID} with backend="thor"', "thor", "ai2thor") from error


class PlayerPool:
    """Players at rest, by their configuration. A broken one is dropped, and a new one is started in its place."""

    def __init__(self) -> None:
        self._idle: dict[NavigationConfig, list[Player]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def acquire(self, config: NavigationConfig, scene: str) -> Player:
        """A player for one user, one at rest if there is one. Starting one takes up to `start_timeout` seconds."""
        with self._lock:
            if self._process != os.getpid():  # a fork: they belong to the parent
                self._idle, self._process = {}, os.getpid()
            idle = self._idle.get(config, [])
            while idle:
                player = idle.pop()
                if player.alive:
                    return player
                player.kill()
        return Player(config, scene)

    def release(self, player: Player) -> None:
        """Take a player back."""
        if not player.alive:
            player.kill()
            return
        with self._lock:
            self._idle.setdefault(player.config, []).append(player)

    def close(self) -> None:
        """End all players at rest."""
        with self._lock:
            players = [player for idle in self._idle.values() for player in idle]
            self._idle = {}
        if self._process == os.getpid():
            for player in players:
                player.kill()


POOL = PlayerPool()
"""The players of this process."""

atexit.register(POOL.close)
