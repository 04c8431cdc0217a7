"""What a reward pays to those who don't look or don't solve: returns and words as shares of the
oracle's.

`vagen judge farm` prints the table, and the tests hold its bounds on the grids.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import gymnasium as gym

from vagen_envs.core import State, Turn, VagenEnv
from vagen_envs.errors import ConfigError
from vagen_envs.seeding import HashStream
from vagen_rewards.contrast import Contrast, score_of
from vagen_rewards.reader import Fact, read
from vagen_rewards.reader.claims import PARTS, Part
from vagen_rewards.transitions import Step, owed_by
from vagen_rewards.wrapper import with_reasoning

FIRST_SEED = 3_000_000
"""Seeds of the table: no comparison state is drawn with them."""

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "default": ({}, {}),
    "format alone": ({}, None),
    "per turn": ({"format_per_turn": True}, {"per_turn": True}),
}
"""Options of the environment and of the reasoning reward; the last one is the paper's rule."""

# -- returns ---------------------------------------------------------------------------------------

Player = Callable[[VagenEnv, int], str]
"""Writes a reply, given the turns that are left."""


def oracle(env: VagenEnv, _left: int) -> str:
    """Solves the level, and tells the truth."""
    return env.oracle_reply()


def never(env: VagenEnv, _left: int) -> str:
    """Tells the truth and walks to and fro."""
    return _reply(env, _idle(env))


