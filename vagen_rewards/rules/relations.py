"""Claims about where things are, and how they are written down."""

from __future__ import annotations

from typing import NamedTuple

from vagen_envs.grid import Position
from vagen_rewards.rules.neighbours import Neighbour
from vagen_rewards.rules.paces import Pace
from vagen_rewards.rules.spots import Spot
from vagen_rewards.rules.words import Cursor, Token
from vagen_rewards.scores import Span

MAX_CLAIMS = 128
"""A text that claims more is read no further: no board has that much to say."""

RANK = {"player": 0, "box": 1, "hole": 1, "target": 2}
"""A claim is written down of the thing of the higher rank, seen from the other."""


class Mention(NamedTuple):
    """A thing as it is spoken of.

    Attributes:
        kind: player, box, target or hole.
        label: `""` for "the box", `"#2"` for a number, `"a:…"` for one newly spoken of, `"all"`, `"some"`.
    """

    kind: str
    label: str


class Relation(NamedTuple):
    """`subject` is at this side of `other`. "The player is above the box" is kept as "the box is below the player".

    Attributes:
        subject, other: the things.
        vertical: -1 above, 1 below, 0 same row, `None` unsaid.
        horizontal: -1 left, 1 right, 0 same column, `None` unsaid.
        negated: it is said not to be so.
        hedged: it is said with an alternative or a doubt.
    """

    subject: Mention
    other: Mention
    vertical: int | None
    horizontal: int | None
    negated: bool = False
    hedged: bool = False


class Absence(NamedTuple):
    """In "There is no hole …": none of this kind at this side of the player, or at all."""

    kind: str
    vertical: int | None
    horizontal: int | None


class Placed(NamedTuple):
    """A thing and its row and column.

    Attributes:
        kind: of the thing.
        place: row and column, as they are said.
        base: what they are counted from; `None` where that isn't said: 0 or 1, for all alike.
    """

    kind: str
    place: Position
    base: int | None


class Relations(NamedTuple):
    """What a text says of where things are, in its order.

    Attributes:
        claims, absences: as they are said.
        unread: sentences that weren't understood.
        matters: those of them that name things and a direction.
        seen_from_player: whether all claims are about the player and something else.
        spans: the sentence of each claim, then of each absence, then of each of `placed`.
        placed: rows and columns of things.
        neighbours: what stands next to the player, each with its sentence.
        paces: how far things are said to be, each with its sentence.
        spots: in which rows and columns things are said to be by words, each with its sentence.
    """

    claims: tuple[Relation, ...]
    absences: tuple[Absence, ...]
    unread: tuple[Span, ...] = ()
    matters: tuple[Span, ...] = ()
    seen_from_player: bool = True
    spans: tuple[Span, ...] = ()
    placed: tuple[Placed, ...] = ()
    neighbours: tuple[tuple[Neighbour, Span], ...] = ()
    paces: tuple[tuple[Pace, Span], ...] = ()
    spots: tuple[tuple[Spot, Span], ...] = ()


class Notes(Cursor):
    """What has been claimed in a sentence so far."""

    __slots__ = ("absences", "claims", "hedged", "last_pending", "negated", "new_count", "straight", "unknown", "used")

    def __init__(self, words: list[Token]) -> None:
        super().__init__(words)
        self.claims: list[Relation] = []
        self.straight: list[int] = []  # numbers of the claims that are said to be just so
        self.absences: list[Absence] = []
        self.negated = self.hedged = False
        self.new_count = 0
        self.unknown = False  # whether something was said that isn't understood
        self.last_pending: list[Token] = []  # the directions of the last relation
        self.used = 0  # how many of the directions that are said are in a relation, or are those of a move

    def emit(self, subjects: tuple[Mention, ...], directions: list[Token], others: tuple[Mention, ...]) -> None:
        """Relation of each subject that it is at these sides of each of the others."""
        if len(directions) > 1 and subjects and subjects[0].label == "all" and _is_split(directions):
            self.unknown = True  # "boxes: upper left and right": which of them is where isn't said
            return
        said = len(self.claims) + len(self.absences)
        sides: list[list[int | None]] = [[None, None]]
        for token in directions:
            for axis in (0, 1):
                side = token.value[axis]
                if not isinstance(side, int):
                    continue
                if sides[-1][axis] not in (None, side):
                    sides.append([None, None])
                sides[-1][axis] = side
        for vertical, horizontal in sides:
            if vertical is None and horizontal is None:
                continue
            for subject in subjects:
                for other in others:
                    known = len(self.claims)
                    self._claim(subject, other, vertical, horizontal)
                    if len(directions) == 1 and directions[0].strict:
                        self.straight += range(known, len(self.claims))
        if directions is not self.last_pending and len(self.claims) + len(self.absences) > said:
            self.used += len([token for token in directions if is_side(token)])

    def _claim(self, subject: Mention, other: Mention, vertical: int | None, horizontal: int | None) -> None:
        if subject == other or len(self.claims) > MAX_CLAIMS:
            return
        if subject.label == "none":
            if other.kind == "player":
                self.absences.append(Absence(subject.kind, vertical, horizontal))
                self.used += 1
            return
        if subject.label == "some":
            self.new_count += 1
            subject = Mention(subject.kind, f"a:{self.new_count}:")
        if other.label == "some":
            self.new_count += 1
            other = Mention(other.kind, f"a:{self.new_count}:")
        if RANK[subject.kind] < RANK[other.kind]:
            subject, other = other, subject
            vertical, horizontal = (None if side is None else -side for side in (vertical, horizontal))
        self.claims.append(Relation(subject, other, vertical, horizontal, self.negated, self.hedged))


def is_side(token: Token) -> bool:
    """Whether it is a direction, other than nearness and the same cell, or a word that needs one."""
    return token.kind == "between" or (
        token.kind in ("direction", "loose") and token.value not in ((None, None), (0, 0))
    )


def _is_split(directions: list[Token]) -> bool:
    """Whether something is said twice of the rows, or of the columns."""
    return any([direction.value[axis] for direction in directions].count(None) < len(directions) - 1 for axis in (0, 1))
