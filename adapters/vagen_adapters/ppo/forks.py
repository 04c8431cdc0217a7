"""Playing on from states that were met: what they are worth, and which of them are the same."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vagen_adapters.ppo.episodes import Episode, Level
from vagen_envs import Turn


@dataclass(frozen=True, eq=False)
class Fork:
    """An episode that begins where another one was, and who wants to know what came of it.

    Attributes:
        episode: it is played from the state before `turn` of the others.
        turn: how many turns it had when it began.
        asked: the numbers of the episodes that were in this state with this conversation.
    """

    episode: Episode
    turn: int
    asked: list[int]


def fork_all(episodes: Sequence[Episode], times: int) -> list[Fork]:
    """`times` forks of every state that the episodes' turns met; those that met it by the same words share them."""
    found: dict[tuple[object, ...], list[Fork]] = {}
    for number, episode in enumerate(episodes):
        said: tuple[tuple[int, ...], ...] = ()
        for turn, played in enumerate(episode.turns):
            level = episode.level
            key = (level.split, level.seed, level.prompts, said, played.snapshot)
            forks = found.setdefault(key, [])
            if not forks:
                forks += [Fork(episode.fork(turn, each), turn, []) for each in range(times)]
            for fork in forks:
                fork.asked.append(number)
            said = (*said, played.reply.ids)
    return [fork for forks in found.values() for fork in forks]


def returns_of(
    episodes: Sequence[Episode], forks: Sequence[Fork], played: Sequence[Episode], gamma: float
) -> list[list[list[float]]]:
    """For each episode and turn the discounted returns of its forks, those that failed left out.

    Args:
        episodes: that were forked.
        forks: of `fork_all`.
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


def worth_of(
    episodes: Sequence[Episode], forks: Sequence[Fork], played: Sequence[Episode], gamma: float
) -> list[list[float]]:
    """For each episode and turn the mean of `returns_of`; NaN where all forks failed."""
    returns = returns_of(episodes, forks, played, gamma)
    return [[math.fsum(each) / len(each) if each else math.nan for each in of_turns] for of_turns in returns]


def values_at(turn_ids: Tensor, turn_values: Tensor) -> Tensor:
    """Each turn's value before and after all its tokens.

    Args:
        turn_ids: (B, L), as `Trajectories.turn_ids`.
        turn_values: (B, T), as `Trajectories.turn_values`.

    Returns:
        (B, L + 1), laid out as `Trajectories.values`; NaN elsewhere.
    """
    said = turn_ids >= 0
    of_tokens = turn_values.gather(1, turn_ids.clamp(min=0)).masked_fill(~said, math.nan)
    none = torch.full_like(of_tokens[:, :1], math.nan)
    before, after = torch.cat([of_tokens, none], 1), torch.cat([none, of_tokens], 1)
    return torch.where(before.isnan(), after, before)


def held_to_forks(values: Sequence[float], returns: Sequence[Sequence[float]]) -> dict[str, float]:
    """How much of what a critic could know it knows.

    The variance of returns within a state is what nobody can foresee; what is left of the variance between the states'
    means, once the noise in means of n is taken off (analysis of variance), is that of the states' worth V*. The
    variances are without bias from two returns a state on.

    Args:
        values: (states,) of the critic.
        returns: of each state, n >= 2 of them, independent given the state and as many for each.

    Returns:
        `ceiling`, Var[V*] / Var[R]: the explained variance of returns that a perfect critic would have; `explained`,
        that of this one; `of_worth`, 1 - Var[V* - V] / Var[V*]: `explained` of `ceiling`. NaN where nothing varies.
    """
    if len(returns) < 2:
        return dict.fromkeys(("ceiling", "explained", "of_worth"), math.nan)
    drawn = np.array([list(each) for each in returns], dtype=np.float64)
    noise = float(drawn.var(axis=1, ddof=1).mean())
    means, known = drawn.mean(axis=1), np.array(values, dtype=np.float64)
    worth = float(means.var(ddof=1)) - noise / drawn.shape[1]
    missed = float((means - known).var(ddof=1)) - noise / drawn.shape[1]
    whole = worth + noise
    return {
        "ceiling": worth / whole if whole > 0 else math.nan,
        "explained": (worth - missed) / whole if whole > 0 else math.nan,
        "of_worth": 1 - missed / worth if worth > 0 else math.nan,
    }


class StateNumbers:
    """Numbers for states, the same one wherever a state of a level is met again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], int] = {}

    def __call__(self, level: Level, turn: Turn) -> int:
        state = json.dumps(turn.before.to_json(), sort_keys=True)
        return self._known.setdefault((level.split, level.seed, state), len(self._known))
