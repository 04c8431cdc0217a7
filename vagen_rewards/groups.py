"""How right answers are in the comparison states of a turn, on average."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from vagen_rewards.reader import Fact
from vagen_rewards.reader.claims import Part
from vagen_rewards.reader.navigation import Seen
from vagen_rewards.transitions import Step, owed_by, value_of

FEW, PRIOR = 8, 0.4
"""Where an answer counts in fewer comparison states, the missing ones have this mean: seven of ten
visible things in Navigation are ahead.
"""

Described = Mapping[tuple[frozenset[Fact], frozenset[Fact]], int]
"""How many comparison states have these facts before and after the turn."""


class Found(NamedTuple):
    """In how many states an answer counts, and the weights of those where it is right and wrong."""

    states: float
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
        """The mean value of the answers to one question where they count, -1 to 1."""
        if facts not in self._means:
            states, right, wrong = self.found(facts)
            weight = (right + wrong) / states if states else 1.0
            missing = weight * max(0.0, min(FEW, self.size) - states)
            self._means[facts] = (right - wrong + PRIOR * missing) / (right + wrong + missing)
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
        wrong = self._weight - self._kept.get(fact, 0.0) - right
        return Found(self.size - self._states_kept[fact], right, wrong)


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
        self._excerpts: dict[str, list[tuple[Step, float]]] = {}

    def found(self, facts: tuple[Fact, ...]) -> Found:
        about = self._about(facts[0]) if isinstance(facts[0], Seen) else self._all
        weighed = [(value_of(self.part, facts, step), weight) for step, weight in about]
        values = [value for value, _ in weighed]
        return Found(
            len(values) - values.count(0.0),
            sum([weight for value, weight in weighed if value > 0]),
            sum([weight for value, weight in weighed if value < 0]),
        )

    def _about(self, fact: Seen) -> list[tuple[Step, float]]:
        """Excerpts from the states that say something about objects of this name. The answers to
        one question are all about the same name.
        """
        if fact.name not in self._excerpts:
            self._excerpts[fact.name] = found = []
            for step, weight in self._all:
                state = step.before if self.part == "grounding" else step.after
                if fact.excerpt(state).objects:
                    short = Step(*[cast(Any, fact.excerpt(each)) for each in step])
                    found.append((short, weight))
        return self._excerpts[fact.name]
