"""Playing on from states that were met: what they are worth, and which of them are the same."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vagen_adapters.ppo.episodes import Episode, Level
from vagen_envs import Turn


@dataclass(frozen=True, eq=False)
class Continuation:
    """An episode that begins where another one was, and who wants to know what came of it.

    Attributes:
        episode: it is played from the state before `turn` of the others.
        turn: how many turns it had when it began.
        asked: the numbers of the episodes that were in this state with this conversation.
    """

    episode: Episode
    turn: int
    asked: list[int]


def continue_all(episodes: Sequence[Episode], times: int) -> list[Continuation]:
    """`times` forks of every state that the episodes' turns met; those that met it by the same words share them."""
    found: dict[tuple[object, ...], list[Continuation]] = {}
    for number, episode in enumerate(episodes):
        replies: tuple[tuple[int, ...], ...] = ()
        for turn, played in enumerate(episode.turns):
            level = episode.level
            key = (level.environment, level.split, level.seed, level.prompts, replies, played.snapshot)
            forks = found.setdefault(key, [])
            if not forks:
                forks += [Continuation(episode.fork(turn, fork), turn, []) for fork in range(times)]
            for fork in forks:
                fork.asked.append(number)
            replies = (*replies, played.reply.ids)
    return [fork for forks in found.values() for fork in forks]


def returns_of(
    episodes: Sequence[Episode], forks: Sequence[Continuation], played: Sequence[Episode], gamma: float
) -> list[list[list[float]]]:
    """For each episode and turn the discounted returns of its forks, those that failed left out.

    Args:
        episodes: that were forked.
        forks: of `continue_all`.
        played: their episodes, played to their ends, in the same order.
        gamma: discount from one turn to the next.
    """
    returns: list[list[list[float]]] = [[[] for _ in episode.turns] for episode in episodes]
    for fork, episode in zip(forks, played, strict=True):
        if episode.failure is None:
            whole = math.fsum(gamma**i * turn.reward for i, turn in enumerate(episode.turns[fork.turn :]))
            for number in fork.asked:
                returns[number][fork.turn].append(whole)
    return returns


def state_values_of(
    episodes: Sequence[Episode], forks: Sequence[Continuation], played: Sequence[Episode], gamma: float
) -> list[list[float]]:
    """For each episode and turn the mean of `returns_of`; NaN where all forks failed."""
    returns = returns_of(episodes, forks, played, gamma)
    return [[math.fsum(found) / len(found) if found else math.nan for found in of_turns] for of_turns in returns]


class StateNumbers:
    """Numbers for states, the same one wherever a state of a level is met again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int, str], int] = {}

    def __call__(self, level: Level, turn: Turn) -> int:
        state = json.dumps(turn.before.to_json(), sort_keys=True)
        return self._known.setdefault((level.environment, level.split, level.seed, state), len(self._known))
