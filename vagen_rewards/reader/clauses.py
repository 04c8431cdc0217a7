"""Clauses of the documented English: a thing, its relations and distances, another thing (docs/judges.md).

The grammar, where [] may be left out and {} repeats:

    sentence  = clause {connector clause}
    clause    = [exists] things [be | comma] relation | relation [comma] [exists | be] thing
    things    = thing {and thing}
    relation  = part {[and | comma] part} [[of] thing]
    part      = [number unit] direction | direction [number unit] | "same row" | "same column" | "next to" | "on"

Everything must be read from one connector to the next. A clause in which anything else stands isn't read, nor is a
sentence that hedges, denies, asks or supposes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from vagen_rewards.reader.words import Word
from vagen_rewards.spans import Part, Span

_SKIPPED = ("filler",)
_BREAKS = ("and", "comma", "but", "with")
_STARTS = ("direction", "number", "same_row", "same_column", "near", "here", "exactly", "mine", "in")


class Mention(NamedTuple):
    """A thing as a clause names it. `label` tells several of a kind apart; empty for "the box"."""

    kind: str
    label: str = ""
    plural: bool = False


@dataclass
class Relation:
    """Where something is.

    Attributes:
        ways: directions, in the order of the text.
        counts: the distance along each direction, in cells.
        far: metres, or cells without a direction.
        same: `row`, `column` or `here` (both).
        near, exact, adjacent: "next to"; "directly"; "in the cell to the right".
        other: the thing that it is seen from; `None` if that isn't named.
    """

    ways: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    far: float | None = None
    same: set[str] = field(default_factory=set)
    near: bool = False
    exact: bool = False
    adjacent: bool = False
    other: Mention | None = None
    viewer: bool = False


class Stated(NamedTuple):
    """One thing's relation, as a clause states it."""

    subject: Mention
    relation: Relation
    span: Span


class Parsed(NamedTuple):
    """Clauses of a text, and spans that weren't read, with whether they name things and places."""

    stated: list[Stated]
    unread: list[tuple[Span, bool]]


def parse(words: list[Word], part: Part) -> Parsed:
    """Parse all sentences of a text."""
    parsed, sentence = Parsed([], []), list[Word]()
    for word in [*words, Word("end", ".", (0, 0))]:
        if word.kind != "end":
            sentence.append(word)
        elif sentence:
            _Sentence(sentence, part, parsed).read()
            sentence = []
    return parsed


