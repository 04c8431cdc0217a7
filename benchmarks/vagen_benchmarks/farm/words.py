"""What words earn as a share of a full description: those that look away, and those that repeat."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import gymnasium as gym
import numpy as np

from vagen_benchmarks.farm.seeds import FIRST_SEED
from vagen_envs.core import State, Turn, VagenEnv
from vagen_envs.seeding import HashStream
from vagen_rewards.contrast import Contrast, TurnContrast
from vagen_rewards.reader import Fact, read
from vagen_rewards.reader.claims import Part

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
    """What is in the cells around the player."""
    state: Any = _state(turn, part)
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
    "another turn's facts": _previous,
}
ON_BOARDS: dict[str, Words] = {"neighbours": _neighbours}


SURE = 0.95
"""The mean of a fact that needn't be seen."""

LEAST_OWN = 0.01
"""Where own words earn no more, nothing is left to see."""


class Share(NamedTuple):
    """What words earn as a share of own words, and its standard error.

    Not a number where own words earn nothing: an agent of SVG knows its drawing before it sees it.
    """

    value: float
    error: float


NOTHING = Share(math.nan, 0.0)
"""Where nothing can be earned, or no turn was left to measure."""

Plan = Callable[[int, int], list[str]]
"""The actions of a level's turn."""


@dataclass(frozen=True)
class Played:
    """A turn, those before it, and what answers in one part of its reply earn."""

    turn: Turn
    earlier: tuple[Turn, ...]
    contrast: TurnContrast


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

    def episodes(
        self, plan: Plan | None = None, times: int = 1, most: int | None = None
    ) -> list[list[Turn]]:
        """Episodes by the oracle or by a plan, as often as each seed's number of times, up to so
        many turns.
        """
        seeds = range(FIRST_SEED, FIRST_SEED + times * self.seeds)
        return [list(itertools.islice(self._turns(seed, plan), most)) for seed in seeds]

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

    def played(
        self, part: Part, episodes: Sequence[Sequence[Turn]], only: int | None = None
    ) -> list[Played]:
        """The turns of episodes for one part of their replies, all or those of one number."""
        found = []
        for turns in episodes:
            for index, turn in enumerate(turns):
                if only is None or index == only:
                    contrast = self.contrast.of_turn(part, turn, turns[:index])
                    found.append(Played(turn, tuple(turns[:index]), contrast))
        return found

    def example(self, turn: Turn, part: Part, _earlier: Sequence[Turn]) -> str:
        """What the prompt's example of a reply says; nothing where it has none."""
        name = "observation" if part == "grounding" else "prediction"
        _, _, rest = self.env.system_prompt.rpartition(f"<{name}>")
        return rest.partition(f"</{name}>")[0]

    def share(self, part: Part, words: Words, played: Sequence[Played], own: float) -> Share:
        """What words earn as a share of this."""
        return _share(self._earned(part, words, played), own)

    def own(self, part: Part, played: Sequence[Played]) -> float:
        """What own words earn, on average."""
        return statistics.fmean(self._earned(part, _own, played))

    def _earned(self, part: Part, words: Words, played: Sequence[Played]) -> list[float]:
        return self._scores([self._read(part, words, each) for each in played], played)

    def _read(self, part: Part, words: Words, played: Played) -> list[Fact]:
        text = words(played.turn, part, played.earlier)
        return [claim.key for claim in read(played.turn.before.kind, text, part).claims]

    def _scores(self, facts: Sequence[Sequence[Fact]], played: Sequence[Played]) -> list[float]:
        return [each.contrast.score(said) for said, each in zip(facts, played, strict=True)]

    def blind(self, played: Sequence[Played], own: float) -> Share:
        """The best words for each feedback as a share of `own`: chosen on every other turn and
        measured on the rest.

        Not the other way round as well: what is frequent in both halves by chance would count
        twice, and the standard error would be a third too small (24 repetitions).
        """
        chosen = self._best_by_feedback(played[::2])
        rest = played[1::2]
        said = [chosen.get(_feedback(each), []) for each in rest]
        return _share(self._scores(said, rest), own)

    def _best_by_feedback(self, played: Sequence[Played]) -> dict[tuple[Any, ...], list[Fact]]:
        chosen: dict[tuple[Any, ...], list[Fact]] = {}
        facts = _pool(played)
        for feedback in {_feedback(each) for each in played}:
            mine = [each for each in played if _feedback(each) == feedback]
            chosen[feedback] = [fact for fact in facts if self._surely_pays(fact, mine)]
        return chosen

    def _surely_pays(self, fact: Fact, played: Sequence[Played]) -> bool:
        scores = [each.contrast.score([fact]) for each in played]
        error = statistics.stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else 1.0
        return statistics.fmean(scores) > error

    def constant(self, played: Sequence[Played], tries: int, own: float) -> Share:
        """The best of many constant texts as a share of `own`, chosen on every other turn and
        measured on the rest.

        Answers to different questions add up, so that texts are compared by the scores of their
        facts.
        """
        facts = _pool(played)
        if not facts or not tries:
            return NOTHING
        first, rest = played[::2], played[1::2]
        paid = np.array([self._scores([[fact]] * len(first), first) for fact in facts])
        stream = HashStream("constants", 0)
        best: tuple[float, list[int]] = (-1.0, [])
        for _ in range(tries):
            said = stream.sample(range(len(facts)), 1 + stream.below(min(6, len(facts))))
            value = float(np.clip(paid[said].sum(0), -1, 1).mean())
            best = max(best, (value, said), key=lambda pair: pair[0])
        text = [facts[i] for i in best[1]]
        return _share(self._scores([text] * len(rest), rest), own)

    def slope(self, part: Part, played: Sequence[Played]) -> float:
        """Spearman's correlation of scores and right minus wrong facts in descriptions with one,
        two and all facts missing or false, the mean over states; not a number where none owes two
        facts that must be seen. What is right in each comparison state earns nothing.
        """
        stream = HashStream("slope", 0)
        found = []
        for each in played:
            state = _state(each.turn, part)
            unsure = [
                fact for fact in each.contrast.owed.values() if each.contrast.mean((fact,)) < SURE
            ]
            own = [fact for fact in unsure if false_version(fact, state) is not None]
            if len(own) < 2:
                continue
            pairs = []
            for wrong, silent in itertools.product(range(len(own) + 1), (0, 1)):
                kept = stream.sample(own, len(own))
                said = [false_version(fact, state) for fact in kept[:wrong]]
                told = [fact for fact in said if fact is not None] + kept[wrong + silent :]
                held = [fact.holds(state) for fact in told]
                right = held.count(True) - held.count(False)
                pairs.append((right, each.contrast.score(told)))
            found.append(_spearman(pairs))
        return statistics.fmean(found) if found else math.nan


