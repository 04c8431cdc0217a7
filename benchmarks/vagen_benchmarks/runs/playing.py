"""An episode, played: in the event loop where its environment is quick, in a thread of its own where it isn't."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

import gymnasium as gym

from vagen_benchmarks.agents.base import Agent, AsyncAgent, Call, Game, Reply, Summary
from vagen_benchmarks.errors import EndpointError, Stopped
from vagen_benchmarks.runs.episode import Ended
from vagen_benchmarks.runs.protocol import Task
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import SimulatorError
from vagen_envs.registration import declared

log = logging.getLogger(__name__)

_KINDS: dict[str, Any] = {
    "ending": str,
    "reasoning": str,
    "seconds": (int, float),
    "dollars": (int, float),
    "estimated": bool,
}
"""Of what a call has that isn't a whole number."""
_SURROGATE = re.compile("[\ud800-\udfff]")
MOST = 1e15
"""Tokens, seconds or dollars of one reply."""

Job = tuple[str, Task, int, int]
"""Key, task, seed and repeat."""
P = ParamSpec("P")
R = TypeVar("R")


class Seat:
    """Where one episode after the other is played. Keeps its environment for the next one of the same task.

    An environment that isn't quick, or an agent that blocks, has a thread of the seat's own, which the environment
    never leaves (simulators mind).
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._blocks = agent.calls_a_model and not isinstance(agent, AsyncAgent)
        self._task: Task | None = None
        self._env: gym.Env[dict[str, Any], str] | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it where the environment lives."""
        if self._thread is None:
            return function(*args, **kwargs)
        bound = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._thread, bound)

    async def take(self, task: Task) -> gym.Env[dict[str, Any], str]:
        """An environment of the task."""
        if self._env is None or self._task != task:
            await self.leave()
            if self._blocks or not is_quick(task.env_id):
                self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"seat of {self.agent.name}")
            self._env, self._task = await self.call(task.make, self.agent.env_options), task
        return self._env

    async def leave(self) -> None:
        """Close the environment."""
        env, self._env = self._env, None
        try:
            if env is not None:
                await self.call(env.close)
        finally:
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.shutdown(wait=False)

    async def discard(self) -> None:
        """Close an environment that is broken."""
        try:
            await self.leave()
        except Exception as error:
            log.warning("while closing a broken environment: %s: %s", type(error).__name__, error)


@functools.cache
def is_quick(env_id: str) -> bool:
    """Whether an environment's turns may be played in the event loop."""
    return bool(getattr(declared(env_id)[1], "quick", False))


class _AgentBrokeError(Exception):
    """An agent raised something that isn't an EndpointError."""


@dataclass
class Played:
    """What there is of an episode, however it ended.

    Attributes:
        content: the level's.
        ended: `None` if by the environment's rules.
        error: the endpoint's, if that ended it.
    """

    turns: list[Turn] = field(default_factory=list)
    calls: list[Call | None] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    content: str = ""
    ended: Ended | None = None
    error: EndpointError | None = None


async def play(seat: Seat, job: Job, env_attempts: int) -> Played:
    """An episode, whatever comes of it. A broken environment is replaced and the episode begun again."""
    for attempt in range(1, env_attempts + 1):
        played = Played()
        try:
            await _turns(seat, job, played)
        except Stopped:
            raise
        except EndpointError as error:
            played.ended, played.error = Ended(error.kind, str(error)), error
        except _AgentBrokeError as error:
            played.ended = Ended(Stop.AGENT, str(error))
        except Exception as error:
            await seat.discard()
            if attempt < env_attempts:
                continue
            played.ended = Ended(Stop.ENVIRONMENT, f"{type(error).__name__}: {error}")
        return played
    raise AssertionError("unreachable")


async def _turns(seat: Seat, job: Job, played: Played) -> None:
    _, task, seed, repeat = job
    env = await seat.take(task)
    inner = env.unwrapped
    assert isinstance(inner, VagenEnv)
    inner.hands_pixels = False
    _, info = await seat.call(env.reset, seed=seed)
    played.content = info["level"]["content"]
    past = played.turns, played.calls, played.summaries
    game = Game(inner, task.label, task.split, seed, repeat, inner.observed, *past)
    over = False
    try:
        while not over:
            reply = await _reply(seat, game)
            _, _, terminated, truncated, info = await seat.call(env.step, reply.text)
            over = terminated or truncated
            played.turns.append(info["turn"])
            played.calls.append(reply.call)
            game.now = info["turn"].result
    finally:
        if isinstance(seat.agent, AsyncAgent):
            seat.agent.over(game)


async def _reply(seat: Seat, game: Game) -> Reply:
    agent = seat.agent
    try:
        if isinstance(agent, AsyncAgent):
            return await agent.areply(game)
        reply = await seat.call(_asked, agent, game)
    except (EndpointError, Stopped, SimulatorError):
        raise
    except Exception as error:
        raise _AgentBrokeError(f"{type(error).__name__}: {error}") from error
    if isinstance(reply, str):
        return Reply(_paired(reply))
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise _AgentBrokeError(f"reply() gave a {type(reply).__name__}; it must give a Reply or a string")
    if reply.call is not None:
        _check_call(reply.call)
    return Reply(_paired(reply.text), reply.call)


def _paired(text: str) -> str:
    """With each pair of surrogates as its one character, as JSON would read them back."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _asked(agent: Agent, game: Game) -> Reply | str:
    try:
        return agent.reply(game)
    except (StopIteration, asyncio.CancelledError) as error:  # futures and tasks take these for their own
        raise _AgentBrokeError(f"{type(error).__name__}: {error}") from error


def _check_call(call: object) -> None:
    """What an agent says that a reply cost is stored, added up and shown: it must be numbers, and of JSON."""
    if not isinstance(call, Call):
        raise _AgentBrokeError(f"reply() gave a Reply whose call is a {type(call).__name__}; it must be a Call or None")
    for name, value in replace(call, hidden=None).to_json().items():
        wanted = _KINDS.get(name, int)
        good = isinstance(value, wanted) and not (isinstance(value, bool) and wanted is not bool)
        if value is None and name not in ("ending", "seconds", "attempts", "estimated"):
            continue
        if not good or (not isinstance(value, str) and not 0 <= value <= MOST):
            raise _AgentBrokeError(
                f"reply() gave a Call with {name}={value!r:.60}; it must be "
                + ("true or false" if wanted is bool else "text" if wanted is str else f"a number from 0 to {MOST:.0e}")
            )