class _Sentence:
    """Parses one sentence by recursive descent; `at` is the next word."""

    def __init__(self, words: list[Word], part: Part, parsed: Parsed) -> None:
        if part == "world_modeling" and words[0].value in ("after", "once", "when"):
            # "Once I move, …" speaks of the time that a prediction speaks of anyway.
            cut = next((i for i, word in enumerate(words) if word.value == ","), -1)
            words = words[cut + 1 :] or words
        while words and words[0].kind == "comma":  # a bullet
            words = words[1:]
        self.words, self.part, self.parsed = words, part, parsed
        self.at = 0
        self.names = 0

    def read(self) -> None:
        if not self.words:
            return
        kinds = {word.kind for word in self.words}
        if kinds & {"hedge", "no", "relative"} or (self.part == "grounding" and "will" in kinds):
            self._leave(0)
            return
        subject: list[Mention] = []
        other: Mention | None = None
        while self.at < len(self.words):
            start = self.at
            while self._kind() in _BREAKS:
                self.at += 1
            begin, before = self.at, len(self.parsed.stated)
            if begin == len(self.words):
                return
            found = self._clause(subject, other)
            if found is None or (self.at < len(self.words) and self._kind() not in _BREAKS):
                del self.parsed.stated[before:]
                self._leave(start if found is None else begin)
                return
            subject, other = found

    def _leave(self, start: int) -> None:
        left = self.words[start:]
        kinds = {word.kind for word in left}
        placed = kinds & {"direction", "same_row", "same_column", "near", "here", "in", "number", "be", "will"}
        matters = bool(placed) and "thing" in kinds and "plan" not in kinds
        self.parsed.unread.append(((left[0].span[0], left[-1].span[1]), matters))

    # -- clauses -----------------------------------------------------------------------------------

    def _clause(self, before: list[Mention], seen_from: Mention | None) -> tuple[list[Mention], Mention | None] | None:
        start = self.at
        self._take("exists")
        subjects = self._things()
        if subjects:
            relation = self._after(subjects)
        else:
            self.at = start
            relation = self._relation()
            if relation is None:
                return None
            here = self.at
            self._take("comma")
            self._take("exists") or self._take("be") or self._take("will")
            thing = self._thing()
            subjects = [thing] if thing is not None else []
            if not subjects:
                self.at, subjects = here, before
                if relation.other is None:
                    relation.other = seen_from
        if relation is None or not subjects:
            return None
        span = (self.words[start].span[0], self.words[self.at - 1].span[1])
        self._state(subjects, relation, span)
        return subjects, relation.other

    def _after(self, subjects: list[Mention]) -> Relation | None:
        """The relation that follows its subjects."""
        self._take("be") or self._take("will") or self._take("comma")
        if len(subjects) > 1 and self._kind() not in ("direction", "number", "exactly"):
            here = self.at
            relation = self._relation()
            if relation is not None and relation.same and relation.other is None and len(subjects) == 2:
                relation.other = subjects.pop()  # "the player and the box are in the same row"
                return relation
            self.at = here
        return self._relation()

    def _state(self, subjects: list[Mention], relation: Relation, span: Span) -> None:
        for subject in subjects:
            self.parsed.stated.append(Stated(subject, relation, span))

    def _things(self) -> list[Mention]:
        found: list[Mention] = []
        while True:
            here = self.at
            if found and not (self._take("and") or self._take("comma")):
                return found
            thing = self._thing()
            if thing is None:
                self.at = here
                return found
            found.append(thing)

    def _thing(self) -> Mention | None:
        here, number, another = self.at, None, False
        while self._kind() in ("filler", "another", "number"):
            word = self.words[self.at]
            another = another or word.kind == "another"
            number = word.value if word.kind == "number" else number
            self.at += 1
        if self._kind() != "thing":
            self.at = here
            return None
        word = self.words[self.at]
        article = self.words[self.at - 1].value if self.at else ""
        self.at += 1
        label = word.label
        if self._kind() == "number" and not label and self._peek(1) not in ("unit", "comma"):
            label = str(self.words[self.at].value)  # "box 1"
            self.at += 1
        if not label and (another or article in ("a", "an") or number == 1):
            self.names += 1
            label = f"a{self.names}"
        if number not in (None, 1):
            self.at = here
            return None  # "two holes are above": which relation holds of how many isn't read
        return Mention(word.value, label, word.plural and not another)

    # -- relations ---------------------------------------------------------------------------------

    def _relation(self) -> Relation | None:
        relation, read = Relation(), False
        while True:
            here = self.at
            if read:
                self._take("and") or self._take("comma")
            if not self._part(relation):
                self.at = here
                break
            read = True
        if not read:
            return None
        if relation.other is None and not relation.viewer:
            here = self.at
            self._take("of")
            relation.other = self._thing()
            after = self.words[self.at - 1]
            if relation.other is None:
                self.at = here
            elif relation.other.plural or (self._kind() in ("be", "will", "exists", "comma") and after.span == (0, 0)):
                return None
        self._more(relation)
        return relation

    def _more(self, relation: Relation) -> None:
        """Read a second part after the other thing, as in "above the player, two columns to the right"."""
        while self._kind() in ("comma", "and", "in", "exactly", "direction", "number"):
            here = self.at
            self.at += self._kind() in ("comma", "and")
            extra = Relation(ways=list(relation.ways), counts=dict(relation.counts), units=dict(relation.units))
            if not self._part(extra) or self._kind() not in ("", "comma", "and", "but"):
                self.at = here
                return
            relation.ways, relation.counts, relation.units = extra.ways, extra.counts, extra.units
            relation.same |= extra.same
            relation.far = extra.far if relation.far is None else relation.far
            relation.exact, relation.near = relation.exact or extra.exact, relation.near or extra.near

    def _part(self, relation: Relation) -> bool:
        here = self.at
        on = False
        while self._kind() in ("in", "filler", "exactly", "mine"):
            word = self.words[self.at]
            relation.exact = relation.exact or word.kind == "exactly"
            on = word.value == "on" if word.kind == "in" else on
            if word.kind == "mine":
                relation.viewer = True
            self.at += 1
        kind = self._kind()
        if kind in ("cell", "unit") and self._peek(1) in ("in", "of", "direction", "exactly"):
            self.at += 1
            relation.adjacent = relation.exact = True
            return self._part(relation) or self._back(here)
        if kind in ("same_row", "same_column", "here", "near"):
            return self._fixed(relation, here, kind)
        if kind == "number":
            return self._distance(relation, here)
        if kind == "direction":
            self._direction(relation, None, "")
            return True
        if on and kind == "thing" and not relation.ways:
            relation.same.add("here")  # "the box is on the target"
            return True
        return self._back(here)

    def _fixed(self, relation: Relation, here: int, kind: str) -> bool:
        word, previous = self.words[self.at], self.words[self.at - 1].value if self.at else ""
        if kind in ("same_row", "same_column") and word.value in ("row", "column") and not relation.viewer:
            return self._back(here)  # "row 3"
        if kind == "here" and word.value == "position" and previous != "the":
            return self._back(here)
        self.at += 1
        if kind == "near":
            relation.near = True
        else:
            relation.same.add({"same_row": "row", "same_column": "column", "here": "here"}[kind])
        return True

    def _distance(self, relation: Relation, here: int) -> bool:
        number, unit = self.words[self.at].value, ""
        self.at += 1
        if self._kind() == "unit":
            unit = self.words[self.at].value
            self.at += 1
        while self._kind() in ("filler", "in", "exactly"):
            self.at += 1
        if unit == "metre":
            self._take("side")
            relation.far = float(number)
            return True
        if number != int(number):
            return self._back(here)
        if self._kind() == "direction":
            self._direction(relation, int(number), unit)
            return True
        if self._take("side") and relation.ways:  # "to the right, two tiles away"
            way = relation.ways[-1]
            if len(relation.ways) == 1 and " " not in way and way not in relation.counts:
                relation.counts[way] = int(number)
                return True
        return self._back(here)

    def _direction(self, relation: Relation, number: int | None, unit: str) -> None:
        way = self.words[self.at].value
        self.at += 1
        relation.ways.append(way)
        while self._kind() == "side":
            self.at += 1
        if number is None and self._kind() == "number":
            behind = 2 if self._peek(1) == "unit" else 1
            if self._peek(behind) not in ("direction", "in", "exactly", "filler", "side", "unknown", "thing"):
                number = int(self.words[self.at].value)
                unit = self.words[self.at + 1].value if behind == 2 else ""
                self.at += behind
        if number is not None:
            relation.counts[way], relation.units[way] = number, unit

    # -- words -------------------------------------------------------------------------------------

    def _kind(self) -> str:
        return self.words[self.at].kind if self.at < len(self.words) else ""

    def _peek(self, ahead: int) -> str:
        return self.words[self.at + ahead].kind if self.at + ahead < len(self.words) else ""

    def _take(self, kind: str) -> bool:
        here = self.at
        while self._kind() == "filler":
            self.at += 1
        if self._kind() == kind:
            self.at += 1
            while self._kind() == "filler" and kind != "thing" and self.words[self.at].value not in ("a", "an", "the"):
                self.at += 1
            return True
        self.at = here
        return False

    def _back(self, here: int) -> bool:
        self.at = here
        return False
