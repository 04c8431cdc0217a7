"""What every agent is."""

from __future__ import annotations

import asyncio
import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from vagen_benchmarks.clients.base import Ending
from vagen_benchmarks.clients.budget import RunBudget
from vagen_envs.core import Observation, Turn, VagenEnv
from vagen_rewards.usage import Price


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
    """

    env: VagenEnv
    task: str
    split: str
    seed: int
    repeat: int
    now: Observation
    turns: list[Turn] = field(default_factory=list)
    calls: list[Call | None] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """What a reply of a model cost.

    Attributes:
        seconds: from the question to the reply, waiting and failed attempts included.
        attempts: requests made, 1 if the first was answered.
        prompt_tokens, completion_tokens: asked and written in all.
        reasoning: what a thinking model gave as its hidden reasoning beside the reply, if the endpoint shows it.
        cached_tokens, cache_write_tokens: of the prompt, read from and written to a cache, if the endpoint says.
        reasoning_tokens: of what was written, if the endpoint says.
        dollars: `None` if no price is known.
        estimated: whether the tokens were counted by us, because the endpoint doesn't say.
        hidden: JSON. The reply with its hidden reasoning as the provider gave it, if the context policy sends it back.
    """

    ending: Ending
    seconds: float
    attempts: int
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning: str | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    dollars: float | None = None
    estimated: bool = False
    hidden: Any = None

    def to_json(self) -> dict[str, Any]:
        """As an episode stores it; `asdict`, which copies, took a tenth of a turn."""
        return {name: getattr(self, name) for name in _CALL}


_CALL = tuple(each.name for each in fields(Call))


@dataclass(frozen=True, slots=True)
class Summary:
    """What a model wrote of the turns before turn `before`, counted from 0, and what that cost."""

    before: int
    text: str
    call: Call


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent wrote, and what that cost if a model was called."""

    text: str
    call: Call | None = None


class Agent(ABC):
    """Answers observations, of many episodes at once, in threads; what belongs to one is in its `game.memory`."""

    name: str
    calls_a_model: bool = False
    """Whether replies are mostly waited for, so that many episodes in flight are quicker than one."""
    price: Price | None = None
    """What its tokens cost, if known."""
    env_options: Mapping[str, Any] = {}
    """Options of the environment that fit how it writes; what a run asks for itself goes before them."""

    @abstractmethod
    def reply(self, game: Game) -> Reply | str:
        """Answer `game.now`. Raises EndpointError if there is no reply to be had."""

    def check(self, env_id: str, config: Mapping[str, Any]) -> None:  # noqa: B027  (most play anything)
        """Raise ProtocolError for an environment, with all its options, that the agent can't play."""

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
        """The same, waited for here."""
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
