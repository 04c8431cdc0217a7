"""What Sokoban and FrozenLake have in common: claims against positions."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from vagen_envs.grid import Position
from vagen_rewards.rules.counting import MAX_MATCHED, counted, fits, is_present, mark, sides_of
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.matching import matched
from vagen_rewards.rules.places import Things
from vagen_rewards.rules.reading import read
from vagen_rewards.rules.relations import Mention, Relation, Relations

MAX_ASSIGNMENTS = 5000
"""Ways to say which thing is which that are all tried, over all kinds; six boxes with six names have 720. Beyond it the
next kind's things are matched at once."""

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
    return tuple([tuple(sorted([sides_of(at, player) for at in each])) for each in things])


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
    kinds: tuple[str, ...], places: Places, reading: Relations, wanted: Sequence[tuple[str, str]], around: bool
) -> Marks:
    things = dict(zip(kinds, places, strict=True))
    marks = counted(things, reading.claims, wanted) if around else None
    if marks is None:
        marks = _best(things, reading.claims, wanted)
    marks.unread, marks.matters = reading.unread, bool(reading.matters)
    for absence in reading.absences:
        if is_present(things, absence):
            marks.fault(f"there is a {absence.kind} where none is said to be")
    return marks


def _best(things: Things, claims: Sequence[Relation], wanted: Sequence[tuple[str, str]]) -> Marks:
    """The marks under the assignment of words to things that is best for the agent."""
    best: Marks | None = None
    for meant in _assignments(things, _mentions(things, claims), claims):
        marks = mark(things, claims, meant, wanted)
        if best is None or (marks.right - marks.wrong, marks.found) > (best.right - best.wrong, best.found):
            best = marks
        if not marks.wrong:
            break
    assert best is not None  # noqa: S101 - there is always one way to mean no mentions
    return best


def _mentions(things: Things, claims: Iterable[Relation]) -> dict[Mention, str]:
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
    things: Things, mentions: Mapping[Mention, str], claims: Sequence[Relation]
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
        ways = size * math.perm(max(len(names), count), len(names))
        if ways > MAX_ASSIGNMENTS or kind == "hole":
            choices.append([_matched(things, kind, names, mentions, claims)])
        else:
            size = ways
            slots = (*range(count), *[-1] * max(0, len(names) - count))
            choices.append([dict(zip(names, each, strict=True)) for each in _permuted(slots, len(names))])
    for chosen in itertools.product(*choices):
        meant = dict(zip(by_kind, chosen, strict=True))
        yield {
            mention: tuple(range(len(things[mention.kind]))) if label == "all" else (meant[mention.kind][label],)
            for mention, label in mentions.items()
        }


@functools.lru_cache(maxsize=256)
def _permuted(slots: tuple[int, ...], length: int) -> tuple[tuple[int, ...], ...]:
    return tuple(dict.fromkeys(itertools.permutations(slots, length)))


def _matched(
    things: Things, kind: str, names: list[str], mentions: Mapping[Mention, str], claims: Sequence[Relation]
) -> dict[str, int]:
    """The assignment that makes the most claims about the player right, found by augmenting paths.

    Taking the names with the most to say first is optimal, since the sets of names that can be right
    together form a matroid.
    """
    player = things["player"][0]
    seen = [sides_of(at, player) for at in things[kind]]
    said: dict[str, list[Relation]] = {name: [] for name in names}
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
    suitable = {
        name: [i for i, sides in enumerate(seen) if all(fits(claim, sides) != claim.negated for claim in each)]
        for name, each in said.items()
    }
    first = sorted(names, key=lambda each: -len(said[each]))[:MAX_MATCHED]
    owner = matched((name, suitable[name]) for name in first)
    meant = dict.fromkeys(names, -1)
    meant.update({name: i for i, name in owner.items()})
    return meant
