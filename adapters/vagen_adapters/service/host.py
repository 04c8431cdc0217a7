"""The environments of one worker, in a process or a Ray actor.

Answers are encoded here, as JSON and PNG, so that the server only passes bytes on.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
from typing import Any, NamedTuple

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.permission import Offers, make_permitted, told
from vagen_adapters.service.framing import written
from vagen_adapters.service.limits import UNLIMITED, Guard, Limits, TooCostly
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import ConfigError, EpisodeOverError, MissingExtraError, VagenError
from vagen_envs.pictures import Picture

MOVES = ("reset", "step")


class HostCall(NamedTuple):
    """A request to one session: `open`, `reset`, `step` or `close`, with its arguments."""

    session: str
    verb: str
    arguments: dict[str, Any]


class HostAnswer(NamedTuple):
    """The result of a call. After `reset` and `step` the body's `picture` has `sha256` and `shape`,
    or is null.
    """

    body: bytes  # a JSON object
    picture: tuple[str, bytes] | None = None  # the SHA-256 of the picture, and the PNG
    digest: str = ""  # of all answers of the episode so far; also in the body


class Failure(NamedTuple):
    """A call that was not carried out; `code` is for programs, `message` for people."""

    code: str
    message: str


Result = HostAnswer | Failure


class EnvHost:
    """The environments of one worker by session. Without `limits` a call may take what it likes."""

    def __init__(self, limits: Limits = UNLIMITED) -> None:
        self._envs: dict[str, VagenEnv] = {}
        self._digests: dict[str, str] = {}
        self._guard = Guard(limits)

    def run(self, call: HostCall) -> Result:
        """Carry out a call."""
        session = call.session
        if call.verb != "open" and session not in self._envs:
            return Failure(
                "unknown_session", f"no environment is open as session {session!r}; open one"
            )
        try:
            with self._guard:
                result: Result = getattr(self, f"_{call.verb}")(session, **call.arguments)
            return result
        except TooCostly as cost:
            self._drop(session)
            return Failure("too_costly", f"the session has ended: {cost}")
        except EpisodeOverError as error:
            return Failure("episode_over", str(error))
        except (ConfigError, MissingExtraError) as error:
            return Failure("bad_config", str(error))
        except VagenError as error:
            return Failure("simulator", getattr(error, "cause", str(error)))
        except Exception as error:
            return Failure("simulator", f"{type(error).__name__}: {error}")

    def _open(
        self, session: str, env_id: str, options: dict[str, Any], offers: Offers
    ) -> HostAnswer:
        """Make an environment."""
        if session in self._envs:
            self._close(session)
        try:
            env = make_permitted(env_id, options, offers)
        except (gym.error.Error, TypeError) as error:
            raise ConfigError(f"{env_id}: {error}") from error
        self._envs[session] = env
        space: Any = env.observation_space
        opened = {
            "env_id": env.id,
            "system_prompt": env.system_prompt,
            "level_count": env.level_count,
            "picture_shape": list(space["image"].shape) if "image" in space.spaces else None,
            "config": told(env, options, offers),
        }
        return HostAnswer(written(opened))

    def _reset(
        self, session: str, seed: int | None, split: str | None = None, level: int | None = None
    ) -> HostAnswer:
        env = self._envs[session]
        shown, info = env.reset(seed=seed, options={"split": split, "level": level})
        self._digests[session] = ""
        data = {"text": shown["text"], "state": info["state"].to_json(), "level": info["level"]}
        return self._shown(session, env.observed.picture, data)

    def _step(self, session: str, reply: str) -> HostAnswer:
        _, reward, _, _, info = self._envs[session].step(reply)
        turn: Turn = info["turn"]
        return self._shown(session, turn.result.picture, {"reward": reward, "turn": turn.to_json()})

    def _shown(self, session: str, picture: Picture | None, data: dict[str, Any]) -> HostAnswer:
        """An answer with its digest."""
        named = None
        png = None
        if picture is not None:
            named = {"sha256": picture.sha256, "shape": list(picture.shape)}
            png = (picture.sha256, picture.png)
        body = written({"picture": named, **data})
        since_reset = self._digests[session].encode()
        digest = hashlib.blake2b(since_reset + body, digest_size=16).hexdigest()
        self._digests[session] = digest
        return HostAnswer(b'{"digest":"%s",' % digest.encode() + body[1:], png, digest)

    def _close(self, session: str) -> HostAnswer:
        self._digests.pop(session, None)
        self._envs.pop(session).close()
        return HostAnswer(b"{}")

    def _drop(self, session: str) -> None:
        """End a session that passed a bound, and free its memory before the next call."""
        with contextlib.suppress(Exception):
            self._close(session)
        gc.collect()
