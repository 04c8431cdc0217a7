"""The environments of one worker, a process or an actor.

Answers are made here, as JSON and PNG, so that whatever stands between a worker and a client only hands
bytes on.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.service.limits import SLICE, UNLIMITED, Guard, Limits, TooCostly, ran_out_of_memory
from vagen_adapters.service.wire import written
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import ConfigError, EpisodeOverError, MissingExtraError, SimulatorError, VagenError
from vagen_envs.permission import Offers, make_permitted, told
from vagen_envs.pictures import Picture

OPENS = "open"
GO_ON = "go_on"
"""What is asked of a session whose opening isn't finished: to play on what is to be played again."""
MOVES = ("reset", "step")
TOO_COSTLY = "too_costly"
"""The code of a session that passed a bound and was ended."""
KEPT_PNGS = 256
"""Pictures of a worker whose PNG is kept."""


class Call(NamedTuple):
    """What is asked of a session: `open`, `reset`, `step`, `oracle` or `close`, and the arguments of that."""

    session: str
    do: str
    arguments: dict[str, Any]


class Answer(NamedTuple):
    """What came of a call.

    Attributes:
        body: a JSON object. After `reset` and `step` its `picture` has `sha256` and `shape`, or is null.
        picture: the SHA-256 of the picture and the picture as PNG.
        mark: after `reset` and `step`, the body's `mark`: a digest of all answers of the episode so far.
    """

    body: bytes
    picture: tuple[str, bytes] | None = None
    mark: str = ""


class Failure(NamedTuple):
    """A call that wasn't carried out, and what the client is told; `code` is one of `messages.STATUS`."""

    code: str
    message: str


Result = Answer | Failure


class Done(NamedTuple):
    """What came of a call, and the seconds that it took. Without a result it has to be told to go on."""

    result: Result | None
    seconds: float


