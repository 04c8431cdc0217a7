"""Claims of a dictionary that a model extracted.

Entries that are hedged or not of the asked form make no claim.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vagen_envs.navigation.state import words as spoken
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.reader import colours
from vagen_rewards.reader.arm_facts import Told
from vagen_rewards.reader.board_sides import where
from vagen_rewards.reader.claims import Fact
from vagen_rewards.reader.clauses import Relation
from vagen_rewards.reader.facts import At, Where
from vagen_rewards.reader.navigation import Seen
from vagen_rewards.reader.svg import Painted
from vagen_rewards.reader.words import Mention, phrases

MOST_ENTRIES = 100

OWN_RULES: dict[str, str] = {}
"""What the model is asked about kinds of state that others registered."""

_THINGS = {"goal": "target", "crate": "box", "gift": "target", "agent": "player"}
_WAYS = {
    "above": "up",
    "up": "up",
    "below": "down",
    "down": "down",
    "left": "left",
    "right": "right",
}
_NAME = re.compile(r"(?:the )?([a-z ]+?)\s*(\d*)")


def register_structured(
    kind: str, rules: str, entries: str, write: Callable[[dict[str, Any]], Fact | None]
) -> None:
    """Let `LLMJudge(model, "structured")` read about states of your own kind.

    Args:
        kind: the state's `kind`.
        rules: tells the model which dictionary to write: `Write {"sky": [{"what": …, "hedged": …},
            …]}: …`.
        entries: the name of the list in it, here `sky`.
        write: an entry as a fact, `None` if it is none. Accept only words that you know: they come
            from outside.

    Raises:
        JudgeConfigError: the rules don't name the list.
    """
    if entries not in rules:
        raise JudgeConfigError(
            f"the rules for states of kind {kind!r} don't tell the model to write a list "
            f"{entries!r}"
        )
    OWN_RULES[kind] = rules
    _MAKERS[kind] = {entries: lambda _, row: [fact] if (fact := write(row)) is not None else []}


def facts_in(kind: str, data: dict[str, Any]) -> list[Fact] | None:
    """The facts of an extracted dictionary; `None` if it isn't of the asked form."""
    makers = _MAKERS.get(kind)
    lists = {name: _rows(data, name) for name in makers or ()}
    if not makers or all(rows is None for rows in lists.values()):
        return None
    found: list[Fact] = []
    for name, rows in lists.items():
        for row in rows or ():
            if str(row.get("hedged") or "no").lower() in ("no", "false"):
                found += makers[name](kind, row)
    return list(dict.fromkeys(_numbered(found)))


def _rows(data: dict[str, Any], name: str) -> list[dict[str, Any]] | None:
    rows = data.get(name)
    if rows is None:  # nested, as in {"result": {"relations": […]}}
        inner = [_rows(each, name) for each in data.values() if isinstance(each, dict)]
        return next((each for each in inner if each is not None), None)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return None
    return rows[:MOST_ENTRIES]


def _numbered(facts: list[Fact]) -> list[Fact]:
    """Several holes that are described alike."""
    found: list[Fact] = []
    for fact in facts:
        numbered = fact
        while isinstance(numbered, Where) and numbered.subject == "hole" and numbered in found:
            numbered = numbered._replace(nth=numbered.nth + 1)
        found.append(numbered)
    return found


def _relation(_kind: str, row: dict[str, Any]) -> list[Fact]:
    subject = _mention(row.get("subject"))
    other = _mention(row.get("other") or "player")
    relations = [Relation("near")] if row.get("adjacent") is True else []
    for axis, unit in (("vertical", "row"), ("horizontal", "column")):
        side = str(row.get(axis, "")).lower()
        count = row.get(f"{unit}s")
        if side in _WAYS:
            steps = count if isinstance(count, int) and count > 0 else None
            relations.append(Relation("plain", (_WAYS[side],), None, steps, unit))
        elif side == "same":
            relations.append(Relation("same", unit=unit))
    return where(subject, other, relations, 1) or []


def _mention(value: object) -> Mention:
    match = _NAME.fullmatch(_plain(value))
    name = match[1].strip() if match else ""
    return Mention(_THINGS.get(name, name), match[2] if match else "")


def _cell(_kind: str, row: dict[str, Any]) -> list[Fact]:
    at = _numbers(row.get("at"), 2)
    return [At(_mention(row.get("object")).kind, (int(at[0]), int(at[1])))] if at else []


def _object(_kind: str, row: dict[str, Any]) -> list[Fact]:
    ways = frozenset(re.findall(r"ahead|left|right|back", _plain(row.get("direction"))))
    name = spoken(str(row.get("object") or "")) or _plain(row.get("object"))
    if not ways or not name:
        return []
    metres = None
    distance = row.get("distance")
    if isinstance(distance, int | float) and distance > 0:
        metres = float(distance)
    return [Seen(name.lower(), ways, metres)]


def _position(_kind: str, row: dict[str, Any]) -> list[Fact]:
    at = _numbers(row.get("at"), 3)
    return [Told(_plain(row.get("object")).replace(" ", "_"), "at", at=tuple(at))] if at else []


def _element(_kind: str, row: dict[str, Any]) -> list[Fact]:
    tone, _, colour = _plain(row.get("colour")).replace("grey", "gray").rpartition(" ")
    _, _, shape_word = _plain(row.get("shape")).rpartition(" ")
    known = phrases("svg").get((shape_word,))
    if known is None or known[0] != "SHAPE" or colour not in colours.names():
        return []
    at = _numbers(row.get("at"), 2)
    middle = (int(at[0]), int(at[1])) if at else None
    where = "drawing" if row.get("picture") == "drawing" else "target"
    return [Painted(where, known[1], tone, colour, middle)]


_MAKERS: dict[str, dict[str, Callable[[str, dict[str, Any]], list[Fact]]]] = {
    "sokoban": {"relations": _relation, "cells": _cell},
    "frozen_lake": {"relations": _relation, "cells": _cell},
    "navigation": {"objects": _object},
    "primitive_skill": {"positions": _position},
    "svg": {"elements": _element},
}


def _numbers(value: object, count: int) -> list[float] | None:
    if (
        not isinstance(value, list)
        or len(value) != count
        or not all(isinstance(each, int | float) for each in value)
    ):
        return None
    return [float(each) for each in value]


def _plain(value: object) -> str:
    return re.sub(r"[^a-z0-9 ]+", " ", str(value or "").lower().replace("_", " "))[:40].strip()
