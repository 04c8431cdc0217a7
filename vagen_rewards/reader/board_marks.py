"""F1 of statements about boards (VAGEN, appendix D.1.2)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from vagen_envs.core import State
from vagen_envs.grid import Position
from vagen_rewards.reader.claims import Fact, Marks, Part, Unclear, Verdicts
from vagen_rewards.reader.facts import At, Where, Within


def mark(state: State, verdicts: Verdicts, _part: Part) -> Marks:
    """F1 over relations or, where cells are stated, over the cells of things.

    In FrozenLake a text must say truly where the goal is. Holes count for recall up to as many
    facts as the goal has, so that a lake full of holes needn't be described hole by hole.
    """
    truth: Any = state
    right = wrong = cells = 0
    found = Counter[tuple[str, str]]()
    for fact, held in verdicts.items():
        if held is None:
            continue
        if isinstance(fact, Where):
            true = fact.atoms() if held else fact.right_atoms(state)
            right += true
            wrong += fact.atoms() - true
            found[fact.subject, fact.other] += true
        else:
            right += held
            wrong += not held
            cells += held and isinstance(fact, At)
    lake = "hole" in truth.cells
    essential = not lake or _places_target(verdicts)
    if cells or not found:
        # Two places, a row and a column, are worth a cell.
        there = sum(map(len, truth.cells.values()))
        return Marks(right, wrong, cells or right // 2, there, essential)
    wanted = {pair: _facts(truth.cells, *pair) for pair in truth.related}
    if lake:
        wanted["hole", "player"] = min(wanted["hole", "player"], wanted["target", "player"])
    stated = sum(min(count, wanted.get(pair, 0)) for pair, count in found.items())
    return Marks(right, wrong, stated, sum(wanted.values()), essential)


def _places_target(verdicts: Verdicts) -> bool:
    """Whether the text truly says where the goal is, by one fact or by a row and a column."""
    axes = set[str]()
    for fact, held in verdicts.items():
        if held and _places(fact, "target"):
            return True
        if held and isinstance(fact, Within) and fact.kind == "target":
            axes |= {axis for axis, _ in fact.places}
    return len(axes) > 1


def _places(fact: Fact, kind: str) -> bool:
    """Whether a fact says where a thing of this kind is, or that the player is in a hole."""
    if isinstance(fact, Unclear):
        return all(_one_places(reading, kind) for reading in fact.readings)
    if isinstance(fact, Where):
        fallen = (fact.vertical, fact.horizontal, fact.subject) == (0, 0, "hole")
        return fallen or kind in (fact.subject, fact.other)
    return isinstance(fact, At) and fact.kind == kind


def _one_places(facts: tuple[Fact, ...], kind: str) -> bool:
    return any(isinstance(fact, Within) or _places(fact, kind) for fact in facts)


def _facts(things: dict[str, tuple[Position, ...]], subject: str, other: str) -> int:
    """How many sides a full description states: for each pair of things one for each axis along
    which they differ, and two if they share a cell.
    """
    wanted = 0
    for one in things[subject]:
        for two in things[other]:
            differing = int(one[0] != two[0]) + int(one[1] != two[1])
            wanted += differing or 2
    return wanted
