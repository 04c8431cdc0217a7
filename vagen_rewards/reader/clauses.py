"""Clauses of the documented English: a thing, its relations and distances, another thing (docs/judges.md).

The grammar, where [] may be left out and {} repeats; `relations` has the rest of it:

    sentence  = clause {connector clause}
    clause    = [exists] things [be | comma] relation | relation [comma] [exists | be] thing
    things    = thing {and thing}

Everything must be read from one connector to the next. A clause in which anything else stands isn't read, nor is a
sentence that hedges, denies, asks or supposes. Reading goes on where a clause with a subject and a verb begins.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import NamedTuple

from vagen_rewards.reader.claims import Part, Span
from vagen_rewards.reader.relations import Phrases, Relation
from vagen_rewards.reader.things import ALL, Mention
from vagen_rewards.reader.words import Word, lexicon

_MOVERS = ("player", "box", "it")
_BREAKS = ("and", "comma", "but", "with", "relative")
_LISTED = ("comma", "be", "exactly", "direction")
_VERBS = ("be", "will")
_PLACES, _WHERE, _PLANNED = [
    frozenset(lexicon()["kinds"][use]) for use in ("places", "where", "planned")
]


class Stated(NamedTuple):
    """One thing's relation, as a clause states it."""

    subject: Mention
    relation: Relation
    span: Span
    total: int = (
        0  # as many of its kind there are, as in "there are two holes"; 0 if that isn't stated
    )


class Parsed(NamedTuple):
    """Clauses of a text, and spans that weren't read, with whether they name things and places."""

    stated: list[Stated]
    unread: list[tuple[Span, bool]]


def parse(words: list[Word], part: Part, *, beside: bool = False) -> Parsed:
    """Parse all sentences of a text; `beside`: go past what things are on, under or near."""
    parsed, sentence, known, topic = Parsed([], []), list[Word](), list[Mention](), list[Mention]()
    several, begin, named = "", 0, {word.label for word in words if word.value == "player"}
    words = [word._replace(label="") if word.label in ("me", "my") else word for word in words]
    if any(word.kind == "correction" for word in words):  # what it takes back isn't sure
        return Parsed([], [((words[0].span[0], words[-1].span[1]), True)])
    for word in [*words, Word("end", ".", (0, 0))]:
        if word.kind != "end" and not (word.value == ":" and _is_heading(sentence)):
            sentence.append(word)
        elif sentence:
            reader = _Sentence(sentence, part, parsed, known, several)
            reader.topic, reader.beside, reader.begin = topic, beside, begin
            reader.first_person = {"me"} <= named <= {"me", "my"}
            reader.read()
            begin = len(known) if word.kind == "end" else begin  # "Box: …" is one sentence
            several, sentence = reader.several, []
    return parsed


def _is_heading(words: list[Word]) -> bool:
    """Whether words before a colon say nothing of where things are, as in "The agent's surroundings:"."""
    places = _PLACES - {"in", *_VERBS}
    named = bool(words) and words[-1].kind in (
        "thing",
        "number",
        "another",
        "pronoun",
        "side",
        "here",
    )
    return bool(words) and not named and all(word.kind not in places for word in words)


def _is_plan(words: list[Word]) -> bool:
    """Whether words only say what to do, as in "so I need to push the box left", and nothing of where things are."""
    first = next((i for i, word in enumerate(words) if word.kind == "plan"), len(words))
    if first == len(words):
        return False
    kinds = {word.kind for word in words[first:]}
    mine = [
        word
        for word, after in zip(words, [*words[1:], None], strict=True)
        if after and after.kind == "plan"
    ]
    others = [word.value for word in words[first:] if word.kind == "thing" and word not in mine]
    begins = all(
        word.kind in ("filler", "no", "pronoun", *_BREAKS) or word.value in _MOVERS
        for word in words[:first]
    )
    named = len(others) > 1 or not (
        {"player", "hole"}.isdisjoint(others) or kinds.isdisjoint(_WHERE)
    )
    named = named or (
        "direction" in kinds and any(near in str(words[first].value) for near in ("close", "near"))
    )
    return begins and not named and kinds <= _PLANNED


