"""What Sokoban and FrozenLake have in common: claims against positions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence

from vagen_envs.grid import Position
from vagen_rewards.rules.claims import Absence, Claim, Mention, Reading
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.places import Things
from vagen_rewards.rules.reading import read

MAX_ASSIGNMENTS = 5000

MAX_MATCHED = 64
"""Names of holes that are told apart."""

MAX_CACHED = 1000
"""Characters of a text whose marks are kept."""


def compare_sentences(board: str, text: str, things: Things, wanted: tuple[tuple[str, str], ...]) -> Marks:
    """Hold sentences against positions.

    Args:
        board: whose vocabulary the sentences use.
        text: the sentences.
        things: where things are, the player first.
        wanted: the pairs of kinds (subject, other) whose relations a full description has, the subject of
            the higher `RANK`.

    Returns:
        Marks that others may hold as well: not to be written to.
    """
    reading = read(board, text)
    kinds = tuple(things)
    around = reading.seen_from_player and all("player" in pair for pair in wanted)
    places = (_around_player if around else _ranked)(tuple(things.values()))
    if len(text) > MAX_CACHED:
        return _compare(kinds, places, reading, wanted, around)
    return _compare_cached(board, text, kinds, places, wanted, around)


Places = tuple[tuple[Position, ...], ...]


@functools.lru_cache(maxsize=8192)
def _around_player(things: Places) -> Places:
    """The smallest board on which everything stands as it did to the player, who comes first."""
    player = things[0][0]
    return tuple([tuple(sorted([_sides(at, player) for at in each])) for each in things])


@functools.lru_cache(maxsize=8192)
def _ranked(things: Places) -> Places:
    """The smallest board on which everything stands as it did to everything else."""
    every = [at for each in things for at in each]
    rows = {row: i for i, row in enumerate(sorted({at[0] for at in every}))}
    columns = {column: i for i, column in enumerate(sorted({at[1] for at in every}))}
    return tuple([tuple([(rows[row], columns[column]) for row, column in each]) for each in things])


@functools.lru_cache(maxsize=65536)
def _compare_cached(
    board: str, text: str, kinds: tuple[str, ...], places: Places, wanted: tuple[tuple[str, str], ...], around: bool
) -> Marks:
    """Agents converge on few sentences (VAGEN, section 5.5), and few of these small boards are different."""
    return _compare(kinds, places, read(board, text), wanted, around)


def _compare(
    kinds: tuple[str, ...], places: Places, reading: Reading, wanted: Sequence[tuple[str, str]], around: bool
) -> Marks:
    things = dict(zip(kinds, places, strict=True))
    marks = _counted(things, reading.claims, wanted) if around else None
    if marks is None:
        marks = _best(things, reading.claims, wanted)
    marks.unread = reading.unread
    for absence in reading.absences:
        if _present(things, absence):
            marks.fault(f"there is a {absence.kind} where none is said to be")
    return marks


def _counted(things: Things, claims: Sequence[Claim], wanted: Sequence[tuple[str, str]]) -> Marks | None:
    """What `_best` finds, at once, where each thing is spoken of once and fully; `None` where it isn't so.

    `things` are as `_around_player` has them. Of holes only how many stand at each side matters then.
    """
    marks = Marks()
    counts = {kind: [0, _facts(things[kind], ((0, 0),))] for kind, _ in wanted}
    holes = list(things.get("hole", ()))
    several = len(holes) != 1
    names = set()
    for claim in claims:
        (kind, label), _, vertical, horizontal, negated, hedged = claim
        name = (kind, label) if several and kind == "hole" else kind
        if vertical is None or horizontal is None or negated or hedged or label == "all" or name in names:
            return None
        names.add(name)
        sides = (vertical, horizontal)
        if kind != "hole":
            if len(things[kind]) != 1:
                return None
            truth = things[kind][0]
        elif sides in holes:
            holes.remove(sides)
            truth = sides
        else:
            marks.fault(f"{_say(claim)}: there are not so many", 2)
            continue
        right = (vertical == truth[0]) + (horizontal == truth[1])
        marks.right += right
        count = counts[kind]
        count[0] += right
        if right < 2:
            marks.fault(_say(claim), 2 - right)
        if truth != (0, 0):
            count[1] += (vertical == truth[0] == 0) + (horizontal == truth[1] == 0)
    for found, sought in counts.values():
        marks.found += found
        marks.wanted += sought
        marks.parts.append((found, sought))
    return marks if len(names) <= MAX_MATCHED else None


def _best(things: Things, claims: Sequence[Claim], wanted: Sequence[tuple[str, str]]) -> Marks:
    """The marks under the assignment of words to things that is best for the agent."""
    mentions = _mentions(things, claims)
    best: Marks | None = None
    for meant in _assignments(things, mentions, claims):
        marks = _mark(things, claims, meant, wanted)
        if best is None or (marks.right - marks.wrong, marks.found) > (best.right - best.wrong, best.found):
            best = marks
        if not marks.wrong and marks.found == marks.wanted:
            break
    return best if best is not None else _mark(things, [], {}, wanted)


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
        one = ":" in label or (label[:1] == "#" and len(numbers[mention.kind]) == 1)  # "a box", "box 1"
        if one and len(things[mention.kind]) == 1:
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
    choices: list[Sequence[dict[str, int]]] = []
    size = 1
    for kind, names in by_kind.items():
        count = len(things[kind])
        if count == 1 and len(names) <= 1 and kind != "hole":
            choices.append([dict.fromkeys(names, 0)])
            continue
        ways = _ways(len(names), count)
        size *= ways
        if size > MAX_ASSIGNMENTS or kind == "hole":
            choices.append([_matched(things, kind, names, mentions, claims)])
            size //= max(ways, 1)
        else:
            slots = (*range(count), *[-1] * max(0, len(names) - count))
            choices.append([dict(zip(names, each, strict=True)) for each in _permuted(slots, len(names))])
    for chosen in itertools.product(*choices):
        meant = dict(zip(by_kind, chosen, strict=True))
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


def _matched(
    things: Things, kind: str, names: list[str], mentions: Mapping[Mention, str], claims: Sequence[Claim]
) -> dict[str, int]:
    """The assignment that makes the most claims about the player right, found by augmenting paths.

    Taking the names with the most to say first is optimal, since the sets of names that can be right
    together form a matroid.
    """
    player = things["player"][0]
    seen = [_sides(at, player) for at in things[kind]]
    said: dict[str, list[Claim]] = {name: [] for name in names}
    simple = True  # one full description a name: then names compete only where they are described alike
    for claim in claims:
        subject, other, vertical, horizontal, negated, _ = claim
        if subject.kind == kind and other.kind == "player" and mentions[subject] in said:
            said[mentions[subject]].append(claim)
            simple = simple and not negated and vertical is not None and horizontal is not None
    if simple and all(len(each) == 1 for each in said.values()):
        free: dict[tuple[int | None, int | None], list[int]] = {}
        for i, sides in enumerate(seen):
            free.setdefault(sides, []).append(i)
        left = {name: free.get((each[0].vertical, each[0].horizontal)) for name, each in said.items()}
        return {name: each.pop() if each else -1 for name, each in left.items()}
    fits = {
        name: [i for i, sides in enumerate(seen) if all(_fits(claim, sides) != claim.negated for claim in each)]
        for name, each in said.items()
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

    for name in sorted(names, key=lambda each: -len(said[each]))[:MAX_MATCHED]:
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
    # for each pair of things the sides that are said as bits, vertical and horizontal, and the true ones
    stated: dict[tuple[str, int, str, int], tuple[list[int], tuple[int, int]]] = {}
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
                key = (subject.kind, i, other.kind, j)
                if key[:2] == key[2:]:
                    continue
                pair = stated.get(key)
                if pair is None:
                    pair = ([0, 0], _sides(things[subject.kind][i], things[other.kind][j]))
                said, truth = pair
                if negated:
                    if _fits(claim, truth):
                        marks.fault(f"not {_say(claim)}")
                    continue
                stated[key] = pair
                if vertical is not None:
                    said[0] |= 1 << (vertical + 1)
                if horizontal is not None:
                    said[1] |= 1 << (horizontal + 1)
                if vertical not in (None, truth[0]) or horizontal not in (None, truth[1]):
                    marks.notes.append(_say(claim))
    del marks.notes[4:]
    counts = {pair: [0, _facts(things[pair[0]], things[pair[1]])] for pair in wanted}
    for (kind, _, other_kind, _), (said, truth) in stated.items():
        count = counts.get((kind, other_kind))
        for sides, side in zip(said, truth, strict=True):
            if sides == 1 << (side + 1):
                marks.right += 1
                if count is not None:
                    count[0] += 1
                    count[1] += side == 0 and truth != (0, 0)
            else:
                marks.wrong += sides.bit_count()  # of sides that exclude one another none counts
    for found, sought in counts.values():
        marks.found += found
        marks.wanted += sought
        marks.parts.append((found, sought))
    return marks


@functools.lru_cache(maxsize=8192)
def _facts(subjects: tuple[Position, ...], others: tuple[Position, ...]) -> int:
    """How many facts a full description of these has; being in the same row or column is none."""
    sides = [_sides(at, other) for at in subjects for other in others]
    return sum([2 if each == (0, 0) else (each[0] != 0) + (each[1] != 0) for each in sides])


def _sides(at: Position, other: Position) -> tuple[int, int]:
    (a, b), (c, d) = at, other
    return (a > c) - (a < c), (b > d) - (b < d)


_VERTICAL = {None: "", -1: "above", 0: "in the row of", 1: "below"}
_HORIZONTAL = {None: "", -1: "left of", 0: "in the column of", 1: "right of"}


def _say(claim: Claim) -> str:
    sides = " and ".join(filter(None, (_VERTICAL[claim.vertical], _HORIZONTAL[claim.horizontal])))
    return f"{claim.subject.kind} {sides} {claim.other.kind}"


def _present(things: Things, absence: Absence) -> bool:
    claim = Claim(Mention(absence.kind, ""), Mention("player", ""), absence.vertical, absence.horizontal)
    player = things["player"][0]
    return any(_fits(claim, _sides(at, player)) for at in things[absence.kind])
