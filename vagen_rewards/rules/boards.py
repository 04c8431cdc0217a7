"""What Sokoban and FrozenLake have in common: claims, grids and dictionaries against positions."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from vagen_envs.grid import Position
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.reading import Absence, Claim, Mention, Reading, read

Things = Mapping[str, Sequence[Position]]
"""Positions by kind; the player is the one of its kind."""

MAX_ASSIGNMENTS = 5000

MAX_CACHED = 1000
"""Characters of a text whose marks are kept."""


def sign(x: int) -> int:
    """-1, 0 or 1."""
    return (x > 0) - (x < 0)


def compare_sentences(board: str, text: str, things: Things, wanted: Sequence[tuple[str, str]]) -> Marks:
    """Hold sentences against positions.

    Args:
        board: whose vocabulary the sentences use.
        text: the sentences.
        things: where things are.
        wanted: the pairs of kinds (subject, other) whose relations a full description has.

    Returns:
        Marks that others may hold as well: not to be written to.
    """
    reading = read(board, text)
    kinds = tuple(things)
    if all("player" in (claim.subject.kind, claim.other.kind) for claim in reading.claims) and all(
        "player" in pair for pair in wanted
    ):
        places = _around_player(things)
    else:
        places = _ranked(things)
    if len(text) > MAX_CACHED:
        return _compare(kinds, places, reading, wanted)
    return _compare_cached(board, text, kinds, places, tuple(wanted))


Places = tuple[tuple[Position, ...], ...]


def _around_player(things: Things) -> Places:
    """The smallest board on which everything stands as it did to the player."""
    row, column = things["player"][0]
    return tuple(
        [tuple(sorted([(sign(at[0] - row), sign(at[1] - column)) for at in each])) for each in things.values()]
    )


def _ranked(things: Things) -> Places:
    """The smallest board on which everything stands as it did to everything else."""
    every = [at for each in things.values() for at in each]
    rows = {row: i for i, row in enumerate(sorted({at[0] for at in every}))}
    columns = {column: i for i, column in enumerate(sorted({at[1] for at in every}))}
    return tuple([tuple([(rows[row], columns[column]) for row, column in each]) for each in things.values()])


@functools.lru_cache(maxsize=65536)
def _compare_cached(
    board: str, text: str, kinds: tuple[str, ...], places: Places, wanted: tuple[tuple[str, str], ...]
) -> Marks:
    """Agents converge on few sentences (VAGEN, section 5.5), and few of these small boards are different."""
    return _compare(kinds, places, read(board, text), wanted)


def _compare(kinds: tuple[str, ...], places: Places, reading: Reading, wanted: Sequence[tuple[str, str]]) -> Marks:
    things = dict(zip(kinds, places, strict=True))
    claims = [claim for claim in reading.claims if claim.subject.kind in things and claim.other.kind in things]
    mentions = _mentions(things, claims)
    best: Marks | None = None
    for meant in _assignments(things, mentions, claims):
        marks = _mark(things, claims, meant, wanted)
        if best is None or (marks.right - marks.wrong, marks.found) > (best.right - best.wrong, best.found):
            best = marks
        if not marks.wrong and marks.found == marks.wanted:
            break
    marks = best if best is not None else _mark(things, [], {}, wanted)
    marks.unread = reading.unread
    for absence in reading.absences:
        if absence.kind in things and _present(things, absence):
            marks.fault(f"there is a {absence.kind} where none is said to be")
    return marks


def _mentions(things: Things, claims: Iterable[Claim]) -> dict[Mention, str]:
    """The things spoken of, each with a name; what must be one thing has one name."""
    found = dict.fromkeys(mention for claim in claims for mention in (claim.subject, claim.other))
    names: dict[Mention, str] = {}
    for mention in found:
        only_one = len(things[mention.kind]) == 1
        numbers = {other.label for other in found if other.kind == mention.kind and other.label[:1] == "#"}
        label = mention.label
        if only_one and (label == "" or ":" in label or (label[:1] == "#" and len(numbers) == 1)):
            label = ""
        names[mention] = label
    return names


def _assignments(
    things: Things, mentions: Mapping[Mention, str], claims: Sequence[Claim]
) -> Iterable[dict[Mention, tuple[int, ...]]]:
    """Ways to say which thing each mention means: different names are different things, where they last."""
    by_kind: dict[str, list[str]] = {}
    for mention, label in mentions.items():
        names = by_kind.setdefault(mention.kind, [])
        if label != "all" and label not in names:
            names.append(label)
    choices = []
    size = 1
    for kind, names in by_kind.items():
        count = len(things[kind])
        ways = _ways(len(names), count)
        size *= ways
        if size > MAX_ASSIGNMENTS or kind == "hole":
            choices.append([_matched(things, kind, names, mentions, claims)])
            size //= max(ways, 1)
        else:
            slots = [*range(count), *[-1] * max(0, len(names) - count)]
            choices.append([dict(zip(names, each, strict=True)) for each in _permutations(slots, len(names))])
    kinds = list(by_kind)
    for chosen in itertools.product(*choices):
        meant = dict(zip(kinds, chosen, strict=True))
        yield {
            mention: tuple(range(len(things[mention.kind]))) if label == "all" else (meant[mention.kind][label],)
            for mention, label in mentions.items()
        }


def _ways(names: int, count: int) -> int:
    slots, ways = max(names, count), 1
    for i in range(names):
        ways *= slots - i
        if ways > MAX_ASSIGNMENTS:
            break
    return ways


@functools.lru_cache(maxsize=256)
def _permuted(slots: tuple[int, ...], length: int) -> tuple[tuple[int, ...], ...]:
    return tuple(dict.fromkeys(itertools.permutations(slots, length)))


def _permutations(slots: list[int], length: int) -> tuple[tuple[int, ...], ...]:
    return _permuted(tuple(slots), length)


def _matched(
    things: Things, kind: str, names: list[str], mentions: Mapping[Mention, str], claims: Sequence[Claim]
) -> dict[str, int]:
    """The assignment that makes the most claims about the player right, found by augmenting paths.

    Taking the names with the most to say first is optimal, since the sets of names that can be right
    together form a matroid.
    """
    player = things["player"][0]
    said: dict[str, list[Claim]] = {name: [] for name in names}
    for claim in claims:
        for claimed in (claim, _turned(claim)):
            if claimed.subject.kind == kind and claimed.other.kind == "player" and mentions[claimed.subject] in said:
                said[mentions[claimed.subject]].append(claimed)
    fits = {
        name: [
            i
            for i, at in enumerate(things[kind])
            if all(_holds(each, at, player) != each.negated for each in said[name])
        ]
        for name in names
    }
    owner: dict[int, str] = {}

    def place(name: str, seen: set[int]) -> bool:
        for i in fits[name]:
            if i not in seen:
                seen.add(i)
                if i not in owner or place(owner[i], seen):
                    owner[i] = name
                    return True
        return False

    for name in sorted(names, key=lambda each: -len(said[each]))[:64]:
        place(name, set())
    meant = dict.fromkeys(names, -1)
    meant.update({name: i for i, name in owner.items()})
    return meant


def _turned(claim: Claim) -> Claim:
    """The same claim said of the other thing."""
    flip = {None: None, 0: 0, 1: -1, -1: 1}
    return claim._replace(
        subject=claim.other,
        other=claim.subject,
        vertical=flip[claim.vertical],
        horizontal=flip[claim.horizontal],
    )


def _holds(claim: Claim, at: Position, other: Position) -> bool:
    return (claim.vertical is None or claim.vertical == sign(at[0] - other[0])) and (
        claim.horizontal is None or claim.horizontal == sign(at[1] - other[1])
    )


_RANK = {"player": 0, "box": 1, "hole": 1, "target": 2}


def _mark(
    things: Things,
    claims: Sequence[Claim],
    places: Mapping[Mention, tuple[int, ...]],
    wanted: Sequence[tuple[str, str]],
) -> Marks:
    """Count what is right, wrong and stated under one assignment.

    A fact is a side on one axis. "Above" states one of the two facts of things that stand diagonally.
    Being in the same row needn't be said, so that "left of" is a full description; said, it counts.
    """
    marks = Marks()
    stated: dict[tuple[str, int, str, int, int], set[int]] = {}
    for claim in claims:
        claimed = claim
        if (_RANK[claim.subject.kind], claim.subject.kind) < (_RANK[claim.other.kind], claim.other.kind):
            claimed = _turned(claim)
        sides = [(axis, side) for axis, side in enumerate((claimed.vertical, claimed.horizontal)) if side is not None]
        if claim.hedged:
            marks.fault(f"{_say(claim)} is hedged", len(sides))
            continue
        for i in places[claimed.subject]:
            for j in places[claimed.other]:
                if claimed.subject.kind == claimed.other.kind and i == j:
                    continue
                if i < 0 or j < 0:
                    marks.fault(f"{_say(claim)}: there are not so many", len(sides))
                    continue
                at, other = things[claimed.subject.kind][i], things[claimed.other.kind][j]
                if claim.negated:
                    if _holds(claimed, at, other):
                        marks.fault(f"not {_say(claim)}")
                    continue
                for axis, side in sides:
                    key = (claimed.subject.kind, i, claimed.other.kind, j, axis)
                    if side not in stated.setdefault(key, set()) and side != sign(at[axis] - other[axis]):
                        marks.notes.append(_say(claim))
                    stated[key].add(side)
    del marks.notes[4:]
    true = set()
    for key, sides_said in stated.items():
        kind, i, other_kind, j, axis = key
        truth = sign(things[kind][i][axis] - things[other_kind][j][axis])
        if sides_said == {truth}:
            marks.right += 1
            true.add(key)
        else:
            marks.wrong += len(sides_said)  # of sides that exclude one another none counts
    for subject, other_kind in wanted:
        found, sought = marks.found, marks.wanted
        for i, at in enumerate(things[subject]):
            for j, other in enumerate(things[other_kind]):
                same_place = at == other
                for axis in (0, 1):
                    said = _key(subject, i, other_kind, j, axis) in true
                    if said or same_place or at[axis] != other[axis]:
                        marks.wanted += 1
                        marks.found += said
        marks.parts.append((marks.found - found, marks.wanted - sought))
    return marks


def _key(subject: str, i: int, other: str, j: int, axis: int) -> tuple[str, int, str, int, int]:
    if (_RANK[subject], subject) < (_RANK[other], other):
        return (other, j, subject, i, axis)
    return (subject, i, other, j, axis)


_VERTICAL = {None: "", -1: "above", 0: "in the row of", 1: "below"}
_HORIZONTAL = {None: "", -1: "left of", 0: "in the column of", 1: "right of"}


def _say(claim: Claim) -> str:
    sides = " and ".join(filter(None, (_VERTICAL[claim.vertical], _HORIZONTAL[claim.horizontal])))
    return f"{claim.subject.kind} {sides} {claim.other.kind}"


def _present(things: Things, absence: Absence) -> bool:
    player = things["player"][0]
    claim = Claim(Mention(absence.kind, ""), Mention("player", ""), absence.vertical, absence.horizontal)
    return any(_holds(claim, at, player) for at in things[absence.kind])


# -- grids and dictionaries -----------------------------------------------------------------------


def grid_of(text: str, symbols: str) -> list[str] | None:
    """The rows of a grid of symbols, or `None` if the text isn't one. Blank lines and fences are ignored."""
    if "\n" not in text:
        return None
    rows = [line.strip().replace(" ", "") for line in text.splitlines()]
    rows = [row for row in rows if row and not row.startswith("```")]
    allowed = set(symbols)
    if len(rows) < 2 or any(not set(row) <= allowed for row in rows):
        return None
    return rows