class _Sentence(Phrases):
    """Parses one sentence."""

    def __init__(
        self, words: list[Word], part: Part, parsed: Parsed, known: list[Mention], several: str
    ) -> None:
        if (
            part == "world_modeling"
        ):  # "Once I move, …" speaks of the time that a prediction speaks of anyway
            words = [word for word in words if word.kind != "later"]
        while words and words[0].kind == "comma":  # a bullet
            words = words[1:]
        # What to do at the end is left out, as in ", so I can't go straight up", whatever it denies.
        starts = [i for i, word in enumerate(words) if word.kind in _BREAKS and _is_plan(words[i:])]
        if starts:
            parsed.unread.append(((words[starts[0]].span[0], words[-1].span[1]), False))
        super().__init__(words[: starts[0]] if starts else words, known)
        self.part, self.parsed, self.several = part, parsed, several
        self.seen_from: Mention | None = None

    def read(self) -> None:
        """Read its clauses."""
        reasons = [
            i
            for i, kind in enumerate(self.kinds)
            if i and kind == "but" and _is_plan(self.words[:i])
        ]
        if reasons:  # "I can't go left because"
            self._leave(0, reasons[0])
            self.at = reasons[0]
        kinds = set(self.kinds[self.at :])
        if kinds & {"hedge", "no"} or (self.part == "grounding" and kinds & {"will", "later"}):
            self._leave(self.at, len(self.words))
            return
        self._take_viewpoint()
        subjects: list[Mention] = []
        other: Mention | None = None
        while self.at < len(self.words):
            start = self.at
            self.skip(*_BREAKS)
            relative = self.at > start and self.kinds[self.at - 1] == "relative"
            begin, before = self.at, len(self.parsed.stated)
            if begin == len(self.words):
                return
            if relative:
                found = self._relative(start)
            else:
                found = (
                    self._listed() if self.ahead(self._is_listed) else self._clause(subjects, other)
                )
            self.skip("filler")
            if found is not None and self.beside:
                self.skip_beside()
            if found is not None and self.kind() in ("", "exactly", "near", *_BREAKS):
                subjects, other = found
                continue
            del self.parsed.stated[before:]
            self.at = self._next_clause(max(begin, start + 1))
            end, self.at = self.at, begin
            self._leave(start if found is None else begin, end)
            mine = Mention("player") if self.kind() == "plan" else None  # "I move up and"
            subjects, other = [named] if (named := self.thing() or mine) else [], None
            self.at = end

    def _take_viewpoint(self) -> None:
        """Read "From my position," or "Relative to the box," at the beginning."""
        here = self.at
        self.seen_from = self.thing() if self.take("of") else None
        self.at = self.at if self.seen_from else here
        self.take("comma")

    def _leave(self, start: int, end: int) -> None:
        left = self.words[start:end]
        named_here = [
            Mention(word.value, word.label, word.plural) for word in left if word.kind == "thing"
        ]
        self.known.extend(named_here)  # a later "it" may stand for them
        self.topic[:] = named_here[:1] or self.topic
        kinds = {word.kind for word in left}
        named = any(
            word.kind == "thing" and word.value not in ("player", "wall", "free") for word in left
        )
        alone = {"relative"}.issuperset(
            word.kind for word in self.words[end : end + 2] if word.kind != "comma"
        )
        named = named and not (
            alone and end < len(self.words) and kinds <= {"thing", "filler", *_BREAKS}
        )
        matters = (named or bool(kinds & _WHERE)) and not _is_plan(left)
        self.parsed.unread.append(((left[0].span[0], left[-1].span[1]), matters))

    def _next_clause(self, start: int) -> int:
        """Where the next clause begins that has a subject and a verb of its own, or a relative clause."""
        for i in range(start, len(self.words)):
            if self.words[i].kind in _BREAKS and self.words[i - 1].kind not in _BREAKS:
                self.at = i
                named = not {"thing", "plan"}.isdisjoint(self.kinds[start - 1 : start + 2])
                if self.ahead(functools.partial(self._begins, named)):
                    return i
        return len(self.words)

    def _begins(self, named: bool) -> bool:
        """Whether a clause begins; one without a subject does after a thing, as in "the box moves down and is"."""
        relative = self.kind() == "comma" and self.peek(1) == "relative"
        self.skip(*_BREAKS)
        if (
            relative
            or (named and self.kind() in _VERBS)
            or self.ahead(self._is_listed)
            or self.take("exists")
        ):
            return True
        after = (
            _VERBS
            if self.words[self.at - 1].kind != "with"
            else (*_VERBS, "in", "direction", "number", "exactly")
        )
        return bool(self.things()) and self.kind() in after

    def _clause(
        self, before: list[Mention], seen_from: Mention | None
    ) -> tuple[list[Mention], Mention | None] | None:
        start = self.at
        exists, at, self.subjects = self.take("exists"), self.at, []
        subjects = self.things()
        last = self.beside and len(subjects) == 2 and subjects[1].kind == "target"
        named = last or (len(subjects) == 2 and subjects[0].kind in ("target", subjects[1].kind))
        if named and self.kind() == "comma" and self.peek(1) in _VERBS:
            subjects, self.at = [subjects[not last]], self.at + 1  # "the target, a vase, is"
        self.subjects = subjects
        several = len(subjects) > 1 or any(subject.plural for subject in subjects)
        listed = (
            several
            and self._is_colon()
            and self.peek(1) in ("number", "another", "direction", "exactly", "in")
        )
        alone = listed or (exists and not self.kind())
        if subjects and (
            alone or (exists and self.kind() == "comma" and self.peek(1) == "relative")
        ):
            kind, span = (
                subjects[0].kind,
                (self.words[start].span[0], self.words[self.at - 1].span[1]),
            )
            same = all(subject.kind == kind and not subject.plural for subject in subjects)
            if alone and not self.kind() and same and kind not in ("player", "wall"):
                self.parsed.stated.append(Stated(subjects[0], Relation(), span, len(subjects)))
            return subjects, None  # "there are two holes", "there is a hole, which"
        if subjects:
            if self._is_plain():
                return subjects, None
            relation = self._after(subjects)
        else:
            self.at = at
            if before:
                self._take_verb()
            relation = self.relation()
            if relation is None:
                return None
            here, titled = self.at, self._is_colon()
            self.take("comma")
            if (
                not self.take("exists")
                and self._take_verb()
                and relation.ways
                and start == here - 1
            ):
                relation.adjacent = relation.exact = True  # "right is a hole"
            thing = None if titled else self.thing()
            if (
                thing is not None and thing.plural and len(relation.ways) > 1
            ):  # "above and below me are holes"
                for way in relation.ways:
                    self._state(
                        [self._named(thing.kind)], dataclasses.replace(relation, ways=[way]), start
                    )
                return [thing], relation.other
            subjects = self.things() if titled else [thing] if thing is not None else []
            if not subjects:
                self.at, subjects = here, before
                if relation.other is None and not relation.viewer:
                    relation.other = seen_from
        if relation is None or not subjects:
            return None
        here = self.at
        also = (
            self.thing() if relation.other and self.take("and") else None
        )  # "above the player and the target"
        if also and self.kind() in ("", "comma", "but"):
            relation.also = (also,)
        else:
            self.at = here
        self._state(subjects, relation, start)
        return subjects, relation.other

    def _take_verb(self) -> bool:
        """Go past "is" or "am standing"."""
        here = self.at
        while self.take("be") or self.take("will") or (self.at > here and self.take("whole")):
            pass
        return self.at > here

    def _relative(self, start: int) -> tuple[list[Mention], Mention | None] | None:
        """Read ", which is above me" of the thing that stands before it."""
        before = self.words[start - 1].kind
        named = before in ("thing", "region", "side") and self.words[start].kind == "comma"
        if before == "thing" and (
            not self.known or self.known[-1].kind != self.words[start - 1].value
        ):
            self.known.append(
                Mention(self.words[start - 1].value, self.words[start - 1].label)
            )  # it wasn't read
        if not named or not self.known or not self._take_verb():
            return None
        begin, thing, self.subjects = self.at, self.known[-1], self.known[-1:]
        relation = self.relation()
        if relation is None or thing.plural:
            return None
        self._state([thing], relation, begin)
        return [thing], relation.other

    def _is_plain(self) -> bool:
        """Go past "standing on the ice", which says nothing that matters."""
        here = self.at
        self.take("comma")
        self._take_verb()
        beside = self.beside and self.kind() in ("in", "near", "vague") and self.skip_beside()
        if beside and self.kind() in ("with", "and", "but", ""):
            return True  # "I am next to the sofa"
        self.skip("in", "filler")
        self.at += self._value() == "boardwise"
        plain = self.at > here and any(
            said in self._before() for said in ("not ", "out ", "n't", "boardwise")
        )
        return (plain and self.kind() in ("", *_BREAKS)) or self._back(here)

    def _is_listed(self) -> bool:
        """Whether a list follows, as in "Holes: left, above" or, after "three holes:", "one is left"."""
        several, with_it = bool(self.several), self.words[self.at - 1].kind == "with"
        after = (*_LISTED, "in") if self.take("exists") or with_it else _LISTED
        thing = self.thing()
        plural = (
            thing is not None and thing.plural and self.kind() in after and self.peek(1) != "whole"
        )
        bare = thing is None and several and self.kind() in ("number", "direction")
        entry = itertools.takewhile(
            lambda kind: kind not in ("comma", "but"), self.kinds[self.at :]
        )
        return plural or (
            bare and self.peek(1) not in ("in", "unit") and set(_VERBS).isdisjoint(entry)
        )

    def _listed(self) -> tuple[list[Mention], Mention | None] | None:
        """Read the entries of a list of places."""
        start, exists = self.at, self.take("exists")
        self.thing()
        verb = self.kind() == "be"
        follows = (
            self.take("comma") or self.take("be") or exists or self.words[start - 1].kind == "with"
        )
        if not follows and self.kind() not in _LISTED:
            self.at = start
        parts: list[Relation] = []
        while self.at < len(self.words):
            joined = self.take("comma")
            if parts and not (self.take("and") or joined):
                return None
            if self.kind() == "number" and self._value() == "1" and self.words[self.at].label:
                self.at += 1  # "one above"
            self.single = True
            part = self.relation()
            self.single = False
            if part is None:
                return None
            parts.append(part)
        mention = Mention(
            self.several, ALL
        )  # "the holes are left" are all, "Holes: left" is one of them
        for part in parts:
            mention = mention if verb and len(parts) == 1 else self._named(self.several)
            self._state([mention], part, start)
        return ([mention], parts[-1].other) if parts else None

    def _after(self, subjects: list[Mention]) -> Relation | None:
        """The relation that follows its subjects."""
        if (self.part == "world_modeling" or "will" not in self._value()) and self.take("arrives"):
            reached = self.thing()
            at = Relation(same={"here"}, other=reached)
            self._more(at)
            return at if reached is not None and not reached.plural else None
        here = self.at  # "a clock on the table is to my left"
        if not (self.beside and self.skip_beside() and (self.kind() in _VERBS or self._is_colon())):
            self.at = here
        self._take_verb()
        self.take("comma")
        stated, unread = self.parsed.stated, self.parsed.unread
        if self.take("ditto"):  # "so is the goal"
            sure = stated and (not unread or unread[-1][0] < stated[-1].span)
            return dataclasses.replace(stated[-1].relation) if sure else None
        if self.take("between"):
            return self._between(subjects[0])
        if self.beside and (
            self.kind() in ("in", "near", "vague") or self.words[self.at - 1].kind == "filler"
        ):
            self.skip_beside()
            self.take("comma")
        relation = self.relation()
        if (
            relation
            and len(subjects) == 2
            and not (relation.ways or relation.other or relation.viewer)
        ):
            # "The player and the box are in the same row."
            relation.other = subjects.pop() if relation.same or relation.near else None
        return relation

    def _between(self, subject: Mention) -> Relation | None:
        """Read "me and the box" or "us" after "between"."""
        first, last = self.thing(), self._group(several=False)
        if first is None or first.may_be:
            ends = last  # "in between", "between them"
        elif self.take("and"):
            ends = [first, self.thing() or subject]
        else:
            ends = [first, *[mention for mention in last if mention.kind != "player"][:1]]
        relation = Relation(ends=tuple(ends))
        self._more(relation)
        return relation if len(ends) == 2 else None

    def _state(self, subjects: list[Mention], relation: Relation, start: int) -> None:
        span = (self.words[start].span[0], self.words[self.at - 1].span[1])
        for subject in subjects:
            if not subject.may_be:
                self.topic[:] = [
                    subject,
                    *[other for other in self.topic if other.kind != subject.kind],
                ]
            own = relation.copy()
            if (
                own.other is None
                and self.seen_from
                and not own.viewer
                and subject.kind != self.seen_from.kind
            ):
                own.other = self.seen_from
            last = self.parsed.stated[-1] if self.parsed.stated and not own.ends else None
            pair = [last.subject, last.relation.other or Mention("player")] if last else []
            if own.other is None and not own.viewer and subject.kind in [one.kind for one in pair]:
                others = [
                    one
                    for one in pair
                    if one.kind not in (subject.kind, "player") and not one.plural
                ]
                own.other = (
                    Mention("it", "", False, (*others, Mention("player"))) if others else None
                )
            if own.other is None and subject.kind == "player" and not own.region and not own.ends:
                own.other = self._meant("it")
            self.parsed.stated.append(Stated(subject, own, span))
            for other in relation.also:
                self.parsed.stated.append(
                    Stated(subject, dataclasses.replace(relation, other=other, also=()), span)
                )