def false_version(fact: Fact, state: State) -> Fact | None:
    """The same thing said wrongly; nothing where the state can't tell that it is wrong."""
    return next((each for each in _changes(fact) if each.holds(state) is False), None)


def _changes(fact: Any) -> Iterator[Any]:
    """A fact with another side, direction, distance, place or colour."""
    for field in ("vertical", "horizontal"):
        if getattr(fact, field, None) is not None:
            yield from [fact._replace(**{field: sign}) for sign in (-1, 0, 1)]
    if getattr(fact, "ways", None):
        yield from [fact._replace(ways=frozenset({way})) for way in ("back", "left", "right")]
    if getattr(fact, "metres", None) is not None:
        yield fact._replace(metres=fact.metres + 4)
    if getattr(fact, "at", None):
        yield fact._replace(at=(fact.at[0] + 150, *fact.at[1:]))
    if getattr(fact, "how", "") == "open":
        yield fact._replace(far=fact.far + 200)


def _pool(played: Sequence[Played]) -> list[Fact]:
    """The facts that any of these turns owes."""
    found: set[Fact] = set()
    for each in played:
        found.update(each.contrast.owed.values())
    return sorted(found, key=str)


def _share(scores: Sequence[float], own: float) -> Share:
    if own <= LEAST_OWN or not scores:
        return NOTHING
    error = statistics.stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else own
    return Share(statistics.fmean(scores) / own, error / own)


def _feedback(played: Played) -> tuple[Any, ...]:
    return tuple([each.feedback for turn in played.earlier for each in turn.executed])


def _spearman(pairs: Sequence[tuple[float, float]]) -> float:
    first, second = zip(*pairs, strict=True)
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