class EnvHost:
    """The environments of one worker, each known by its session."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._envs: dict[str, VagenEnv] = {}
        self._marks: dict[str, str] = {}
        self._replays: dict[str, Iterator[Result | None]] = {}
        self._pngs: OrderedDict[str, bytes] = OrderedDict()
        self._guard = Guard(limits or UNLIMITED)

    def do(self, calls: Sequence[Call]) -> list[Result]:
        """Carry calls out, in order."""
        return [self._finished(call) for call in calls]

    def _finished(self, call: Call) -> Result:
        return self._one(*call, until=math.inf) or Failure("simulator", "it came to nothing")

    def timed(self, calls: Sequence[Call], seconds: float = SLICE) -> list[Done]:
        """Carry calls out, in order, as far as they could be begun within so many seconds."""
        began = time.monotonic()
        until = began + seconds
        done: list[Done] = []
        for call in calls:
            result = self._one(*call, until=until)
            now = time.monotonic()
            done.append(Done(result, now - began))
            began = now
            if now > until:
                break
        return done

    def _one(self, session: str, do: str, arguments: dict[str, Any], until: float) -> Result | None:
        try:
            if do == OPENS:
                return self._open(session, until=until, **arguments)
            if session not in self._envs:
                return Failure("unknown_session", f"no environment is open as session {session!r}; open one")
            if do == GO_ON:
                return self._go_on(session, until)
            with self._guard:
                result: Result = getattr(self, f"_{do}")(session, **arguments)
            return result
        except TooCostly as cost:
            self._drop(session)
            return Failure(TOO_COSTLY, f"the session has ended: {cost}")
        except EpisodeOverError as error:
            return Failure("episode_over", str(error))
        except (ConfigError, MissingExtraError) as error:
            return Failure("bad_config", str(error))
        except SimulatorError as error:
            return Failure("simulator", error.cause)
        except VagenError as error:
            return Failure("simulator", str(error))
        except Exception as error:
            return Failure("simulator", f"{type(error).__name__}: {error}")

    def _open(
        self, session: str, env_id: str, options: dict[str, Any], offers: Offers | None = None, own: bool = False,
        replay: dict[str, Any] | None = None, until: float = math.inf,
    ) -> Result | None:  # fmt: skip
        """Make an environment; `own` only if this program itself asks, whose options are not a stranger's."""
        with self._guard:
            if session in self._envs:
                self._close(session)
            offers = offers or {}
            try:
                if own:
                    made = cast(VagenEnv, gym.make(env_id, disable_env_checker=True, **options).unwrapped)
                else:
                    made = make_permitted(env_id, options, offers)
            except (gym.error.Error, TypeError) as error:
                raise ConfigError(f"{env_id}: {error}") from error
            env = self._envs[session] = made
            env.hands_pixels = False
            space: Any = env.observation_space
            answer = _answer(
                env_id=env.id,
                system_prompt=env.system_prompt,
                picture_shape=list(space["image"].shape) if "image" in space.spaces else None,
                config=told(env, options, offers),
            )
        if replay is None:
            return answer
        self._replays[session] = self._replay(session, answer, **replay)
        return self._go_on(session, until)

    def _go_on(self, session: str, until: float) -> Result | None:
        """Play an episode again, as far as it goes; each of its moves is bounded like one that is played."""
        if session not in self._replays:
            return Failure("unknown_session", f"session {session!r} has nothing to go on with")
        while True:
            with self._guard:
                result = next(self._replays[session])
            if result is not None:
                self._replays.pop(session, None)
                return result
            if time.monotonic() > until:
                return None

    def _replay(
        self, session: str, answer: Answer, seed: int, split: str | None, replies: Sequence[str], mark: str
    ) -> Iterator[Result | None]:
        """One move after the other; at last what came of opening it: a failure if it isn't the one of this mark."""
        env_id = self._envs[session].id
        diverged = ""
        try:
            self._begin(session, seed, split)
            yield None
            for reply in replies:
                self._play(session, reply)
                yield None
        except Exception as error:
            if ran_out_of_memory(error):
                raise
            diverged = f"played again, it breaks ({type(error).__name__}: {error})"
        else:
            if self._marks[session] != mark:
                diverged = f"{len(replies)} turns played again gave other answers, so it isn't deterministic"
        if diverged:
            self._close(session)
            yield Failure("diverged", f"{env_id}: an episode begun elsewhere can't go on here: {diverged}")
        else:
            yield answer

    def _reset(self, session: str, seed: int | None, split: str | None) -> Answer:
        return self._shown(session, *self._begin(session, seed, split))

    def _step(self, session: str, reply: str) -> Answer:
        return self._shown(session, *self._play(session, reply))

    def _begin(self, session: str, seed: int | None, split: str | None) -> tuple[bytes, Picture | None]:
        env = self._envs[session]
        shown, info = env.reset(seed=seed, options=None if split is None else {"split": split})
        self._marks[session] = ""
        picture = env.observed.picture
        return self._marked(
            session, picture, {"text": shown["text"], "state": info["state"].to_json(), "level": info["level"]}
        )

    def _play(self, session: str, reply: str) -> tuple[bytes, Picture | None]:
        _, reward, _, _, info = self._envs[session].step(reply)
        turn: Turn = info["turn"]
        return self._marked(session, turn.result.picture, {"reward": reward, "turn": turn.to_json()})

    def _marked(self, session: str, picture: Picture | None, said: dict[str, Any]) -> tuple[bytes, Picture | None]:
        named = None if picture is None else {"sha256": picture.sha256, "shape": list(picture.shape)}
        body = written({"picture": named, **said})
        before = self._marks[session].encode()
        self._marks[session] = hashlib.blake2b(before + body, digest_size=16).hexdigest()
        return body, picture

    def _shown(self, session: str, body: bytes, picture: Picture | None) -> Answer:
        mark = self._marks[session]
        named = None if picture is None else (picture.sha256, self._png(picture))
        return Answer(b'{"mark":"%s",' % mark.encode() + body[1:], named, mark)

    def _png(self, picture: Picture) -> bytes:
        """Its PNG. A move that moves nothing, or moves back, shows what was encoded before."""
        png = self._pngs.get(picture.sha256)
        if png is None:
            png = self._pngs[picture.sha256] = picture.png
            if len(self._pngs) > KEPT_PNGS:
                self._pngs.popitem(last=False)
        return png

    def _oracle(self, session: str) -> Answer:
        env = self._envs[session]
        if not hasattr(env, "level"):
            raise EpisodeOverError(f"{env.id} has no running episode; call reset() first")
        return _answer(reply=env.oracle_reply())

    def _drop(self, session: str) -> None:
        """End a session that asked for too much; the memory goes back before its neighbours are asked."""
        self._marks.pop(session, None)
        self._replays.pop(session, None)
        env = self._envs.pop(session, None)
        with contextlib.suppress(Exception):
            if env is not None:
                env.close()
        del env
        gc.collect()

    def _close(self, session: str) -> Answer:
        self._marks.pop(session, None)
        self._replays.pop(session, None)
        self._envs.pop(session).close()
        return _answer()


def _answer(**said: Any) -> Answer:
    return Answer(written(said))