def late(env: VagenEnv, left: int) -> str:
    """Tells the truth, walks to and fro, and solves the level in the last turns."""
    needed = -(-len(list(env.plan())) // env.config.max_actions_per_turn)
    return oracle(env, left) if left <= needed else never(env, left)


PLAYERS: dict[str, Player] = {"oracle": oracle, "late": late, "never": never}


def _reply(env: VagenEnv, actions: Sequence[str]) -> str:
    form = env.config.representation
    return env.grammar.render(
        list(actions),
        observation=env.true_state.describe(form),
        reasoning="I wait.",
        prediction=env.imagine(actions).describe(form),
    )


def _idle(env: VagenEnv) -> list[str]:
    """Actions that leave everything as it is, and don't end the level."""
    names = getattr(env.grammar.actions, "names", ())
    choices: list[list[str]] = [list(pair) for pair in itertools.product(names, repeat=2)]
    if not choices:
        stream = HashStream("idle", 0)
        choices = [list(env.random_actions(stream, 1)) for _ in range(12)]
    for actions in choices:
        if env.imagine(actions) == env.true_state:
            return actions
    return choices[0]


def returns(
    env_id: str, options: Mapping[str, Any], setting: str, player: Player, seeds: int
) -> list[list[float]]:
    """The rewards of each turn of episodes."""
    own, reasoning = SETTINGS[setting]
    made = gym.make(env_id, observation="text", **{**options, **own})
    env = with_reasoning(made, reasoning)
    core = cast(VagenEnv, env.unwrapped)
    episodes = []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        env.reset(seed=seed)
        rewards: list[float] = []
        over = False
        while not over:
            left = core.config.max_turns - len(rewards)
            _, reward, terminated, truncated, _ = env.step(player(core, left))
            rewards.append(float(reward))
            over = terminated or truncated
        episodes.append(rewards)
    env.close()
    return episodes


def discounted(episodes: Sequence[Sequence[float]], gamma: float) -> float:
    """The mean discounted return."""
    return statistics.fmean(
        sum(gamma**i * reward for i, reward in enumerate(rewards)) for rewards in episodes
    )


# -- words -----------------------------------------------------------------------------------------

Words = Callable[[Turn, Part, Sequence[Turn]], str]


def _state(turn: Turn, part: Part) -> State:
    return turn.before if part == "grounding" else turn.after


def _own(turn: Turn, part: Part, _earlier: Sequence[Turn]) -> str:
    return _state(turn, part).natural_language()


def _coordinates(turn: Turn, part: Part, _earlier: Sequence[Turn]) -> str:
    return _state(turn, part).structured()


def _twice(turn: Turn, part: Part, earlier: Sequence[Turn]) -> str:
    return f"{_own(turn, part, earlier)} {_own(turn, part, earlier)}"


def _previous(turn: Turn, part: Part, earlier: Sequence[Turn]) -> str:
    """True facts of the turn before; a prediction of what is already there."""
    if part == "world_modeling":
        return turn.before.natural_language()
    return earlier[-1].before.natural_language() if earlier else "Nothing yet."


def _neighbours(turn: Turn, part: Part, _earlier: Sequence[Turn]) -> str:
    """What is in the cells around the player, on boards."""
    state: Any = _state(turn, part)
    if not hasattr(state, "cells"):
        return "Nothing is beside me."
    row, column = state.cells["player"][0]
    told = []
    for down, right, where in (
        (-1, 0, "above"),
        (1, 0, "below"),
        (0, -1, "left of"),
        (0, 1, "right of"),
    ):
        cell = (row + down, column + right)
        there = [kind for kind, cells in state.cells.items() if cell in cells]
        to = "to the " if right else ""
        told += [f"The {kind} is immediately {to}{where} the player." for kind in there]
    return " ".join(told) or "Nothing is beside me."


WORDS: dict[str, Words] = {
    "own words": _own,
    "coordinates": _coordinates,
    "own words twice": _twice,
    "neighbours": _neighbours,
    "another turn's facts": _previous,
}


Plan = Callable[[int, int], list[str]]
"""The actions of a level's turn."""


@dataclass(frozen=True)
class Played:
    """A turn, those before it, and the comparison states of one part of its reply."""

    turn: Turn
    earlier: tuple[Turn, ...]
    step: Step
    groups: Any


class WordTable:
    """What words earn in one configuration, as a share of the states' own descriptions.

    Args:
        env_id: the environment.
        options: its options.
        seeds: levels; words are chosen on one half of them and measured on the other.
    """

    def __init__(self, env_id: str, options: Mapping[str, Any], seeds: int) -> None:
        made = gym.make(env_id, observation="text", **options)
        self.env = cast(VagenEnv, made.unwrapped)
        self.contrast = Contrast(env_id, dataclasses.asdict(cast(Any, self.env.config)))
        self.seeds = seeds

    def play(
        self, part: Part, plan: Plan | None = None, only: int | None = None, times: int = 1
    ) -> list[Played]:
        """Turns of episodes by the oracle or by a plan, all of them or those of one number."""
        found = []
        for seed in range(FIRST_SEED, FIRST_SEED + times * self.seeds):
            turns: list[Turn] = []
            for turn in self._turns(seed, plan):
                if only is None or len(turns) == only:
                    groups = self.contrast.groups(part, turn, turns)
                    step = Step(turn.before, turn.after)
                    found.append(Played(turn, tuple(turns), step, groups))
                turns.append(turn)
        return found

    def _turns(self, seed: int, plan: Plan | None) -> Iterator[Turn]:
        self.env.reset(seed=seed)
        words = dict.fromkeys(("observation", "reasoning", "prediction"), "-")
        for index in range(self.env.config.max_turns):
            actions = list(self.env.plan()) if plan is None else plan(seed, index)
            said = actions[: self.env.config.max_actions_per_turn]
            *_, terminated, truncated, info = self.env.step(self.env.grammar.render(said, **words))
            yield info["turn"]
            if terminated or truncated:
                return

    def share(self, part: Part, words: Words, played: Sequence[Played]) -> float:
        """What words earn, as a share of what own words earn in the same turns."""
        own = self._mean(part, [self._read(part, _own, each) for each in played], played)
        said = self._mean(part, [self._read(part, words, each) for each in played], played)
        return said / own if own > 0.01 else 0.0

    def _read(self, part: Part, words: Words, played: Played) -> list[Fact]:
        text = words(played.turn, part, played.earlier)
        return [claim.key for claim in read(played.turn.before.kind, text, part).claims]

    def _mean(self, part: Part, facts: Sequence[Sequence[Fact]], played: Sequence[Played]) -> float:
        scores = [
            score_of(part, said, each.step, each.groups)
            for said, each in zip(facts, played, strict=True)
        ]
        return statistics.fmean(scores) if scores else 0.0

    def blind(self, part: Part, played: Sequence[Played]) -> float:
        """The best words for each feedback, chosen on every other turn and measured on the rest."""
        chosen = self._best_by_feedback(part, played[::2])
        rest = played[1::2]
        own = self._mean(part, [list(owed_by(part, each.step).values()) for each in rest], rest)
        said = self._mean(part, [chosen.get(_feedback(each), []) for each in rest], rest)
        return said / own if own > 0.01 else 0.0

    def _best_by_feedback(
        self, part: Part, played: Sequence[Played]
    ) -> dict[tuple[Any, ...], list[Fact]]:
        chosen: dict[tuple[Any, ...], list[Fact]] = {}
        facts = sorted({f for each in played for f in owed_by(part, each.step).values()}, key=str)
        for feedback in {_feedback(each) for each in played}:
            mine = [each for each in played if _feedback(each) == feedback]
            chosen[feedback] = [fact for fact in facts if self._surely_pays(part, fact, mine)]
        return chosen

    def _surely_pays(self, part: Part, fact: Fact, played: Sequence[Played]) -> bool:
        scores = [score_of(part, [fact], each.step, each.groups) for each in played]
        error = statistics.stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else 1.0
        return statistics.fmean(scores) > error

    def constant(self, part: Part, played: Sequence[Played], tries: int) -> float:
        """The best of many constant texts, chosen on every other turn and measured on the rest."""
        facts = sorted({f for each in played for f in owed_by(part, each.step).values()}, key=str)
        stream = HashStream("constants", 0)
        first, rest = played[::2], played[1::2]
        best: tuple[float, list[Fact]] = (-1.0, [])
        for _ in range(tries if facts else 0):
            said = stream.sample(facts, 1 + stream.below(min(6, len(facts))))
            value = self._mean(part, [said] * len(first), first)
            best = max(best, (value, said), key=lambda pair: pair[0])
        own = self._mean(part, [list(owed_by(part, each.step).values()) for each in rest], rest)
        said = best[1]
        return self._mean(part, [said] * len(rest), rest) / own if own > 0.01 else 0.0

    def slope(self, part: Part, played: Sequence[Played]) -> float:
        """Spearman's correlation of scores and right minus wrong facts, the mean over states."""
        pool = sorted({f for each in played for f in owed_by(part, each.step).values()}, key=str)
        stream = HashStream("slope", 0)
        found = []
        for each in played:
            state = _state(each.turn, part)
            own = list(owed_by(part, each.step).values())
            false = [fact for fact in pool if fact.holds(state) is False]
            if len(own) < 3 or len(false) < len(own):
                continue
            pairs = []
            for wrong, silent in itertools.product(range(len(own) + 1), (0, 1)):
                kept = stream.sample(own, max(0, len(own) - wrong - silent))
                said = [*kept, *stream.sample(false, wrong)]
                pairs.append((len(kept) - wrong, score_of(part, said, each.step, each.groups)))
            found.append(_spearman(pairs))
        return statistics.fmean(found) if found else 1.0


def _feedback(played: Played) -> tuple[Any, ...]:
    return tuple([each.feedback for turn in played.earlier for each in turn.executed])


def _spearman(pairs: Sequence[tuple[float, float]]) -> float:
    ranked = [_ranks([pair[i] for pair in pairs]) for i in (0, 1)]
    return statistics.correlation(*ranked)


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


# -- the table -------------------------------------------------------------------------------------


def return_shares(
    env_id: str, options: Mapping[str, Any], seeds: int, gammas: Sequence[float], setting: str
) -> dict[tuple[str, float], float]:
    """Each player's mean return as a share of the oracle's, by player and discount."""
    played = {
        name: returns(env_id, options, setting, player, seeds) for name, player in PLAYERS.items()
    }
    return {
        (name, gamma): discounted(played[name], gamma) / discounted(played["oracle"], gamma)
        for name in PLAYERS
        for gamma in gammas
    }


def word_shares(
    env_id: str, options: Mapping[str, Any], seeds: int, tries: int
) -> dict[tuple[str, Part], float]:
    """What words earn as a share of own words, and the slope, by kind of words and part."""
    table = WordTable(env_id, options, seeds)
    core = table.env

    def at_random(seed: int, index: int) -> list[str]:
        stream = HashStream("farm", seed, index)
        return list(core.random_actions(stream, 1 + stream.below(core.config.max_actions_per_turn)))

    names = getattr(core.grammar.actions, "names", ())

    def fixed(_seed: int, index: int) -> list[str]:
        """To one side, then to the next: a corner is the place that feedback tells most about."""
        return [names[2 * index % len(names)]] * core.config.max_actions_per_turn

    found: dict[tuple[str, Part], float] = {}
    for part in PARTS:
        played = table.play(part)
        for name, words in WORDS.items():
            found[name, part] = table.share(part, words, played)
        found["slope", part] = table.slope(part, played)
        random = table.play(part, at_random, times=8)
        found["best constant", part] = table.constant(part, random, tries)
        for turns in range(1, min(3, core.config.max_turns) if names else 1):
            blind = table.play(part, fixed, only=turns, times=10)
            found[f"blind after {turns}", part] = table.blind(part, blind)
    return found


def limit_of(name: str) -> tuple[float, float]:
    """The bounds of a row of the table."""
    if name == "slope":
        return 0.95, 1.0
    if name in ("oracle", "own words", "coordinates", "own words twice"):
        return 0.95, 1.05
    return -10.0, {"late": 1.01, "never": 0.5}.get(name, 0.5 if name in WORDS else 0.05)


class Row(NamedTuple):
    """A share of the table: of which setting and farmer, at which discount or in which part."""

    setting: str
    name: str
    column: str
    share: float


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
                for (name, gamma), share in shares.items():
                    yield Row(f"{setting}, {turns} turns", name, f"{gamma}", share)
    for (name, part), share in word_shares(env_id, {"difficulty": rung}, seeds * 2, tries).items():
        yield Row("words", name, part, share)
