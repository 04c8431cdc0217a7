"""Which profile fits a model: two turns are asked for, and read under each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from vagen_benchmarks.agents.base import Game, Reply
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.registry import Model, Profile
from vagen_envs.core import Turn, VagenEnv

Options = Mapping[str, Any]
TURNS = 2
"""The second shows whether a model copies the form of its own first reply."""
SHOWN = 200
"""Characters of a reply that are shown."""


@dataclass(frozen=True)
class TriedTurn:
    """A turn of a trial.

    Attributes:
        seen: what came, in one line.
        executed: actions that were.
        paid: whether the format was right.
        problem: the first thing wrong with it, or empty.
    """

    seen: str
    executed: int
    paid: bool
    problem: str


@dataclass(frozen=True)
class Tried:
    """A profile that was asked for two turns."""

    profile: Profile
    turns: tuple[TriedTurn, ...]
    replies: tuple[Reply, ...]

    @property
    def fits(self) -> bool:
        """Whether every turn was paid."""
        return all(turn.paid for turn in self.turns)


def fit(
    model: Model, profiles: Sequence[Profile], env_id: str, options: Options, *, base_url: str | None, timeout: float
) -> list[Tried]:
    """Ask with the first profile, and with those that would have fitted what came, until one does.

    Raises:
        EndpointError: there is no reply to be had.
        ProtocolError: the model's SDK or key is missing.
    """
    return asyncio.run(_fit(model, profiles, env_id, options, base_url, timeout))


async def _fit(
    model: Model, profiles: Sequence[Profile], env_id: str, options: Options, base_url: str | None, timeout: float
) -> list[Tried]:
    agent = ChatAgent(model, base_url=base_url, timeout=timeout, profile=profiles[0], attempts=2, patience=0.0)
    try:
        tried = [await _ask(agent, profiles[0], env_id, options)]
        others = sorted(profiles[1:], key=lambda each: -_score(each, tried[0], env_id, options))
        for profile in others if not tried[0].fits else ():
            tried.append(await _ask(agent, profile, env_id, options))
            if tried[-1].fits:
                break
    finally:
        await agent.aclose()
    return tried


def _make(env_id: str, options: Options, profile: Profile) -> gym.Env[dict[str, Any], str]:
    return gym.make(env_id, disable_env_checker=True, **{"max_turns": TURNS, **profile.options, **options})


async def _ask(agent: ChatAgent, profile: Profile, env_id: str, options: Options) -> Tried:
    """Play two turns, more than one episode if the first turn ends one."""
    agent.profile = profile
    env = _make(env_id, options, profile)
    inner = env.unwrapped
    assert isinstance(inner, VagenEnv)
    played: list[tuple[Reply, Turn]] = []
    over, game = True, None
    try:
        while len(played) < TURNS:
            if over or game is None:
                env.reset(seed=len(played))
                game = Game(inner, env_id, "train", len(played), 0, inner.observed, [])
            reply = await agent.areply(game)
            _, _, terminated, truncated, info = env.step(reply.text)
            over = terminated or truncated
            game.turns.append(info["turn"])
            game.now = info["turn"].result
            played.append((reply, info["turn"]))
    finally:
        env.close()
    return Tried(profile, tuple(_turn(reply, turn) for reply, turn in played), tuple(reply for reply, _ in played))


def _turn(reply: Reply, turn: Turn) -> TriedTurn:
    call, parsed = reply.call, turn.parsed
    assert call is not None
    hidden = f" (and {len(call.reasoning)} characters of reasoning in a field of its own)" if call.reasoning else ""
    cut = ", cut at the limit of tokens" if call.ending == "length" else ""
    seen = f"{turn.reply[:SHOWN]!r}{'…' if len(turn.reply) > SHOWN else ''}{hidden}{cut}"
    problem = parsed.problems[0].message if parsed.problems else ""
    return TriedTurn(seen, len(turn.executed), parsed.format_correct, problem)


def _score(profile: Profile, tried: Tried, env_id: str, options: Options) -> float:
    """How many of these replies it would have paid; reasoning in a field of its own is for one that reads it."""
    env = _make(env_id, options, profile)
    inner = env.unwrapped
    assert isinstance(inner, VagenEnv)
    paid = sum(inner.grammar.parse(reply.text).format_correct for reply in tried.replies)
    env.close()
    shows = any(reply.call is not None and reply.call.reasoning for reply in tried.replies)
    return paid + (0.5 if profile.hidden == shows else 0.0)
