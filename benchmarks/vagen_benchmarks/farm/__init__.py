"""What a reward pays to those who don't look or don't solve: returns and words as shares of the
oracle's.

`vagen judge farm` prints the table, and the tests hold its bounds on the grids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym

from vagen_benchmarks.farm.returns import SETTINGS, return_shares
from vagen_benchmarks.farm.words import ON_BOARDS, WORDS, Share, WordTable
from vagen_envs.errors import ConfigError
from vagen_envs.seeding import HashStream
from vagen_rewards.reader.claims import PARTS, Part


def word_shares(
    env_id: str, options: Mapping[str, Any], seeds: int, tries: int
) -> dict[tuple[str, Part], Share]:
    """What words earn as a share of the oracle's, and the slope, by kind of words and part."""
    table = WordTable(env_id, options, seeds)
    core = table.env

    def at_random(seed: int, index: int) -> list[str]:
        stream = HashStream("farm", seed, index)
        return list(core.random_actions(stream, 1 + stream.below(core.config.max_actions_per_turn)))

    names = getattr(core.grammar.actions, "names", ())

    def fixed(_seed: int, index: int) -> list[str]:
        """To one side, then to the next: a corner is the place that feedback tells most about."""
        return [names[2 * index % len(names)]] * core.config.max_actions_per_turn

    blind_turns = range(min(3, core.config.max_turns) if names else 0)
    by_oracle = table.episodes()
    by_chance = table.episodes(at_random, times=8)
    by_habit = table.episodes(fixed, times=20, most=len(blind_turns))
    boards = ON_BOARDS if hasattr(core.true_state, "cells") else {}
    found: dict[tuple[str, Part], Share] = {}
    for part in PARTS:
        played = table.played(part, by_oracle)
        own = table.own(part, played)
        for name, words in (WORDS | boards).items():
            found[name, part] = table.share(part, words, played, own)
        found["slope", part] = Share(table.slope(part, played), 0.0)
        random = table.played(part, by_chance)
        found["the prompt's example", part] = table.share(part, table.example, random, own)
        found["best constant", part] = table.constant(random, tries, own)
        for turns in blind_turns:
            blind = table.played(part, by_habit, only=turns)
            found[f"blind after {turns}", part] = table.blind(blind, own)
    return found


def is_beyond(name: str, share: Share) -> bool:
    """Whether a share is beyond its bounds by more than two standard errors."""
    if math.isnan(share.value):
        return False
    low, high = limit_of(name)
    return not low - 2 * share.error <= share.value <= high + 2 * share.error


def limit_of(name: str) -> tuple[float, float]:
    """The bounds of a row of the table."""
    if name == "slope":
        return 0.95, 1.0
    if name in ("oracle", "own words", "coordinates", "own words twice"):
        return 0.95, 1.05
    glancing = name in WORDS | ON_BOARDS  # they look, but say little or too late
    return -10.0, {"late": 1.01, "never": 0.5}.get(name, 0.5 if glancing else 0.05)


class Row(NamedTuple):
    """A share in the table, by setting and farmer, and by discount or part."""

    setting: str
    name: str
    column: str
    share: Share


def rows(
    env_id: str, rung: int, max_turns: Sequence[int], seeds: int, tries: int, per_turn: bool
) -> Iterator[Row]:
    """The table of one environment and difficulty; budgets too short for its levels are left
    out.
    """
    for turns in max_turns:
        options: dict[str, Any] = {"difficulty": rung, "max_turns": turns}
        try:
            gym.make(env_id, **options).close()
        except ConfigError:
            continue
        for setting in SETTINGS:
            if setting != "per turn" or per_turn:
                shares = return_shares(env_id, options, seeds, (1.0, 0.95), setting)
                for (name, gamma), value in shares.items():
                    yield Row(f"{setting}, {turns} turns", name, f"{gamma}", Share(value, 0.0))
    for (name, part), share in word_shares(env_id, {"difficulty": rung}, seeds * 2, tries).items():
        yield Row("words", name, part, share)
