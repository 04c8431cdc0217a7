"""What is claimed about Navigation's things, as facts that hold of a state or don't."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from vagen_rewards.rules.navigation_clauses import ANY_TARGET, KNOWN, NAME, learn
from vagen_rewards.rules.truths import UNKNOWN, States, Truths


@dataclass(frozen=True, slots=True)
class Seen:
    """What may be meant by these words is in one of these directions from the agent, or isn't.

    Attributes:
        kinds: AI2-THOR's types that the words may mean, each with whether only by its last word; `*` is the target.
        ways: of `ahead`, `left`, `right`, `back`.
    """

    kinds: tuple[tuple[str, bool], ...]
    ways: frozenset[str]
    negated: bool = False

    def holds(self, state: Any) -> bool | None:
        """Whether it is so; `None` where it is neither the target nor in view."""
        name = named_by(self.kinds, kinds_of(state))
        if not name:
            return None
        if len(self.ways) > 2:
            return False
        where = {direction for each, direction, _ in state.visible_objects if each == name}
        if name == state.target_type:
            where = {state.target_direction}
        return bool(self.ways & where) != self.negated

    def truths(self, states: States) -> Truths:
        """`holds` of each of many states: only those are looked at in which something is of one of these types."""
        found = np.full(len(states), UNKNOWN, np.int8)
        kinds = {kind for kind, _ in self.kinds}
        if ANY_TARGET in kinds:
            for way, those in states.table(_by_way).items():
                found[those] = len(self.ways) <= 2 and (way in self.ways) != self.negated
            return found
        views = states.table(_views)
        for number in {number for kind in kinds for number in views.having.get(kind, ())}:
            seen, ways = views.kinds[number], views.ways[number]
            if name := named_by(self.kinds, seen):
                found[number] = len(self.ways) <= 2 and self.ways.isdisjoint(ways[name]) == self.negated
        return found


class _Views(NamedTuple):
    """Of each state the types of things, the target's first, and where they are; and which states have a type."""

    kinds: list[tuple[str, ...]]
    ways: list[dict[str, set[str]]]
    having: dict[str, list[int]]


def _views(states: States) -> _Views:
    found = _Views([], [], {})
    for number, each in enumerate(states):
        state, ways = cast(Any, each), dict[str, set[str]]()
        for kind, way, _ in state.visible_objects:
            ways.setdefault(kind, set()).add(way)
        ways[state.target_type] = {state.target_direction}
        found.kinds.append(kinds_of(state))
        found.ways.append(ways)
        for kind in ways:
            found.having.setdefault(kind, []).append(number)
    return found


def _by_way(states: States) -> dict[str, list[int]]:
    """In which states the target is where."""
    found: dict[str, list[int]] = {}
    for number, state in enumerate(states):
        found.setdefault(cast(Any, state).target_direction, []).append(number)
    return found


@dataclass(frozen=True, slots=True)
class Sought:
    """The target is of this type."""

    kind: str

    def holds(self, state: Any) -> bool:
        """Whether it is."""
        return bool(state.target_type.lower() == self.kind)


def kinds_of(truth: Any) -> tuple[str, ...]:
    """The target's type and those in view, learned if they are new."""
    target = truth.target_type
    kinds = (target, *sorted({kind for kind, _, _ in truth.visible_objects if kind != target}))
    for kind in kinds:
        if kind not in KNOWN:
            learn(kind)
    return kinds


def named_by(candidates: tuple[tuple[str, bool], ...], kinds: tuple[str, ...]) -> str:
    """The type that is meant, the target first; empty if none. "The lamp" is the target where there is but one."""
    target, named = kinds[0], ""
    for kind, loosely in candidates:
        if kind == ANY_TARGET:
            return target
        if kind == target and (not loosely or _has_own_last_word(kinds)):
            return target
        if not loosely and kind in kinds and (not named or kind < named):
            named = kind
    return named


def _has_own_last_word(kinds: tuple[str, ...]) -> bool:
    last = [NAME.findall(kind)[-1:] for kind in kinds]
    return last.count(last[0]) == 1
