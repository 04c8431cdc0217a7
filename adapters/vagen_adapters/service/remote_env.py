"""An environment that lives somewhere else, as a `gym.Env`."""

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
from vagen_adapters.service.host import TOO_COSTLY
from vagen_adapters.service.journal import GONE, PLAYED, Reply
from vagen_adapters.service.places import Place
from vagen_envs.core import Observation, State, Turn
from vagen_envs.errors import ConfigError, EpisodeOverError, ReplyTypeError, SimulatorError, did_you_mean
from vagen_envs.pictures import Picture
from vagen_envs.spaces import UnicodeText

Observed = dict[str, Any]
Stepped = tuple[Observed, float, bool, bool, dict[str, Any]]

ENDED = frozenset({*GONE, "diverged", "simulator", TOO_COSTLY})
"""Failures after which an episode is no more. The next reset begins another."""


class RemoteEnv(gym.Env[Observed, str]):
    """An environment elsewhere that observes, rewards and records as it would here, bit for bit.

    `info["turn"]` is a `Turn`, read back from JSON. If the session is gone (its worker or its server died, its
    lease is over), the place has it played again elsewhere and goes on. Where that can't be (the environment isn't
    deterministic, or each worker dies of this move), the step raises SimulatorError with the cause, as for any
    simulator that broke; the next `reset` begins another episode; levels follow from seeds, and unseeded resets
    go on as if nothing had happened.

    Args:
        place: a `Service`, or a pool as `InPool`.
        env_id: such as `"vagen/Sokoban-v0"`.
        options: for `gym.make` there.

    Raises:
        ConfigError: an option is wrong, or the place doesn't have this environment.
        ServiceError: the server can't be reached or has no room.
    """

    metadata: dict[str, Any] = {"render_modes": [], "render_fps": 2}  # noqa: RUF012

    def __init__(self, place: Place, env_id: str, **options: Any) -> None:
        self._place, self._env_id, self._options = place, env_id, options
        try:
            json.dumps(options)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{env_id}: options go over the wire as JSON, and these can't ({error})") from None
        self._running = False
        self._session = ""
        self._seen = Observation("", None)
        opened = self._open()
        self.id: str = opened["env_id"]
        self.system_prompt: str = opened["system_prompt"]
        """What the model is told before the first observation."""
        self.config = dataclasses.make_dataclass("Config", opened["config"])(**opened["config"])
        """The environment's options, all of them."""
        self.action_space = UnicodeText()
        shown: dict[str, gym.Space[Any]] = {"text": UnicodeText()}
        if opened["picture_shape"]:
            shown["image"] = spaces.Box(0, 255, tuple(opened["picture_shape"]), np.uint8)
        self.observation_space = spaces.Dict(shown)
        self.render_mode = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        """Begin an episode, as `VagenEnv.reset`."""
        return self.take_reset(self._place.ask("reset", [self.reset_item(seed, options)])[0])

    def step(self, action: str) -> Stepped:
        """Play one turn, as `VagenEnv.step`."""
        return self.take_step(self._place.ask("step", [self.step_item(action)])[0])

    def oracle_reply(self) -> str:
        """A full reply that brings the episode nearer to its end. Raises ServiceError if the server won't say."""
        reply = self._place.ask("oracle", [{"session": self._session}])[0]
        if "error" in reply.data and reply.data["error"]["code"] not in ENDED:
            raise ServiceError(reply.data["error"]["code"], reply.data["error"]["message"])
        self._raise_failure(reply)
        said: str = reply.data["reply"]
        return said

    def close(self) -> None:
        """End the session. May be called twice; a server that is gone is let go."""
        if self._session:
            with contextlib.suppress(ServiceError):
                self._place.ask("close", [{"session": self._session}])
            self._session = ""

    # -- the halves of a request, for whoever asks for many environments at once ------------------------

    def reset_item(self, seed: int | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """What to ask for a reset."""
        for name in options or {}:
            if name != "split":
                raise ConfigError(f"{self.id}: unknown reset option {name!r}.{did_you_mean(name, ['split'])}")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
            raise ConfigError(f"{self.id}: seed={seed!r} is not valid: it must be an integer of at least 0")
        super().reset(seed=None if seed is None else int(seed))
        # The stream of unseeded resets is ours, and VagenEnv's to the bit, so that it outlives sessions.
        level = int(self.np_random.integers(2**31)) if seed is None else int(seed)
        self._running = False
        return {"session": self._session, "seed": level, "split": (options or {}).get("split")}

    def step_item(self, action: str) -> dict[str, Any]:
        """What to ask for a step."""
        if not self._running:
            raise EpisodeOverError(f"{self.id} has no running episode; call reset() first")
        if not isinstance(action, str):
            raise ReplyTypeError(f"the reply is {type(action).__name__}, not str; pass the model's text as it is")
        return {"session": self._session, "reply": action}

    def take_reset(self, reply: Reply) -> tuple[Observed, dict[str, Any]]:
        """What a reset's answer says."""
        self._raise_failure(reply)
        data = reply.data
        self._running = True
        self._seen = Observation(data["text"], reply.picture)
        self.level: dict[str, Any] = data["level"]
        return self.shown(), {"state": State.from_json(data["state"]), "level": dict(self.level)}

    def take_step(self, reply: Reply) -> Stepped:
        """What a step's answer says."""
        self._raise_failure(reply)
        known = [each for each in (self._seen.picture, reply.picture) if each is not None]
        turn = Turn.from_json(reply.data["turn"], {picture.sha256: picture for picture in known})
        self._seen = turn.result
        self._running = not (turn.terminated or turn.truncated)
        info = {"turn": turn, "state": turn.after, "level": dict(turn.level)}
        return self.shown(), turn.reward, turn.terminated, turn.truncated, info

    @property
    def observed(self) -> Observation:
        """What the agent sees now."""
        return self._seen

    def shown(self) -> Observed:
        """The latest observation, as `step` and `reset` give it."""
        picture: Picture | None = self._seen.picture
        if picture is None:
            return {"text": self._seen.text}
        return {"image": picture.pixels.copy(), "text": self._seen.text}

    def _open(self) -> dict[str, Any]:
        self._session = secrets.token_urlsafe(16)
        item = {"session": self._session, "env_id": self._env_id, "options": self._options}
        reply = self._place.ask("open", [item])[0]
        self._raise_failure(reply)
        return reply.data

    def _raise_failure(self, reply: Reply) -> None:
        error = reply.data.get("error")
        if error is None:
            return
        code, message = error["code"], error["message"]
        if code in ENDED or code in PLAYED:
            self._running = False
        if code == "bad_config":
            raise ConfigError(message)
        if code == "episode_over":
            raise EpisodeOverError(message)
        if code in ENDED:
            raise SimulatorError(self._env_id, message)
        raise ServiceError(code, message)
