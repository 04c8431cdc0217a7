"""What every agent is."""

from __future__ import annotations

import asyncio
import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import pydantic.dataclasses
from pydantic import ConfigDict, Field

from vagen_benchmarks.clients.base import Ending
from vagen_benchmarks.clients.budget import RunBudget
from vagen_envs.core import Observation, Turn, VagenEnv
from vagen_rewards.usage import Price


class Ledger:
    """Takes down what an episode's replies cost as they come. This one, outside of runs, takes down
    nothing.

    Attributes:
        last_turn: the last turn whose reply was taken down, counted from 0; -1 before the first.
    """

    last_turn: int = -1

    def asked(self, dollars: float, tokens: int) -> int:
        """A request is about to be made that may take so much. Returns its number."""
        return 0

    def failed(self, request: int, why: str, *, spent: bool) -> None:
        """A request has no reply; `spent` where it may cost something all the same."""

    def answered(
        self,
        game: Game,
        text: str,
        call: Call,
        *,
        request: int | None = None,
        summary: bool = False,
    ) -> None:
        """A reply to `game.now` has come, or a summary of the turns before it."""


@dataclass
class Game:
    """An episode as an agent sees it: what was played and what is to be answered.

    Attributes:
        env: the environment, for agents that may look behind the curtain.
        task, split, seed, repeat: which episode it is.
        now: the observation to answer.
        turns: the turns played, in order.
        calls: of each turn what its reply cost.
        summaries: those that the model wrote of earlier turns, in order.
        memory: for the agent, who finds here what it has put here in the same episode.
        ledger: where an agent that makes requests itself takes them down.
    """

    env: VagenEnv
    task: str
    split: str
    seed: int
    repeat: int
    now: Observation
    turns: list[Turn] = field(default_factory=list)
    calls: list[Call | None] = field(default_factory=list)
    summaries: list[ContextSummary] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)


Tokens = Annotated[int, Field(ge=0, le=10**15)] | None
Amount = Annotated[
    float, Field(ge=0, le=1e15)
]  # not infinite, nor NaN: it is added up and stored as JSON


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=ConfigDict(strict=True))
class Call:
    """Cost of one reply of a model. Values of other types, negative ones and NaN raise pydantic's
    ValidationError.

    Attributes:
        seconds: from the first request to the reply, including waiting and failed attempts.
        attempts: requests made; 1 if the first was answered.
        prompt_tokens, completion_tokens: totals.
        reasoning: hidden reasoning that the endpoint returned beside the reply.
        cached_tokens, cache_write_tokens: of the prompt, read from and written to a cache, if
            reported.
        reasoning_tokens: of the completion, if reported.
        dollars: `None` if the price is unknown.
        estimated: whether the token counts are estimates, because the endpoint reports none.
        hidden: the reply with its hidden reasoning as the provider gave it (JSON), if the context
            policy sends it back.
        served: the model that answered, as the endpoint names it.
        fingerprint: the endpoint's name for the state of that model or for the provider behind it.
        said: the endpoint's words for an ending that it told by an HTTP status.
    """

    ending: Ending
    seconds: Amount
    attempts: Annotated[int, Field(ge=0, le=10**15)]
    prompt_tokens: Tokens = None
    completion_tokens: Tokens = None
    reasoning: str | None = None
    cached_tokens: Tokens = None
    cache_write_tokens: Tokens = None
    reasoning_tokens: Tokens = None
    dollars: Amount | None = None
    estimated: bool = False
    hidden: Any = None
    served: str | None = None
    fingerprint: str | None = None
    said: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """A model's summary of the turns before turn `before`, counted from 0, and its cost."""

    before: int
    text: str
    call: Call


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent wrote, and what that cost if a model was called."""

    text: str
    call: Call | None = None


class Agent(ABC):
    """Answers observations, of many episodes at once, in threads; what belongs to one is in its
    `game.memory`.
    """

    name: str
    calls_a_model: bool = False
    """Whether replies are mostly waited for, so that many episodes in flight are quicker than
    one.
    """
    price: Price | None = None
    """What its tokens cost, if known."""
    is_stateless: bool = False
    """Whether a reply depends on the game's turns alone, so that an episode can go on in another
    process.
    """
    env_options: Mapping[str, Any] = {}
    """Options of the environment that fit how it writes; what a run asks for itself goes before
    them.
    """

    @abstractmethod
    def reply(self, game: Game) -> Reply | str:
        """Answer `game.now`. Raises EndpointError if there is no reply to be had."""

    def options_for(self, env_id: str) -> Mapping[str, Any]:
        """`env_options`, or those for one environment."""
        return self.env_options

    def remarks(
        self, env_id: str, options: Mapping[str, Any], config: Mapping[str, Any]
    ) -> list[str]:
        """Notes for readers of the figures: how the agent plays a task of these options, which give
        this configuration.
        """
        return []

    def check(self, env_id: str, config: Mapping[str, Any]) -> None:  # noqa: B027  (most play anything)
        """Raise ProtocolError for an environment, with all its options, that the agent can't
        play.
        """

    def describe(self) -> dict[str, Any]:
        """What of the agent belongs to the protocol. Never a key."""
        return {"name": self.name}

    def stop(self) -> None:  # noqa: B027  (most have nothing under way)
        """Give up whatever is under way, from another thread."""


class AsyncAgent(Agent):
    """An agent whose replies are waited for, many at once, in one event loop."""

    calls_a_model = True

    @abstractmethod
    async def areply(self, game: Game) -> Reply:
        """Answer `game.now`. Raises EndpointError if there is no reply to be had."""

    def reply(self, game: Game) -> Reply:
        return asyncio.run_coroutine_threadsafe(self.areply(game), _own_loop()).result()

    def join(self, budget: RunBudget, notify: Callable[[str], None]) -> None:
        """Spend from this budget from now on; `notify` is called with words about the endpoint."""

    def over(self, game: Game) -> None:
        """An episode has ended, however it did."""

    @property
    def waits(self) -> bool:
        """Whether requests are held because the endpoint is down."""
        return False

    async def aclose(self) -> None:
        """Cut what is under way."""


@functools.cache
def _own_loop() -> asyncio.AbstractEventLoop:
    """A loop in a thread of its own, for those who have none."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="replies", daemon=True).start()
    return loop
