"""How right answers are in the comparison states of a turn, on average."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vagen_rewards.reader import Fact
from vagen_rewards.reader.claims import Part
from vagen_rewards.reader.navigation import Seen, types_in
from vagen_rewards.transitions import Step, owed_by, value_of

MARGIN = 1.0
"""Standard errors that are added to a mean. Comparison states are few and always the same, so that
an agent that doesn't look could learn the answers whose means are too low by chance.
"""

Described = Mapping[tuple[frozenset[Fact], frozenset[Fact]], int]
"""How many comparison states have these facts before and after the turn."""


class Found(NamedTuple):
    """The states where an answer isn't what was true before a turn and still is.

    Attributes:
        states: how many.
        decided: those that say whether it is right.
        weight: of all.
        right: weight of those in which it is right.
        wrong: weight of those in which it is wrong.
    """

    states: int
    decided: int
    weight: float
    right: float
    wrong: float


class Group(ABC):
    """Comparison states of a turn for one part of a reply.

    A score is divided by the number of facts that its state owes, so each comparison state has the
    weight of one fact in it. Otherwise words that are right where few facts are owed, and wrong
    where many are, would earn without looking.
    """

    size: int
    """How many states."""
    owed: Counter[Fact]
    """The answers that these states owe, and how many of them do."""

    def __init__(self) -> None:
        self._means: dict[tuple[Fact, ...], float] = {}

    @abstractmethod
    def found(self, facts: tuple[Fact, ...]) -> Found:
        """How the answers to one question are in the states where they count."""

    def mean(self, facts: tuple[Fact, ...]) -> float:
        """The mean value of the answers to one question, with its margin, -1 to 1.

        A state that doesn't say whether an answer is right counts with 0: otherwise naming
        whatever may be there would earn.
        """
        if facts not in self._means:
            found = self.found(facts)
            mean = (found.right - found.wrong) / found.weight if found.states else 0.0
            spread = (found.decided + 1) / (found.states + 1)
            error = math.sqrt(spread / max(1, found.states))
            self._means[facts] = min(1.0, mean + MARGIN * error)
        return self._means[facts]


class CountedGroup(Group):
    """Of states in which an answer is right if and only if a full description has it.

    Args:
        part: whether the states before or after the turn are spoken of.
        described: the states.
    """

    def __init__(self, part: Part, described: Described) -> None:
        Group.__init__(self)
        self.size = sum(described.values())
        self.owed = Counter()
        self._weight = 0.0
        self._right: defaultdict[Fact, float] = defaultdict(float)
        self._kept: defaultdict[Fact, float] = defaultdict(float)
        self._states_kept = Counter[Fact]()
        for (before, after), often in described.items():
            kept = frozenset() if part == "grounding" else before & after
            owed = (before if part == "grounding" else after) - kept
            weight = often / max(1, len(owed))
            self._weight += weight
            for fact in owed:
                self.owed[fact] += often
                self._right[fact] += weight
            for fact in kept:
                self._kept[fact] += weight
                self._states_kept[fact] += often

    def found(self, facts: tuple[Fact, ...]) -> Found:
        (fact, *_) = facts
        right = self._right.get(fact, 0.0)
        weight = self._weight - self._kept.get(fact, 0.0)
        states = self.size - self._states_kept[fact]
        return Found(states, states, weight, right, weight - right)


class AskedGroup(Group):
    """Of any states: each is asked.

    Args:
        part: whether the states before or after the turn are spoken of.
        steps: the states.
    """

    def __init__(self, part: Part, steps: Sequence[Step]) -> None:
        Group.__init__(self)
        self.part, self.steps = part, steps
        self.size = len(steps)
        owed = [owed_by(part, step).values() for step in steps]
        self.owed = Counter(fact for each in owed for fact in each)
        weights = [1 / max(1, len(each)) for each in owed]
        self._all = list(zip(steps, weights, strict=True))
        self._weight = math.fsum(weights)
        self._excerpts: dict[str, list[tuple[Step, float]]] = {}

    def found(self, facts: tuple[Fact, ...]) -> Found:
        about = self._about(facts[0]) if isinstance(facts[0], Seen) else self._all
        weighed = [(value_of(self.part, facts, step), weight) for step, weight in about]
        kept = [weight for value, weight in weighed if value is None]
        right = [weight for value, weight in weighed if value is not None and value > 0]
        wrong = [weight for value, weight in weighed if value is not None and value < 0]
        return Found(
            self.size - len(kept),
            len(right) + len(wrong),
            self._weight - math.fsum(kept),
            math.fsum(right),
            math.fsum(wrong),
        )

    def _about(self, fact: Seen) -> list[tuple[Step, float]]:
        """Excerpts from the states that say something about objects of this name. The answers to
        one question are all about the same name.
        """
        if fact.name not in self._excerpts:
            self._excerpts[fact.name] = found = []
            for number in self._naming(fact):
                step, weight = self._all[number]
                here: Any = fact.excerpt(self._described(step))
                # The answers of an observation are held against the state before alone.
                before: Any = here if self.part == "grounding" else fact.excerpt(step.before)
                if here.objects:
                    found.append((Step(before, here), weight))
        return self._excerpts[fact.name]

    def _naming(self, fact: Seen) -> Sequence[int]:
        """The states with an object of this name, by number."""
        named = [at for kind, at in self._by_type.items() if fact.may_be(kind)]
        return sorted(set().union(*named))

    @functools.cached_property
    def _by_type(self) -> dict[str, list[int]]:
        """The states with an object of each type, by number: some five of some sixty types."""
        found = defaultdict[str, list[int]](list)
        for number, step in enumerate(self.steps):
            for kind in types_in(self._described(step)):
                found[kind].append(number)
        return found

    def _described(self, step: Step) -> Any:
        return step.before if self.part == "grounding" else step.after
