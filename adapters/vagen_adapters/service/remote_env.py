"""A remote environment as a `gym.Env`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.client import Service
from vagen_adapters.service.journal import GONE, PLAYED, SessionReply
from vagen_envs.bounds import SEED
from vagen_envs.config import EnvConfig, plain_integer
from vagen_envs.core import Observation, State, Turn
from vagen_envs.errors import (
    ConfigError,
    EnvClosedError,
    EpisodeOverError,
    ReplyTypeError,
    SimulatorError,
    shown,
)
from vagen_envs.level_choice import LevelChoice
from vagen_envs.spaces import UnicodeText

Observed = dict[str, Any]
Stepped = tuple[Observed, float, bool, bool, dict[str, Any]]

ENDED = frozenset({*GONE, "diverged", "simulator", "too_costly"})
"""Failures that end an episode. The next reset begins another."""


class RemoteEnv(gym.Env[Observed, str]):
    """An environment in another process that observes, rewards and records bit for bit like a local
    one.

    `info["turn"]` is a `Turn`, read back from JSON. If the session is gone (its worker or its
    server died, its lease is over), the client replays it elsewhere and goes on. If that fails (the
    environment isn't deterministic, or every worker dies of this move), the step raises
    SimulatorError with the cause, as for any broken simulator, and the next `reset` begins another
    episode. The stream of unseeded levels goes on as if nothing had happened.

    Args:
        service: the server.
        env_id: such as `"vagen/Sokoban-v0"`.
        options: for `gym.make` there.

    Raises:
        ConfigError: an option is wrong, or the server doesn't have this environment.
        ServiceError: the server can't be reached or has no room.
    """

    metadata: dict[str, Any] = {"render_modes": [], "render_fps": 2}  # noqa: RUF012

    def __init__(self, service: Service, env_id: str, **options: Any) -> None:
        self._service = service
        self._env_id = env_id
        for name, value in options.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ConfigError(
                    f"{env_id}: {name}={shown(value)} can't be sent as JSON ({error})"
                ) from None
        self._running = False
        self._session = secrets.token_urlsafe(16)
        self.observed = Observation("", None)
        """The latest observation."""
        reply = service.ask(
            "open", [{"session": self._session, "env_id": env_id, "options": options}]
        )[0]
        self._raise_failure(reply)
        opened = reply.data
        self.id: str = opened["env_id"]
        self.system_prompt: str = opened["system_prompt"]
        """The system prompt of the model."""
        self.level_count: int | None = opened["level_count"]
        """How many levels the configured split of published data has; None where they are
        generated.
        """
        self.config = dataclasses.make_dataclass("Config", opened["config"])(**opened["config"])
        """All options of the environment."""
        self._choice = self._asked = LevelChoice(self.config.split, self.config.level)
        self.action_space = UnicodeText()
        seen: dict[str, gym.Space[Any]] = {"text": UnicodeText()}
        if opened["picture_shape"]:
            seen["image"] = spaces.Box(0, 255, tuple(opened["picture_shape"]), np.uint8)
        self.observation_space = spaces.Dict(seen)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        """Begin an episode, as `VagenEnv.reset`."""
        return self.take_reset(self._service.ask("reset", [self.reset_item(seed, options)])[0])

    def step(self, action: str) -> Stepped:
        """Play one turn, as `VagenEnv.step`."""
        return self.take_step(self._service.ask("step", [self.step_item(action)])[0])

    def close(self) -> None:
        """End the session. May be called twice; does nothing if the server is gone."""
        if self._session:
            with contextlib.suppress(ServiceError):
                self._service.ask("close", [{"session": self._session}])
            self._session = ""

    def reset_item(self, seed: int | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """The item of a reset, for a request of many."""
        self._require_open()
        self._running = False
        seed = plain_integer(seed)
        named = EnvConfig.of_reset(options, self.id)
        if seed is not None and not SEED.admits(seed):
            raise ConfigError(f"{self.id}: seed={shown(seed)} is not valid: it must be {SEED}")
        super().reset(seed=seed)
        # What was named is kept here, too, and sent with each reset, so that it outlives sessions.
        self._asked = self._choice.renamed(named, seed, self.config.level)
        if seed is None and self._asked.level is None:
            # The stream of unseeded resets is kept here, bit for bit as in VagenEnv, so that it
            # outlives sessions.
            seed = int(self.np_random.integers(2**31))
        return {"session": self._session, "seed": seed, **dataclasses.asdict(self._asked)}

    def step_item(self, action: str) -> dict[str, Any]:
        """The item of a step."""
        self._require_open()
        if not self._running:
            raise EpisodeOverError(f"{self.id} has no running episode; call reset() first")
        if not isinstance(action, str):
            raise ReplyTypeError(
                f"the reply is {type(action).__name__}, not str; pass the model's text as it is"
            )
        return {"session": self._session, "reply": action}

    def take_reset(self, reply: SessionReply) -> tuple[Observed, dict[str, Any]]:
        """The result of a reset, from its reply."""
        self._raise_failure(reply)
        data = reply.data
        self._choice = self._asked
        self._running = True
        self.observed = Observation(data["text"], reply.picture)
        self.level: dict[str, Any] = data["level"]
        return self.shown(), {"state": State.from_json(data["state"]), "level": dict(self.level)}

    def take_step(self, reply: SessionReply) -> Stepped:
        """The result of a step, from its reply."""
        self._raise_failure(reply)
        known = [
            picture for picture in (self.observed.picture, reply.picture) if picture is not None
        ]
        turn = Turn.from_json(reply.data["turn"], {picture.sha256: picture for picture in known})
        self.observed = turn.result
        self._running = not (turn.terminated or turn.truncated)
        info = {"turn": turn, "state": turn.after, "level": dict(turn.level)}
        return self.shown(), turn.reward, turn.terminated, turn.truncated, info

    def shown(self) -> Observed:
        """The latest observation, in the form of `step` and `reset`."""
        picture = self.observed.picture
        shown = {} if picture is None else {"image": picture.pixels.copy()}
        return {**shown, "text": self.observed.text}

    def _require_open(self) -> None:
        if not self._session:
            raise EnvClosedError(f"{self.id} was closed; make another environment")

    def _raise_failure(self, reply: SessionReply) -> None:
        error = reply.data.get("error")
        if error is None:
            return
        code = error["code"]
        message = error["message"]
        if code in ENDED or code in PLAYED:
            self._running = False
        if code == "bad_config":
            raise ConfigError(message)
        if code == "episode_over":
            raise EpisodeOverError(message)
        if code in ENDED:
            raise SimulatorError(self._env_id, message)
        raise ServiceError(code, message)
