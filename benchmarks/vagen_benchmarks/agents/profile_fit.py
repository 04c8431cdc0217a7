"""Which profile fits a model: two turns are asked for, and read under each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from vagen_benchmarks.agents.base import Game, Reply
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.registry import Profile
from vagen_envs.core import Turn, VagenEnv

TURNS = 2
"""The second shows whether a model copies the form of its own first reply."""


@dataclass(frozen=True)
class Tried:
    """A profile, and the replies and turns that it was asked for."""

    profile: Profile
    played: Sequence[tuple[Reply, Turn]]

    @property
    def fits(self) -> bool:
        return all(turn.parsed.format_correct for _, turn in self.played)


def fit(agent: ChatAgent, profiles: Sequence[Profile], env_id: str, options: Mapping[str, Any]) -> list[Tried]:
    """Ask with the first profile, and with those that would have fitted what came, until one does.

    Raises:
        EndpointError: there is no reply to be had.
    """
    envs: list[Any] = [
        gym.make(env_id, disable_env_checker=True, **{"max_turns": TURNS, **profile.options, **options}).unwrapped
        for profile in profiles
    ]
    first, *others = zip(profiles, envs, strict=True)
    try:
        tried = [_ask(agent, *first)]
        others.sort(key=lambda other: -_score(other[0], other[1], tried[0]))
        for other in others if not tried[0].fits else ():
            tried.append(_ask(agent, *other))
            if tried[-1].fits:
                break
    finally:
        for env in envs:
            env.close()
    return tried


def _ask(agent: ChatAgent, profile: Profile, env: VagenEnv) -> Tried:
    """Play two turns, more than one episode if the first turn ends one."""
    agent.profile = profile
    played: list[tuple[Reply, Turn]] = []
    game: Game | None = None
    while len(played) < TURNS:
        if game is None:
            env.reset(seed=len(played))
            game = Game(env, env.id, "train", len(played), 0, env.observed, [])
        reply = agent.reply(game)
        _, _, terminated, truncated, info = env.step(reply.text)
        game.turns.append(info["turn"])
        game.now = info["turn"].result
        played.append((reply, info["turn"]))
        game = None if terminated or truncated else game
    return Tried(profile, played)


def _score(profile: Profile, env: VagenEnv, tried: Tried) -> float:
    """How many of these replies it would have paid; reasoning in a field of its own is for one that reads it."""
    replies = [reply for reply, _ in tried.played]
    paid = sum(env.grammar.parse(reply.text).format_correct for reply in replies)
    shows = any(reply.call is not None and reply.call.reasoning for reply in replies)
    return paid + (0.5 if profile.hidden == shows else 0.0)