def read_grid(rows: Sequence[str], meaning: Mapping[str, tuple[str, ...]]) -> dict[str, list[Position]]:
    """Where the symbols stand, by kind."""
    found: dict[str, list[Position]] = {}
    for i, row in enumerate(rows):
        for j, symbol in enumerate(row):
            for kind in meaning.get(symbol, ()):
                found.setdefault(kind, []).append((i, j))
    return found


_ENTRY = re.compile(
    r"[\"']?(player|box|boxes|target|targets|goal|hole|holes)_?positions?[\"']?\s*[:=]\s*"
    r"((?:[\[\](),\s]|-?\d{1,6})*)",
    re.IGNORECASE,
)
_PAIR = re.compile(r"[\[(]\s*(-?\d{1,6})\s*,\s*(-?\d{1,6})\s*[\])]")
_SIZE = re.compile(r"[\"']?grid_size[\"']?\s*[:=]\s*[\[(]\s*(\d{1,4})\s*,\s*(\d{1,4})\s*[\])]", re.IGNORECASE)
_NAMES = {"boxes": "box", "targets": "target", "goal": "target", "holes": "hole"}


def read_dictionary(text: str) -> tuple[dict[str, list[Position]], Position | None] | None:
    """Positions by kind, and the grid's size, of a structured text; `None` if it isn't one."""
    if "{" not in text:
        return None
    found: dict[str, list[Position]] = {}
    for match in _ENTRY.finditer(text):
        kind = match[1].lower()
        pairs = [(int(row), int(column)) for row, column in _PAIR.findall(match[2])]
        found.setdefault(_NAMES.get(kind, kind), []).extend(pairs)
    if not found:
        return None
    size = _SIZE.search(text)
    return found, (int(size[1]), int(size[2])) if size else None


def compare_places(things: Things, said: Mapping[str, Sequence[Position]]) -> Marks:
    """Exact places against exact places; several answers for one thing are as many claims."""
    marks = Marks()
    for kind, places in things.items():
        marks.wanted += len(places)
        left = list(places)
        for place in said.get(kind, ()):
            if place in left:
                left.remove(place)
                marks.right += 1
                marks.found += 1
            else:
                marks.fault(f"{kind} at {place}")
    for kind in said.keys() - things.keys():
        marks.fault(f"there is no {kind}", len(said[kind]))
    return marks
