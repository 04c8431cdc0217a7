"""Who plays: the agents that need no model, and what every agent is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vagen_benchmarks.clients.base import Ending
from vagen_envs.core import Observation, Turn, VagenEnv
from vagen_envs.seeding import HashStream


@dataclass
class Game:
    """An episode as an agent sees it: what was played and what is to be answered.

    Attributes:
        env: the environment, for agents that may look behind the curtain.
        task, split, seed, repeat: which episode it is.
        now: the observation to answer.
        turns: the turns played, in order.
    """

    env: VagenEnv
    task: str
    split: str
    seed: int
    repeat: int
    now: Observation
    turns: list[Turn] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Call:
    """What a reply of a model cost. Tokens are `None` where the endpoint doesn't say.

    Attributes:
        seconds: from the question to the reply, waiting and failed attempts included.
        attempts: requests made, 1 if the first was answered.
        reasoning: what a thinking model gave as its hidden reasoning beside the reply, if the endpoint shows it.
    """

    ending: Ending
    seconds: float
    attempts: int
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent wrote, and what that cost if a model was called."""

    text: str
    call: Call | None = None


class Agent(ABC):
    """Answers observations. Agents keep nothing from one episode to the next and may be called from threads."""

    name: str
    calls_a_model: bool = False
    """Whether replies are mostly waited for, so that many episodes in flight are quicker than one."""
    price: tuple[float, float] | None = None
    """US dollars per million tokens of input and of output, if known."""

    @abstractmethod
    def reply(self, game: Game) -> Reply:
        """Answer `game.now`. Raises EndpointError if there is no reply to be had."""

    def check(self, env_id: str, config: Mapping[str, Any]) -> None:  # noqa: B027  (most play anything)
        """Raise ProtocolError for an environment, with all its options, that the agent can't play."""

    def describe(self) -> dict[str, Any]:
        """What of the agent belongs to the protocol. Never a key."""
        return {"name": self.name}

    def stop(self) -> None:  # noqa: B027  (most have nothing under way)
        """Give up whatever is under way, from another thread."""


class Oracle(Agent):
    """The environment's own solver, speaking the full format with true observations and predictions."""

    name = "oracle"

    def reply(self, game: Game) -> Reply:
        return Reply(game.env.oracle_reply())


class Random(Agent):
    """Well-formed replies with random valid actions: a pure function of task, split, seed, repeat and turn."""

    name = "random"

    def reply(self, game: Game) -> Reply:
        env = game.env
        stream = HashStream("random agent", game.task, game.split, game.seed, game.repeat, len(game.turns))
        count = 1 + stream.below(env.config.max_actions_per_turn)
        actions = env.random_actions(stream, count)
        words = dict.fromkeys(("observation", "reasoning", "prediction", "think"), "I did not look.")
        return Reply(env.grammar.render(actions, **words))


class Baseline(Agent):
    """One of an environment's own `baselines`, by its name there. It plays the tasks that offer it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def reply(self, game: Game) -> Reply:
        return Reply(type(game.env).baselines[self.name](game.env))


SCRIPTED: dict[str, type[Agent]] = {agent.name: agent for agent in (Oracle, Random)}
"""The agents that need no model and play everything, by name."""
