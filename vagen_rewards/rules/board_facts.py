"""What is claimed about a board, as facts that hold of a state or don't."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vagen_envs.grid import Position
from vagen_rewards.rules.counting import fits, is_present, sides_of
from vagen_rewards.rules.places import Said, Things
from vagen_rewards.rules.readings import Claim, Fact, Reading
from vagen_rewards.rules.relations import Absence, Placed, Relation, Relations
from vagen_rewards.scores import Span


def things_of(state: Any) -> Things:
    """Where things are, by kind; the player is the first and the one of its kind."""
    if state.kind == "sokoban":
        return {"player": (state.player,), "box": state.boxes, "target": state.targets}
    return {"player": (state.player,), "target": (state.target, *state.more_targets), "hole": state.holes}


def size_of(state: Any) -> Position:
    """Rows and columns."""
    return (state.height, state.width) if state.kind == "sokoban" else state.shape


@dataclass(frozen=True, slots=True)
class Side:
    """Some (or all) things of a kind stand at this side of some (or all) of another.

    Attributes:
        vertical: -1 above, 1 below, 0 same row, `None` unsaid.
        horizontal: -1 left, 1 right, 0 same column, `None` unsaid.
    """

    subject: str
    all_subjects: bool
    other: str
    all_others: bool
    vertical: int | None
    horizontal: int | None
    negated: bool = False
    hedged: bool = False

    def holds(self, state: Any) -> bool:
        """Whether some assignment of the words to things makes it so."""
        if self.hedged:
            return False
        things = things_of(state)
        some, others = things.get(self.subject, ()), things.get(self.other, ())
        over, over_others = all if self.all_subjects else any, all if self.all_others else any
        apart = self.subject == self.other  # a box stands at no side of itself, but a box and a target share a place
        return bool(some and others) and over(
            [
                over_others(
                    [fits(self, sides_of(at, other)) != self.negated for other in others if not (apart and other == at)]
                )
                for at in some
            ]
        )


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is none of a kind at this side of the player, or at all."""

    subject: str
    vertical: int | None
    horizontal: int | None

    def holds(self, state: Any) -> bool:
        """Whether there is none."""
        return not is_present(things_of(state), Absence(self.subject, self.vertical, self.horizontal))


@dataclass(frozen=True, slots=True)
class At:
    """A thing of this kind is in this row and column, counted from 0; or the board has this `size`.

    Attributes:
        any_base: whether they may as well be counted from 1.
    """

    subject: str
    place: Position
    any_base: bool = False

    def holds(self, state: Any) -> bool:
        """Whether one is there."""
        if self.subject == "size":
            return self.place == size_of(state)
        places = things_of(state).get(self.subject, ())
        row, column = self.place
        return self.place in places or (self.any_base and (row - 1, column - 1) in places)


def facts_of(read: Relations) -> Reading:
    """The claims of sentences."""
    facts: list[Fact] = [
        *map(_side, read.claims),
        *[Nothing(*each) for each in read.absences],
        *map(placed_at, read.placed),
    ]
    claims = [Claim(span, fact) for span, fact in zip(read.spans, facts, strict=True)]
    claims += [Claim(span, fact) for fact, span in read.neighbours]
    return Reading(tuple(claims), read.unread, read.matters)


def _side(claim: Relation) -> Side:
    (kind, label), (other, other_label), vertical, horizontal, negated, hedged = claim
    return Side(kind, label == "all", other, other_label == "all", vertical, horizontal, negated, hedged)


def placed_at(said: Placed) -> At:
    """What a sentence says of a row and a column, as a fact."""
    (row, column), base = said.place, said.base or 0
    return At(said.kind, (row - base, column - base), said.base is None)


def exact_facts(said: Said, span: Span) -> Reading:
    """The claims of a grid or a dictionary."""
    places, size = said
    facts = [At(kind, place) for kind, each in places.items() for place in each]
    if size is not None:
        facts.append(At("size", size))
    return Reading(tuple([Claim(span, fact) for fact in facts]))
