"""Relations of the documented English: directions, distances, shared rows, places on the board.

relation = part {[and | comma] part} [[of] thing]
part     = [number unit] direction | direction [number unit] | "same row" | "same column" | "next to" | "on" | region
region   = "top row" | "bottom right corner" | "second row" | "row 3" …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vagen_rewards.reader.things import Mention, Things

Region = tuple[tuple[str, Any], ...]
"""Pairs such as ("row", "first"), ("column", 3) and ("cell", (1, 2))."""

_GO_ON = (
    "in",
    "exactly",
    "direction",
    "number",
    "near",
    "same_row",
    "same_column",
    "approx",
    "region",
)
_FIXED: dict[str, set[str]] = {
    "same_row": {"row"},
    "same_column": {"column"},
    "here": {"here"},
    "near": set(),
}
_ON = ("on", "at", "in", "inside", "onto", "on top of", "occupies")
AXES = {
    "up": ("row", -1),
    "down": ("row", 1),
    "under": ("row", 2),
    "left": ("column", -1),
    "right": ("column", 1),
}
"""The axis and the sign of each direction; observers differ about "under"."""


def ends_of(ways: Sequence[str]) -> Region:
    """Directions such as "top left" as a place on the board; "ahead" is none."""
    steps = [AXES[step] for step in " ".join(ways).split() if step in AXES]
    return tuple([(axis, "first" if sign < 0 else "last") for axis, sign in steps])


@dataclass
class Relation:
    """Where something is."""

    ways: list[str] = field(default_factory=list)  # directions, in the order of the text
    counts: dict[str, int] = field(
        default_factory=dict
    )  # the distance along each direction, in cells
    units: dict[str, str] = field(default_factory=dict)  # the unit of each distance
    far: float | None = None  # metres
    same: set[str] = field(default_factory=set)  # `row`, `column` or `here` (both)
    near: bool = False  # "next to"
    exact: bool = False  # "directly"
    adjacent: bool = False  # "in the cell to the right"
    other: Mention | None = None  # what it is seen from; `None` if that isn't named
    viewer: bool = False  # seen from the player, as in "to my left"
    region: Region = ()  # a place on the board
    loose: bool = False  # observers differ about its middle, as of "the upper part"
    at: bool = False  # the direction may be a place on the board, as in "at the top left"
    to: bool = False  # it isn't, as in "to the lower right"
    sided: bool = False  # it may be one, as in "on the left side"
    apart: int = 0  # the distance in cells, without a direction
    ends: tuple[Mention, ...] = ()  # the two things that it is between
    also: tuple[
        Mention, ...
    ] = ()  # what else it is seen from, as in "above the player and the target"

    def copy(self) -> Relation:
        """One that stays as it is when this one is read further."""
        own = {
            "ways": [*self.ways],
            "counts": {**self.counts},
            "units": {**self.units},
            "same": {*self.same},
        }
        return Relation(**{**self.__dict__, **own})

    def become(self, other: Relation) -> bool:
        """Take back what was read since."""
        self.__dict__.update(other.__dict__)
        return False


class Phrases(Things):
    """Reads relations from words by recursive descent."""

    def relation(self) -> Relation | None:
        """Read a relation with the thing that it is seen from; `None` if there is none."""
        relation, read = Relation(), False
        while not (read and self.beside and self.ahead(self.skip_beside)):
            here, before = self.at, relation.copy() if read else relation
            comma = (
                read
                and not (self.single or self.looking)
                and self.take("comma")
                and not self.take("and")
            )
            if read and not (comma or self.single):
                self.take("and")
            done = self._part(relation)
            another = comma and len(relation.ways) > len(before.ways) > 0
            if another and (
                before.ways[0].startswith("corner") or (relation.counts and not before.counts)
            ):
                done = relation.become(
                    before
                )  # "to the right, one cell above the box" are two relations
            if not done:
                self.at = here
                break
            read = True
        if not read:
            return None
        if (
            relation.other is None
            and not relation.viewer
            and not (relation.region and not relation.ways)
        ):
            here = self.at
            self.take("of")
            group = self._group() if self.take("whole") and self.kind() != "thing" else []
            relation.other, relation.also = group[0] if group else self.thing(), tuple(group[1:])
            after = self.words[self.at - 1]
            if relation.other and relation.other.plural and relation.same == {"here"}:
                relation.other = relation.other._replace(plural=False)  # "on targets"
            if relation.other is None:
                self.at = here
            elif relation.other.plural or (
                self.kind() in ("be", "will", "exists", "comma") and after.span == (0, 0)
            ):
                return None
        here = self.at
        if (
            relation.viewer and (self.thing() or Mention("")).kind != "player"
        ):  # "two to my right, one above me"
            self.at = here
        self._more(relation)
        return relation

    def skip_beside(self) -> bool:
        """Go past "on the sofa" or "behind the table", which the state doesn't say."""
        here = self.at
        self.take("comma")
        self.skip("filler")
        start = self.at
        while self.kind() in (
            "in",
            "filler",
            "near",
            "vague",
            "here",
            "exactly",
        ) or self._value() in ("back", "ahead"):
            self.at += 1
        thing = self.thing() if self.at > start else None
        return (thing is not None and thing.kind not in ("player", "wall")) or self._back(here)

    def _more(self, relation: Relation) -> None:
        """Read a second part after the other thing, as in "above the player, two columns to the right"."""
        while self.kind() in ("comma", "and", *_GO_ON) and not (self.looking or self.single):
            here, before = self.at, relation.copy()
            seen_from = relation.other or Mention("player")
            if self.kind() in ("comma", "and"):
                self.at += 1
                other = (
                    self.ahead(self.relation) or Relation()
                ).other  # "above me and to the left of the box" are two
                one = bool(self.several) and self.kind() == "number" and self.peek(1) != "unit"
                single = one and self.words[self.at].label == "word"  # "and one to my right"
                if (
                    other
                    and relation.other
                    and (single or other.kind != seen_from.kind)
                    and not other.may_be
                ):
                    self.at = here
                    return
            relation.viewer = False
            read = self._part(relation)
            if relation.viewer:
                read = read and (
                    before.viewer or seen_from.kind == "player"
                )  # not "on the target, to my right"
            else:  # "to my left, next to me"
                self.take("of")
                again = self.thing() if read else None
                read = read and (
                    again is None or bool(again.may_be) or again.kind == seen_from.kind
                )
            self.skip("filler")
            after = next(
                (word.kind for word in self.words[self.at + 1 :] if word.kind != "filler"), ""
            )
            goes_on = self.kind() == "region" or (
                self.kind() == "in" and after in (*_FIXED, "region")
            )
            ends = dict(ends_of(relation.ways))  # not "above me at the bottom of the grid"
            gained = [
                each
                for each in relation.region
                if each not in before.region and isinstance(each[1], str | tuple)
            ]
            clash = [
                place for axis, place in gained if axis == "cell" or ends.get(axis, place) != place
            ]
            read = read and not (ends and clash)
            if not (read and (goes_on or self.kind() in ("", "comma", "and", "but", "be"))):
                relation.become(before)
                self.at = here
                return
            relation.other, relation.viewer = before.other, before.viewer
            relation.at, relation.to, relation.sided = before.at, before.to, before.sided

    def _part(self, relation: Relation) -> bool:
        here = self.at
        on = about = False
        while self.kind() in ("in", "filler", "exactly", "mine", "approx"):
            word = self.words[self.at]
            relation.exact = relation.exact or word.kind == "exactly"
            relation.adjacent |= (
                word.value in ("immediately", "immediate", "just") and self.peek(1) != "number"
            )
            on = word.value in _ON if word.kind == "in" else on
            about = about or word.kind == "approx"
            relation.to = relation.to or word.value in ("to", "towards", "toward")
            relation.at = relation.at or word.value in ("at", "in", "on")
            if word.kind == "mine" and not self._viewed(relation):
                return self._back(here)
            self.at += 1
        kind = self.kind()
        if (
            (relation.viewer or relation.other)
            and kind == "unit"
            and self._value() in ("row", "column")
        ):  # "in my row"
            relation.same.add(self._value())
            self.at += 1
            return True
        if (
            kind in ("cell", "unit")
            and self._value() not in ("row", "column")
            and self.peek(1) in ("in", "of", "direction", "exactly")
        ):
            self.at += 1
            relation.adjacent = relation.exact = True
            return self._part(relation) or self._back(here)
        if kind in ("region", "same_row", "same_column", "unit") and self._region(relation):
            return True
        alone = self._value() in ("row", "column") or (
            self._value() == "position" and self._before() != "the"
        )
        if kind in _FIXED and (not alone or (relation.viewer and kind != "here")):
            self.at += 1
            relation.near = relation.near or kind == "near"
            relation.same |= _FIXED[kind]
            return True
        if kind == "number":
            return self._distance(relation, here, about)
        if kind == "direction":
            self._direction(relation, None, "")
            return True
        if on and kind in ("thing", "pronoun") and not relation.ways:
            relation.same.add("here")  # "the box is on the target"
            return True
        return self._back(here)

    def _viewed(self, relation: Relation) -> bool:
        """Take "my" or "its" as what the thing is seen from."""
        relation.viewer = self.words[self.at].value not in ("its", "their")
        relation.other = None if relation.viewer else self._meant("it")
        return relation.viewer or relation.other is not None

    def _region(self, relation: Relation) -> bool:
        """Read "bottom right corner", "second row" or "row 3", and "of the board" after it."""
        word = self.words[self.at]
        axis = str(word.value) if word.kind in ("unit", "same_row", "same_column") else ""
        if word.kind == "region":
            found = word.value
            self.at += 1
        elif axis in ("row", "column") and self.peek(1) == "number":
            found = ((axis, str(int(self.words[self.at + 1].value))),)  # counted from 0 or from 1
            self.at += 2
        else:
            return False
        relation.region += found
        self.at += self._value() == "boardwise"
        if (
            self.kind() == "of" and "region" in self.kinds[self.at + 1 : self.at + 3]
        ):  # "at the left edge of the top row"
            self.at += 1
            self.skip("filler")
        return True

    def _distance(self, relation: Relation, here: int, about: bool) -> bool:
        number, unit = self.words[self.at].value, ""
        self.at += 1
        if self.kind() == "unit":
            unit = self.words[self.at].value
            self.at += 1
        after, is_one = self.at, self.words[self.at - 1].label == "word" and number == 1
        while self.kind() in ("filler", "in", "exactly", "mine"):
            if self.several and is_one and self.kind() in ("filler", "exactly"):
                return self._back(here)  # "one straight above" is one of several
            if self.kind() == "mine" and not self._viewed(relation):
                return self._back(here)
            self.at += 1
        if unit == "metre":
            self.take("side")
            relation.far = float(number)
            return True
        if about or number != int(number):
            return self._back(here)
        if self.kind() == "direction":
            self._direction(relation, int(number), unit)
            return True
        self.at = after
        self.skip("filler")
        if relation.ways and (
            self.take("side") or (unit and self.kind() in ("", "comma", "and", "but"))
        ):
            # "to the right, two tiles away"
            return self._away(relation, int(number), unit) or self._back(here)
        if unit == "any" and self._value() in ("away", "distant") and self.take("side"):
            relation.apart = int(number)
            return True
        return self._back(here)

    def _away(self, relation: Relation, number: int, unit: str) -> bool:
        """Take a distance that follows its direction; one cell away on a diagonal is one along both axes."""
        ways = [step for way in relation.ways for step in way.removeprefix("corner ").split()]
        along = [
            way
            for way in ways
            if unit not in ("row", "column") or AXES.get(way, ("", 0))[0] == unit
        ]
        if (
            (len(along) > 1 and number != 1)
            or not along
            or not relation.counts.keys().isdisjoint(along)
        ):
            return False
        relation.ways = ways
        relation.counts |= dict.fromkeys(along, number)
        relation.units |= dict.fromkeys(along, unit)
        return True

    def _direction(self, relation: Relation, number: int | None, unit: str) -> None:
        way = self.words[self.at].value
        self.at += 1
        relation.ways.append(way)
        said = set[str]()
        while self.kind() == "side":
            said.add(self._value())
            self.at += 1
        relation.sided |= not said.isdisjoint(("side", "area", "part", "region"))
        relation.to |= "direction" in said
        placed = (
            "boardwise" in said
            and (relation.at or relation.sided)
            and not relation.to
            and number is None
        )
        corner, ends = "corner" in said, ends_of([way])
        if ends and (
            placed
            or "here" in relation.same
            or (corner and not relation.viewer and self.kind() != "of")
        ):
            relation.ways.pop()
            relation.region += ends
            relation.loose = not corner
            return
        if number is not None:
            relation.counts[way], relation.units[way] = number, unit
