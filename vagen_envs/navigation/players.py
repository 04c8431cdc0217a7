"""AI2-THOR's players: Unity processes, kept for reuse.

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
from typing import Any

import ai2thor.platform
from ai2thor.controller import Controller

from vagen_envs.errors import SimulatorError
from vagen_envs.navigation import ENV_ID
from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.scene import VISIBILITY_DISTANCE

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
            renderInstanceSegmentation=True,
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
