"""Sokoban and FrozenLake: relations of things, cells, grids and dictionaries (VAGEN, appendices C and D.1)."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
from collections import Counter
from typing import Any

from vagen_envs.core import State
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.grid import Position
from vagen_envs.sokoban.state import SokobanState
from vagen_rewards.reader.claims import Claim, Fact, Marks, Part, Reading, Unclear, notes_on
from vagen_rewards.reader.clauses import Stated, parse
from vagen_rewards.reader.facts import GROUND, At, Between, Total, Where, Within
from vagen_rewards.reader.relations import AXES, Region, Relation, ends_of
from vagen_rewards.reader.things import ALL, NONE, Mention
from vagen_rewards.reader.words import lexicon, words_of

RANKS = ("player", "box", "target", "hole", *GROUND)
"""Of two things the later one is the subject, so that a relation and its reverse are one fact."""

BOARDS = {board.kind: board for board in (SokobanState, FrozenLakeState)}
_NTH = {ALL: 0, NONE: -1}
_PATTERNS = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in lexicon()["boards"]["patterns"].items()
}
_CELLS, _BASE, _PAIR, _PLAIN = [_PATTERNS[name] for name in ("cells", "base", "pair", "plain")]


def claims_of(kind: str, text: str, part: Part) -> Reading:
    """Claims of a grid, a dictionary, cells, or sentences."""
    exact = _grid(kind, text) or _cells(text)
    if exact is not None:
        return exact
    base = _BASE.search(text)
    words = words_of(kind, _BASE.sub(lambda said: ",".rjust(len(said[0])), text) if base else text)
    parsed = parse(words, part)
    claims, unread = list[Claim](), parsed.unread
    if not words and any(letter.isalpha() for letter in text):
        unread.append(((0, len(text)), True))
    often, on_map = Counter[Fact](), False
    for stated in parsed.stated:
        facts = facts_of(kind, stated, on_map=on_map)
        corner = stated.relation.region or any(
            way.startswith("corner") for way in stated.relation.ways
        )
        on_map = on_map or (
            stated.subject.kind == "player" and bool(corner) and not stated.relation.to
        )
        if facts is None:
            unread.append((stated.span, True))
            continue
        for fact in facts:
            other = stated.relation.other
            named = stated.subject.label or (other and other.label)
            if isinstance(fact, Where | Within) and fact.nth > 0 and named:
                often[fact] += 1
                claims.append(Claim(stated.span, fact._replace(nth=often[fact])))
            else:
                claims.append(Claim(stated.span, fact))
    return Reading.of(_counted(claims, base and (base[1] or base[2]).lower()), unread)


def _counted(claims: list[Claim], base: str | None) -> list[Claim]:
    """The claims, with what numbers of rows and columns are counted from."""
    within = [
        (claim, claim.key)
        for claim in claims
        if isinstance(claim.key, Within) and claim.key.numbers
    ]
    along = tuple([(fact.kind, fact.numbers) for _, fact in within])
    bases = (0, 1) if base is None else (int(base in ("1", "one")),)
    found = {
        claim: claim._replace(key=fact._replace(bases=bases, along=along)) for claim, fact in within
    }
    return [found.get(claim, claim) for claim in claims]


def facts_of(kind: str, stated: Stated, *, on_map: bool = False) -> list[Fact] | None:
    """The facts of a clause; `None` if it doesn't surely say any. `on_map`: corners are the board's."""
    subject, relation = stated.subject, stated.relation
    if stated.total:
        return [Total(subject.kind, stated.total)]
    if relation.ends:
        return _between(kind, subject, relation)
    if (
        subject.kind == "player"
        and relation.region
        and relation.ways
        and relation.at
        and relation.other is None
    ):
        relation.region = (
            *ends_of(relation.ways),
            *relation.region,
        )  # "on the left, in the top row"
        relation.ways = []
    bare = (
        not relation.viewer
        and (relation.other is None or subject.kind == "player")
        and not relation.region
    )
    corner = any(way.startswith("corner") for way in relation.ways)
    on_board: list[Fact] | None = None
    placed = relation.at or relation.sided or (corner and not relation.to)
    if (
        bare
        and placed
        and relation.ways
        and not (relation.counts or relation.adjacent or relation.near)
    ):
        on_board = _region(subject, ends_of(relation.ways), loose=True)
    if bare and corner and on_board is None and not relation.to:
        return None
    on_map = on_map and corner and not (relation.other or relation.sided)
    if on_board and (
        on_map or (subject.kind == "player" and (relation.other is None or relation.other.may_be))
    ):
        return on_board
    readings: list[list[Fact]] = [on_board] if on_board and (corner or relation.sided) else []
    seen_from = relation.other or Mention("player")
    for one, other in itertools.product(
        subject.may_be or (subject,), seen_from.may_be or (seen_from,)
    ):
        facts = _placed(kind, one, relation, other)
        if facts is not None and facts not in readings:
            readings.append(facts)
        elif facts is None and not (subject.may_be or seen_from.may_be):
            return None
    if len(readings) > 1:
        return [Unclear(tuple(map(tuple, readings)))]
    return readings[0] if readings else None


def _placed(kind: str, subject: Mention, relation: Relation, other: Mention) -> list[Fact] | None:
    """The facts of a relation to one thing."""
    known = {*GROUND, *itertools.chain(*BOARDS[kind].related)}
    if (
        subject.kind not in known
        or other.kind not in known
        or subject.plural
        or other.plural
        or relation.far
    ):
        return None
    placed = _region(subject, relation.region, loose=relation.loose) if relation.region else []
    if placed and not (relation.ways or relation.same or relation.near):
        return placed
    if subject.kind == other.kind or placed is None:
        return None
    ground = subject.kind in GROUND
    where = sides_of(relation, exact=relation.exact or ground)
    if where is None or other.kind == "wall" or (ground and relation.counts):
        return None
    vertical, horizontal, rows, columns = where
    near = relation.near or relation.adjacent
    straight = (vertical is None) != (horizontal is None) and "any" in relation.units.values()
    fact = Where(
        subject.kind, other.kind, vertical, horizontal, rows, columns, near, straight=straight
    )
    fact = fact._replace(apart=relation.apart)
    if RANKS.index(subject.kind) < RANKS.index(other.kind):
        back = [None if way is None else -way for way in (vertical, horizontal)]
        fact = fact._replace(
            subject=other.kind, other=subject.kind, vertical=back[0], horizontal=back[1]
        )
    fact = fact._replace(nth=_NTH.get(subject.label, 1) * _NTH.get(other.label, 1))
    if ground:
        close = fact._replace(near=True)
        return [
            close
            if near or subject.kind == "free"
            else Unclear(((close,), (fact._replace(near=False),)))
        ]
    if subject.label or other.label or near or fact.apart or fact.subject in ("hole", *GROUND):
        return [*placed, fact]
    halves = [fact._replace(horizontal=None, columns=None), fact._replace(vertical=None, rows=None)]
    return [
        *placed,
        *[half for half in halves if half.vertical is not None or half.horizontal is not None],
    ]


def _region(subject: Mention, region: Region, *, loose: bool = False) -> list[Fact] | None:
    if subject.plural or not region:
        return None
    cells = [At(subject.kind, place, True) for axis, place in region if axis == "cell"]
    places = tuple([each for each in region if each[0] != "cell"])
    several = subject.kind == "hole" or bool(subject.label)  # one of them is in all the places
    apart = [places] if several else [(each,) for each in places]
    return [
        *cells,
        *[Within(subject.kind, each, loose, _NTH.get(subject.label, 1)) for each in apart if each],
    ]


def _between(kind: str, subject: Mention, relation: Relation) -> list[Fact] | None:
    found = (subject, *relation.ends)
    kinds = [one.kind for one in found]
    if len(set(kinds)) < 3 or any(one.plural or one.may_be for one in found):
        return None
    between = Between(kinds[0], (kinds[1], kinds[2]), _NTH.get(subject.label, 1))
    more = dataclasses.replace(relation, ends=())
    rest = (
        []
        if more == Relation()
        else _placed(kind, subject, more, relation.other or Mention("player"))
    )
    return None if rest is None else [between, *rest]


def sides_of(
    relation: Relation, *, exact: bool
) -> tuple[int | None, int | None, int | None, int | None] | None:
    """Vertical and horizontal side, and distances in rows and columns; `None` if the words contradict."""
    found, counts = dict[str, int](), dict[str, int]()
    for way in relation.ways:
        for step in way.removeprefix("corner ").split():
            if step not in AXES:
                return None
            axis, sign = AXES[step]
            unit = relation.units.get(way, "")
            found[axis] = min(found.get(axis, sign), sign, key=abs)
            if found[axis] * sign < 0 or (unit in ("row", "column") and unit != axis):
                return None
            if (
                way in relation.counts
                and counts.setdefault(axis, relation.counts[way]) != relation.counts[way]
            ):
                return None
    if 0 in counts.values():
        return None
    for same in relation.same:
        for axis in ("row", "column") if same == "here" else (same,):
            if found.setdefault(axis, 0) != 0:
                return None
    if exact and len(found) == 1 and not relation.same:
        found["column" if "row" in found else "row"] = 0
    if not found and not relation.near and not relation.apart:
        return None
    return found.get("row"), found.get("column"), counts.get("row"), counts.get("column")


# -- cells ------------------------------------------------------------------------------------------


def _grid(kind: str, text: str) -> Reading | None:
    """A grid of symbols that fills the text."""
    rows = [row.strip().replace(" ", "") for row in text.strip().strip("`").strip().splitlines()]
    symbols = BOARDS[kind].symbols
    if (
        len(rows) < 3
        or len(set(map(len, rows))) != 1
        or len(rows[0]) < 3
        or not set("".join(rows)) <= set(symbols)
    ):
        return None
    found = [
        At(name, (i, j))
        for i, row in enumerate(rows)
        for j, symbol in enumerate(row)
        for name in symbols[symbol]
    ]
    return Reading(tuple([Claim((0, len(text)), fact) for fact in found]))


def _cells(text: str) -> Reading | None:
    """Cells of things in a dictionary or a list, if the text has nothing else."""
    if not _PAIR.search(text):
        return None
    claims: list[Claim] = []
    rest = text
    for match in _CELLS.finditer(text):
        name = match[1].lower().replace("goal", "target")
        cells = [ast.literal_eval(f"({pair})") for pair in _PAIR.findall(match[2])]
        claims += [Claim(match.span(), At(name, cell)) for cell in cells]
        rest = rest[: match.start()] + " " * len(match[0]) + rest[match.end() :]
    if not claims or not _PLAIN.fullmatch(rest):
        return None
    return Reading(tuple(claims))


# -- F1 ---------------------------------------------------------------------------------------------


def mark(state: State, reading: Reading, _part: Part) -> Marks:
    """F1 over relations or, where cells are stated, over the cells of things.

    In FrozenLake a text must say truly where the goal is. Holes count for recall up to as many facts as the goal has,
    so that a lake full of holes needn't be described hole by hole.
    """
    truth: Any = state
    things = truth.cells
    lake = "hole" in things
    right = wrong = cells = 0
    found = Counter[tuple[str, str]]()
    verdicts = {claim.key: claim.holds(state) for claim in reading.claims}
    for fact, held in verdicts.items():
        if held is None:
            continue
        if isinstance(fact, Where):
            true = fact.atoms() if held else fact.right_atoms(state)
            right, wrong = right + true, wrong + fact.atoms() - true
            found[fact.subject, fact.other] += true
        else:
            right, wrong, cells = (
                right + held,
                wrong + (not held),
                cells + (held and isinstance(fact, At)),
            )
    on_board = [
        fact
        for fact, held in verdicts.items()
        if held and isinstance(fact, Within) and fact.kind == "target"
    ]
    axes = {axis for fact in on_board for axis, _ in fact.places}
    placed = any(held and _places(fact, "target") for fact, held in verdicts.items())
    essential = not lake or placed or len(axes) > 1
    notes = notes_on(state, reading) if wrong else ()
    if cells or not found:
        # Two places, a row and a column, are worth a cell.
        return Marks(
            right, wrong, cells or right // 2, sum(map(len, things.values())), essential, notes
        )
    wanted = {pair: _facts(things, *pair) for pair in truth.related}
    if lake:
        wanted["hole", "player"] = min(wanted["hole", "player"], wanted["target", "player"])
    stated = sum(min(count, wanted.get(pair, 0)) for pair, count in found.items())
    return Marks(right, wrong, stated, sum(wanted.values()), essential, notes)


def _places(fact: Fact, kind: str) -> bool:
    """Whether a fact says where a thing of this kind is, or that the player is in a hole."""
    if isinstance(fact, Unclear):
        return all(
            any(isinstance(part, Within) or _places(part, kind) for part in read)
            for read in fact.readings
        )
    if isinstance(fact, Where):
        return kind in (fact.subject, fact.other) or (
            fact.vertical,
            fact.horizontal,
            fact.subject,
        ) == (0, 0, "hole")
    return isinstance(fact, At) and fact.kind == kind


def _facts(things: dict[str, tuple[Position, ...]], subject: str, other: str) -> int:
    """Sides that a full description states: one for each axis along which two things differ, two for the same cell."""
    sides = [(a[0] != b[0]) + (a[1] != b[1]) for a in things[subject] for b in things[other]]
    return sum(count or 2 for count in sides)
