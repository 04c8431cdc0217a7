"""Scores of turns beside the environment's own rewards, and what a turn is worth by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vagen_adapters.ppo.episodes import PPOEpisode
from vagen_envs import RewardTerm, Turn
from vagen_rewards.credit import FieldWords


@dataclass(frozen=True, eq=False)
class Judged:
    """What a score may say of a turn: the turn with its rewards, and which of its words are
    true.
    """

    turn: Turn
    words: tuple[FieldWords, ...]


Score = Callable[[Turn], Sequence[RewardTerm] | Turn | Judged]
"""Reward terms of a turn beside the environment's own, such as those of `vagen_rewards`; or the
turn with them, and with metrics that are logged; or that and which of its words are true."""


@dataclass(frozen=True, eq=False)
class ScoredTurn:
    """A turn with all its reward terms, the environment's and the score's."""

    turn: Turn
    rewards: tuple[RewardTerm, ...]
    words: tuple[FieldWords, ...] = ()


def scored_turn(score: Any, turn: Turn, episode: PPOEpisode) -> ScoredTurn:
    """Score a turn that follows those of its episode; without a score it keeps its own rewards.

    A score that `reads_earlier` is also given the turns before it, with the rewards that they had.
    """
    if score is None:
        return ScoredTurn(turn, turn.rewards)
    if getattr(score, "reads_earlier", False):
        earlier = [replace(played.turn, rewards=played.rewards) for played in episode.turns]
        found = score(turn, earlier)
    else:
        found = score(turn)
    if isinstance(found, Judged):
        return ScoredTurn(found.turn, found.turn.rewards, found.words)
    if isinstance(found, Turn):
        return ScoredTurn(found, found.rewards)
    return ScoredTurn(turn, (*turn.rewards, *found))
