"""Playing on from states that were met: what they are worth, and which of them are the same."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence

from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode
from vagen_envs import Turn


def forks_of(episodes: Sequence[PPOEpisode], times: int) -> list[PPOEpisode]:
    """`times` forks of every state that the episodes' turns met, in order."""
    return [
        episode.fork(turn, number)
        for episode in episodes
        for turn in range(len(episode.turns))
        for number in range(times)
    ]


def returns_of(
    episodes: Sequence[PPOEpisode], played: Sequence[PPOEpisode], times: int, gamma: float
) -> list[list[list[float]]]:
    """For each episode and turn the returns of its forks, without those that failed.

    `played` are the forks from `forks_of`, played to their ends; `gamma` is the discount from one
    turn to the next.
    """
    left = iter(played)

    def returns(begins: int) -> list[float]:
        found = []
        for fork in itertools.islice(left, times):
            if fork.failure is None:
                turns = enumerate(fork.turns[begins:])
                found.append(math.fsum(gamma**i * turn.reward for i, turn in turns))
        return found

    return [list(map(returns, range(len(episode.turns)))) for episode in episodes]


def state_values_of(
    episodes: Sequence[PPOEpisode], played: Sequence[PPOEpisode], times: int, gamma: float
) -> list[list[float]]:
    """For each episode and turn the mean of `returns_of`; NaN where all forks failed."""
    returns = returns_of(episodes, played, times, gamma)
    return [list(map(_mean, of_turns)) for of_turns in returns]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def state_key(level: LevelSeed, turn: Turn) -> tuple[str, str, int, str]:
    """The same key wherever a state of a level is met again."""
    return (
        level.environment,
        level.split,
        level.seed,
        json.dumps(turn.before.to_json(), sort_keys=True),
    )
