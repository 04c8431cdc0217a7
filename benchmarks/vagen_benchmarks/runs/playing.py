"""Play an episode: in the event loop if its environment is quick, else in a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import gymnasium as gym

from vagen_benchmarks.agents.base import Agent, AsyncAgent, Call, ContextSummary, Game, Reply
from vagen_benchmarks.errors import EndpointError, Stopped
from vagen_benchmarks.redaction import redact
from vagen_benchmarks.runs.episode import Ended
from vagen_benchmarks.runs.journal import OWN_REQUEST, EpisodeLedger, hash_of
from vagen_benchmarks.runs.protocol import Task
from vagen_benchmarks.stop_reasons import ENDING_STOPS, Stop
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import SimulatorError, place_of
from vagen_envs.registration import declared

log = logging.getLogger(__name__)

PlannedEpisode = tuple[str, Task, int, int]
"""Key, task, seed and repeat."""
P = ParamSpec("P")
R = TypeVar("R")


class Seat:
    """Plays one episode after the other, and keeps its environment for the next episode of the same
    task.

    An environment that isn't quick, or an agent that blocks, gets a thread of the seat's own: a
    simulator must not change threads.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._blocks = agent.calls_a_model and not isinstance(agent, AsyncAgent)
        self._task: Task | None = None
        self._env: gym.Env[dict[str, Any], str] | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in the thread of the environment."""
        if self._thread is None:
            return function(*args, **kwargs)
        bound = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._thread, bound)

    async def take(self, task: Task) -> gym.Env[dict[str, Any], str]:
        if self._env is None or self._task != task:
            await self.leave()
            if self._blocks or not is_quick(task.env_id):
                self._thread = ThreadPoolExecutor(
                    1, thread_name_prefix=f"seat of {self.agent.name}"
                )
            options = self.agent.options_for(task.env_id)
            self._env = await self.call(task.make, options)
            self._task = task
        return self._env

    async def leave(self) -> None:
        """Close the environment; errors of a broken one are logged."""
        env = self._env
        self._env = None
        try:
            if env is not None:
                await self.call(env.close)
        except Exception as error:
            log.warning("while closing an environment: %s: %s", type(error).__name__, error)
        thread = self._thread
        self._thread = None
        if thread is not None:
            thread.shutdown(wait=False)


@functools.cache
def is_quick(env_id: str) -> bool:
    """Whether an environment's turns may be played in the event loop."""
    return bool(getattr(declared(env_id)[1], "quick", False))


class _NotRepeatedError(Exception):
    """The replies that were kept led to another observation than when they were written."""


class _AgentBrokeError(Exception):
    """An agent raised something that isn't an EndpointError."""


@dataclass
class PlayedEpisode:
    """What was played of an episode, however it ended.

    Attributes:
        content: content hash of the level.
        ended: None if the environment's rules ended it.
        hopeless: whether every other episode would end with the same error of the endpoint.
    """

    turns: list[Turn] = field(default_factory=list)
    calls: list[Call | None] = field(default_factory=list)
    summaries: list[ContextSummary] = field(default_factory=list)
    content: str = ""
    ended: Ended | None = None
    hopeless: bool = False


async def play(
    seat: Seat, planned: PlannedEpisode, ledger: EpisodeLedger, *, again: bool = True
) -> PlayedEpisode:
    """Play an episode, on from the replies that the ledger has kept.

    An environment that breaks is replaced, and the episode begun again once.
    """
    played = PlayedEpisode()
    ledger.begin()
    try:
        await _turns(seat, planned, played, ledger)
    except Stopped:
        raise
    except EndpointError as error:
        played.ended = Ended(error.kind, str(error))
        played.hopeless = error.hopeless
    except _AgentBrokeError as error:
        played.ended = Ended(Stop.AGENT, str(error))
    except Exception as error:
        await seat.leave()
        if again:
            ledger.kept = []
            return await play(seat, planned, ledger, again=False)
        played.ended = Ended(Stop.ENVIRONMENT, f"{type(error).__name__}: {error}")
    return played


async def _turns(
    seat: Seat, planned: PlannedEpisode, played: PlayedEpisode, ledger: EpisodeLedger
) -> None:
    _, task, seed, repeat = planned
    env = await seat.take(task)
    inner = env.unwrapped
    assert isinstance(inner, VagenEnv)
    _, info = await seat.call(env.reset, seed=seed)
    played.content = info["level"]["content"]
    past = played.turns, played.calls, played.summaries
    game = Game(inner, task.label, task.split, seed, repeat, inner.observed, *past, ledger=ledger)

    async def step(reply: Reply) -> bool:
        _, _, terminated, truncated, info = await seat.call(env.step, reply.text)
        played.turns.append(info["turn"])
        played.calls.append(reply.call)
        game.now = info["turn"].result
        stop = ENDING_STOPS.get(reply.call.ending) if reply.call else None
        if stop and reply.call and not info["turn"].success:
            said = reply.call.said or f"the endpoint's reply is {reply.call.ending}"
            played.ended = Ended(stop, said)
        return bool(terminated or truncated or played.ended)

    over = False
    try:
        for kept in ledger.kept:
            if over or kept.seen != hash_of(game.now):
                # Another version of a simulator, or another machine: what was played isn't repeated
                # exactly.
                raise _NotRepeatedError
            if kept.summary:
                game.summaries.append(ContextSummary(len(game.turns), kept.text, kept.call))
            else:
                over = await step(Reply(kept.text, kept.call))
        while not over:
            over = await step(await _reply(seat, game))
    finally:
        if isinstance(seat.agent, AsyncAgent):
            seat.agent.over(game)


async def _reply(seat: Seat, game: Game) -> Reply:
    agent = seat.agent
    try:
        if isinstance(agent, AsyncAgent):
            written = await agent.areply(game)
            text = redact(written.text)
            if written.call is not None and game.ledger.last_turn != len(game.turns):
                game.ledger.answered(game, text, written.call, request=OWN_REQUEST)
            return Reply(text, written.call)
        reply = await seat.call(_asked, agent, game)
    except (EndpointError, Stopped, SimulatorError):
        raise
    except Exception as error:
        raise _AgentBrokeError(f"{type(error).__name__}: {error}{place_of(error)}") from error
    if isinstance(reply, str):
        reply = Reply(reply)
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise _AgentBrokeError(
            f"reply() returned a {type(reply).__name__}; it must return a Reply or a string"
        )
    cost: object = reply.call  # an agent of the user's may return anything
    if not isinstance(cost, Call | None):
        kind = type(cost).__name__
        raise _AgentBrokeError(
            f"reply() returned a Reply whose call is a {kind}; it must be a Call or None"
        )
    text = redact(_paired(reply.text))
    if reply.call is not None:
        game.ledger.answered(game, text, reply.call)
    return Reply(text, reply.call)


def _paired(text: str) -> str:
    """Join each pair of surrogates into its character, as reading JSON does."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _asked(agent: Agent, game: Game) -> Reply | str:
    try:
        return agent.reply(game)
    except (
        StopIteration,
        asyncio.CancelledError,
    ) as error:
        # Futures and tasks interpret these themselves.
        raise _AgentBrokeError(f"{type(error).__name__}: {error}") from error
