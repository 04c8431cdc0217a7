"""What Sokoban and FrozenLake have in common: claims against positions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence

from vagen_envs.grid import Position
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.claims import Absence, Claim, Mention, Reading
from vagen_rewards.rules.places import Things
from vagen_rewards.rules.reading import read

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
        wanted: the pairs of kinds (subject, other) whose relations a full description has, the subject of
            the higher `RANK`.

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
    names: dict[Mention, str] = {}
    numbers: dict[str, set[str]] = {}
    for claim in claims:
        for mention in (claim.subject, claim.other):
            if mention not in names:
                names[mention] = mention.label
                if mention.label[:1] == "#":
                    numbers.setdefault(mention.kind, set()).add(mention.label)
    for mention, label in names.items():
        if label and len(things[mention.kind]) == 1:  # "the box", "a box", "box 1"
            if ":" in label or (label[0] == "#" and len(numbers[mention.kind]) == 1):
                names[mention] = ""
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
    row, column = things["player"][0]
    seen = [(sign(at[0] - row), sign(at[1] - column)) for at in things[kind]]
    said: dict[str, list[Claim]] = {name: [] for name in names}
    for claim in claims:
        if claim.subject.kind == kind and claim.other.kind == "player" and mentions[claim.subject] in said:
            said[mentions[claim.subject]].append(claim)
    fits = {
        name: [i for i, sides in enumerate(seen) if all([_fits(each, sides) != each.negated for each in said[name]])]
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


def _fits(claim: Claim, sides: tuple[int, int]) -> bool:
    return claim.vertical in (None, sides[0]) and claim.horizontal in (None, sides[1])


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
    stated: dict[tuple[str, int, str, int], list[int]] = {}  # for each axis the sides that are said, as bits
    for claim in claims:
        subject, other, vertical, horizontal, negated, hedged = claim
        weight = (vertical is not None) + (horizontal is not None)
        if hedged:
            marks.fault(f"{_say(claim)} is hedged", weight)
            continue
        for i in places[subject]:
            for j in places[other]:
                if i < 0 or j < 0:
                    marks.fault(f"{_say(claim)}: there are not so many", weight)
                    continue
                if subject.kind == other.kind and i == j:
                    continue
                sides = _sides(things[subject.kind][i], things[other.kind][j])
                if negated:
                    if _fits(claim, sides):
                        marks.fault(f"not {_say(claim)}")
                    continue
                said = stated.setdefault((subject.kind, i, other.kind, j), [0, 0])
                if vertical is not None:
                    said[0] |= 1 << (vertical + 1)
                if horizontal is not None:
                    said[1] |= 1 << (horizontal + 1)
                if not _fits(claim, sides) and len(marks.notes) < 4:
                    marks.notes.append(_say(claim))
    true: dict[tuple[str, int, str, int], tuple[bool, bool]] = {}
    for key, said in stated.items():
        kind, i, other_kind, j = key
        truth = _sides(things[kind][i], things[other_kind][j])
        right = (said[0] == 1 << (truth[0] + 1), said[1] == 1 << (truth[1] + 1))
        marks.right += right[0] + right[1]
        # of sides that exclude one another none counts
        marks.wrong += (0 if right[0] else said[0].bit_count()) + (0 if right[1] else said[1].bit_count())
        true[key] = right
    for kind, other_kind in wanted:
        found = sought = 0
        for i, at in enumerate(things[kind]):
            for j, place in enumerate(things[other_kind]):
                told = true.get((kind, i, other_kind, j), _UNTOLD)
                same = at == place
                found += told[0] + told[1]
                sought += (told[0] or same or at[0] != place[0]) + (told[1] or same or at[1] != place[1])
        marks.found += found
        marks.wanted += sought
        marks.parts.append((found, sought))
    return marks


_UNTOLD = (False, False)


def _sides(at: Position, other: Position) -> tuple[int, int]:
    return sign(at[0] - other[0]), sign(at[1] - other[1])


_VERTICAL = {None: "", -1: "above", 0: "in the row of", 1: "below"}
_HORIZONTAL = {None: "", -1: "left of", 0: "in the column of", 1: "right of"}


def _say(claim: Claim) -> str:
    sides = " and ".join(filter(None, (_VERTICAL[claim.vertical], _HORIZONTAL[claim.horizontal])))
    return f"{claim.subject.kind} {sides} {claim.other.kind}"


def _present(things: Things, absence: Absence) -> bool:
    claim = Claim(Mention(absence.kind, ""), Mention("player", ""), absence.vertical, absence.horizontal)
    player = things["player"][0]
    return any(_fits(claim, _sides(at, player)) for at in things[absence.kind])
