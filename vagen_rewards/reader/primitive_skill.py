"""PrimitiveSkill: coordinates and sides of named things, the gripper and the drawer (VAGEN, appendices C.2 and D.1)."""

from __future__ import annotations

import itertools
import re
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_rewards.reader.claims import Claim, Marks, Part, Reading, Span, Unclear, every
from vagen_rewards.reader.clauses import Stated, parse
from vagen_rewards.reader.relations import Relation
from vagen_rewards.reader.words import Word, lexicon, words_of

TOLERANCE, UNCLEAR, OPEN, NEAR, FAR = 10, 20, 100, 75, 150
"""Millimetres: that a coordinate may be off (the paper's judge gives none; a cube is 40 wide), within which observers
differ about sides, from which on a drawer is open (below a tenth of it, it is shut), and between the middles of things
that are next to each other, and of those that aren't."""

_SIDES = {"left": (1, -1), "right": (1, 1), "front": (0, 1), "behind": (0, -1)}
_GROUPS = ("cubes", "others", "2 others", *[f"{count} cubes" for count in range(2, 7)])
_VAGUE = ("player", "cubes", "targets", "gripper", "table", "picture", "line")
"""Things of which an unread clause says nothing that matters, such as "the gripper is above the table"."""
_MILLIMETRES = {"mm": 1, "mi": 1, "cm": 10, "ce": 10, "m": 1000, "me": 1000}  # by how a unit begins
_PLAIN, _PARENTHESES = str.maketrans("−→§≈", "-: ="), str.maketrans("()", ", ")
_PLACE, _OPENING, _LATEX, _DROPPED = [
    re.compile(lexicon()["primitive_skill"]["patterns"][name], re.IGNORECASE | re.MULTILINE)
    for name in ("place", "opening", "latex", "dropped")
]


class Told(NamedTuple):
    """What a text says of a thing; left is towards -y, the front towards +x."""

    name: str  # the thing, or all cubes of a group such as `2 cubes`
    # `at` coordinates; `on`, `off`, `near` another thing, `over` it ("above", of which observers differ unless it is on
    # it), or on a side of it; `end left` of all others; `between` two; the `top` or `bottom` of a stack, `stacked`,
    # `flat`; `held` by the gripper, which is `empty`; `open` or `shut`
    how: str
    other: str = (
        ""  # the other thing, all other cubes, any of the targets, or a thing that may be meant
    )
    far: float | None = None  # millimetres to that side, or of the opening
    at: tuple[float | None, ...] = ()  # coordinates in millimetres, `None` where they aren't stated
    but: str = ""  # of "the others" the one that isn't meant; of `between` the second thing

    def holds(self, state: Any) -> bool | None:
        """Whether it is so; `None` where observers may differ, or if the state doesn't know the things."""
        if self.name in _GROUPS:
            found = [
                self._replace(name=one).holds(state) for one in _members(state, self.name, self.but)
            ]
            return every(found) if found else None
        if self.other in ("targets", *_GROUPS):
            found = [
                self._replace(other=one).holds(state)
                for one in _members(state, self.other, self.name)
            ]
            some = (self.other, self.how) == ("targets", "on")
            return None if not found else _some(found) if some else every(found)
        if self.how == "empty":
            return not state.held
        if self.how in ("open", "shut"):
            return self._is_open(state.drawer_open_value)
        if self.name not in state.positions:
            return None
        if self.how == "held":
            return bool(state.held == self.name)
        if self.how == "at":
            places = [
                state.positions[name] for name in (self.name, self.other) if name in state.positions
            ]
            return any(
                all(b is None or abs(a - b) <= TOLERANCE for a, b in zip(p, self.at, strict=True))
                for p in places
            )
        if self.how.startswith("end ") or self.how in ("top", "bottom", "stacked", "flat"):
            others = _members(state, "cubes", self.name) or [*{*state.positions} - {self.name}]
            return self._is_outermost(state, others)
        if self.how == "between":
            sides = [
                {self._to(state, side, other) for other in (self.other, self.but)}
                for side in ("left", "front")
            ]
            return (
                True if {True, False} in sides else None if None in sides[0] | sides[1] else False
            )
        return self._to(state, self.how, self.other)

    def _is_open(self, true: int | None) -> bool | None:
        if true is None or self.far is not None:
            return None if true is None else bool(abs(true - (self.far or 0)) <= TOLERANCE)
        return None if OPEN / 10 < true < OPEN else bool((true >= OPEN) == (self.how == "open"))

    def _is_outermost(self, state: Any, others: list[str]) -> bool | None:
        on = _some([self._to(state, "on", one) for one in others])
        under = _some([self._replace(name=one)._to(state, "on", self.name) for one in others])
        if self.how in ("top", "bottom"):
            up, down = (on, under) if self.how == "top" else (under, on)
            return False if down else up
        if self.how in ("stacked", "flat"):
            stacked = _some([on, under])
            return stacked if stacked is None or self.how == "stacked" else not stacked
        side = self.how.removeprefix("end ")
        found = {self._to(state, "left" if side == "middle" else side, one) for one in others}
        if side == "middle" and on and under:
            return True  # of a stack
        if side == "middle":
            return (
                None
                if None in found
                else len(found) == 2 == len(others) or (None if len(found) == 2 else False)
            )
        return (
            found.pop() if len(found) == 1 else None
        )  # the middle one may be on a side of the table

    def _to(self, state: Any, how: str, name: str) -> bool | None:
        """Whether it is so to one other thing."""
        one = state.positions.get(self.name)
        x, y = one[:2] if one else (0, 0)
        other = {**state.positions, "line": (0, y, 0), "table": (x, y, -UNCLEAR)}.get(name)
        if one is None or other is None:
            return None
        if how in _SIDES:
            axis, sign = _SIDES[how]
            far = (one[axis] - other[axis]) * sign
            if self.far is not None and far > 0:
                off = abs(self.far - far)
                return (
                    True
                    if off <= max(UNCLEAR, 0.2 * far)
                    else False
                    if off > max(2 * UNCLEAR, 0.5 * far)
                    else None
                )
            return None if abs(far) < UNCLEAR else far > 0
        off, above = max(abs(one[0] - other[0]), abs(one[1] - other[1])), one[2] - other[2]
        if how == "near":
            return (
                True
                if 2 * UNCLEAR <= off <= NEAR
                else False
                if off >= FAR or off < UNCLEAR
                else None
            )
        on = None  # higher: there may be another between
        if off > 2 * UNCLEAR or above < -TOLERANCE:
            on = False
        elif off <= UNCLEAR and 0 < above <= 3 * UNCLEAR:
            on = True
        return (
            on if how == "on" else (on or None) if how == "over" else None if on is None else not on
        )

    def __str__(self) -> str:
        return " ".join(str(part) for part in self if part not in ("", None, ()))


def _members(state: Any, group: str, but: str) -> list[str]:
    """Names of the cubes of a group, or of the targets; none if they aren't as many."""
    kind = "_target" if group == "targets" else "_cube"
    names = [name for name in state.positions if name.endswith(kind) and name != but]
    return names if not group[0].isdigit() or int(group[0]) == len(names) else []


def _some(verdicts: list[bool | None]) -> bool | None:
    return True if True in verdicts else None if None in verdicts else False


def claims_of(kind: str, text: str, part: Part) -> Reading:
    """Coordinates and sides in sentences, lists or dictionaries, and what the gripper and the drawer do."""
    claims: list[Claim] = []
    read, words = _words(kind, text), list[Word]()
    ends = [i for i, word in enumerate(read) if word.kind == "end"]
    for start, end in itertools.pairwise([-1, *ends, len(read)]):
        sentence = read[start + 1 : end + 1]
        ordered = _ordered(sentence)
        claims += [Claim((sentence[0].span[0], sentence[-1].span[1]), fact) for fact in ordered]
        words += sentence * (not ordered)
    parsed = parse(words, part)
    unread: list[tuple[Span, bool]] = [((0, len(text)), True)] * (
        not read and any(map(str.isalpha, text))
    )
    for span, matters in parsed.unread:
        inside = [word for word in words if span[0] <= word.span[0] < span[1]]
        kinds = [word.kind for word in inside]
        named = {word.value for word in inside if word.kind == "thing"} - {*_VAGUE}
        told = named - {*_GROUPS} or not {"region", "no", "hedge", "correction"}.isdisjoint(kinds)
        planned = (
            "plan" in kinds
            and {"be", "will"}.isdisjoint(kinds[: kinds.index("plan")])
            and "region" not in kinds
        )
        unread.append((span, matters and bool(named and told) and not planned))
    last = ""
    for i, stated in enumerate(parsed.stated):
        facts, span = _facts(stated, last), stated.span
        subject, other = (
            stated.subject.kind,
            stated.relation.other.kind if stated.relation.other else "table",
        )
        last = subject if subject not in (*_GROUPS, *_VAGUE, "it") else last
        if not facts:
            unread.append((span, not stated.total and not {subject, other} <= {*_VAGUE}))
        verbs = {word.kind for word in words if span[0] <= word.span[0] < span[1]} & {"be", "will"}
        if span in [after.span for after in parsed.stated[i + 1 : i + 2]] and not verbs:
            continue  # "I see a drawer and an apple on the right"
        for fact in facts:
            first = claims[-1].key if claims else None  # "between the red and the green one"
            if (
                isinstance(first, Told)
                and first.how == getattr(fact, "how", "") == "between"
                and not first.but
            ):
                claims[-1] = Claim(span, fact._replace(but=first.other))
            else:
                claims.append(Claim(span, fact))
    return Reading.of(claims, unread)


def _words(kind: str, text: str) -> list[Word]:
    """The words of a text, with coordinates as places and lengths in millimetres."""
    places: list[tuple[float | None, ...]] = []

    def keep(match: re.Match[str]) -> str:
        at = match.group(1, 2, 3) if match[1] else (match[4], match[5] or match[6], match[7])
        places.append(tuple([float(number) if number else None for number in at]))
        return "§".ljust(len(match[0]))

    plain = _LATEX.sub(lambda match: f"      {match[1]} ", text.translate(_PLAIN))
    plain = _OPENING.sub(lambda match: f"drawer open {match[1]} mm".ljust(len(match[0])), plain)
    plain = _DROPPED.sub(lambda match: " " * len(match[0]), _PLACE.sub(keep, plain)).translate(
        _PARENTHESES
    )
    found: list[Word] = []
    for word in words_of(kind, plain):
        before, new = found[-1] if found else word, [word]
        scale = _MILLIMETRES.get(plain[slice(*word.span)][:2].lower())
        if word.value == "§":
            new = [Word("region", (("at", places.pop(0)),), word.span)]
        elif word.kind == "unit" and before.kind == "number" and scale:
            found[-1] = before._replace(value=before.value * scale, label="")
            new = [word._replace(value="metre")]
        elif word.value == "targets" and before.value in ("end left", "end right"):
            found[-1] = Word(
                "direction" if plain[before.span[0]] in "oOaA" else "filler", "on", before.span
            )
            new = [word._replace(value=f"{before.value.removeprefix('end ')}_target")]
        elif (
            word.kind == "thing"
            and text[before.span[0]] == "("
            and found[-2:-1]
            and found[-2].kind == "region"
        ):
            new = [word, found[-2]]  # "(1, 2, 3) (red cube)"
            found[-2:] = [Word("end", ".", before.span)]
        elif (
            word.kind == "thing"
            and before.kind == "direction"
            and before.value.startswith(("end ", "most "))
        ):
            new = [Word("be", "", word.span), word]  # "on the right a red cube"
        elif word.value == ":" and before.value in (
            vague := (*_GROUPS, "table")
        ):  # "the three cubes on the table: …"
            found[-2:] = [
                one._replace(kind="filler" if one.value in vague else one.kind)
                for one in found[-2:]
            ]
        if " is " in str(word.value):  # "an open drawer": "the drawer, which is open,"
            new = [one._replace(span=word.span) for one in words_of(kind, word.value)]
        found += [one for one in new if one.value not in ("a", "an", "the")]
    return found


def _ordered(sentence: list[Word]) -> list[Told]:
    """Facts of "from left to right: red, green"."""
    order = [word for word in sentence if word.kind == "order"]
    names = [
        f"{word.value}"
        for word in sentence
        if word.kind == "thing" and word.value not in (*_VAGUE, *_GROUPS)
    ]
    plain = (
        "order",
        "thing",
        "filler",
        "be",
        "will",
        "exists",
        "and",
        "comma",
        "in",
        "of",
        "direction",
        "end",
    )
    if len(order) != 1 or len(names) < 2 or any(word.kind not in plain for word in sentence):
        return []
    side = next(word for word in order[0].value.split() if word != "from")
    names = names[::-1] if side in ("right", "bottom", "back") else names
    how = {"right": "left", "bottom": "on", "top": "on", "back": "front"}.get(side, side)
    return [Told(one, how, other) for one, other in itertools.pairwise(names)]


def _facts(stated: Stated, last: str) -> list[Any]:
    """The facts of a clause; none if it doesn't surely say any."""
    subject, relation = stated.subject, stated.relation
    others = (relation.other.may_be or (relation.other,)) if relation.other else (None,)
    pairs = itertools.product(subject.may_be or (subject,), others)
    found = [_said(one.kind, relation, other.kind if other else "", last) for one, other in pairs]
    readings = list(dict.fromkeys(tuple(facts) for facts in found if facts))
    return [Unclear(tuple(readings))] if len(readings) > 1 else [*readings[0]] if readings else []


def _said(name: str, relation: Relation, other: str, last: str) -> list[Told] | None:
    far = next(iter(relation.counts.values()), None) if relation.far is None else relation.far
    ways = relation.ways or ["on"] * ("here" in relation.same) or ["near"] * relation.near
    if name.endswith("others") and not other:
        other = last
    if other not in ("", *_VAGUE, *_GROUPS) and all(
        way in _SIDES or way.startswith("end ") for way in ways
    ):
        ways = [way.removeprefix("end ") for way in ways]  # "behind the red cube and to the right"
    found = [_fact(name, way, other, far) for way in ways]
    found += [
        Told(name, "at", other if ways == ["on"] else "", at=at) if axis == "at" else None
        for axis, at in relation.region
    ]
    facts = [fact for fact in found if fact is not None]
    if len(facts) < len(found) or (
        name in _VAGUE and name not in _GROUPS and name != "gripper" and ways != ["holds"]
    ):
        return None
    if name in _GROUPS:
        single = ("end ", "between", "held", "open", "shut")  # what several can't be alike
        if any(fact.how.startswith(single) or (fact.at and None not in fact.at) for fact in facts):
            return None
        return [fact._replace(but=last if "others" in name else "") for fact in facts]
    return facts


def _fact(name: str, way: str, other: str, far: float | None) -> Told | None:
    kind, _, side = way.rpartition(" ")
    away = other in ("", "table", "picture", "player")
    if way in ("open", "shut"):
        return Told(name, way, far=far) if name in ("drawer", "handle") else None
    if way in ("holds", "empty") and other != "gripper":
        if name == "gripper":
            held = Told(other, "held") if other else Told("gripper", "empty")
            return held if bool(other) == (way == "holds") else None
        return Told(other, "on", name) if way == "holds" and other else None
    if name == "gripper" or (far is not None and way not in _SIDES):
        return None
    if way == "held" or other == "gripper":  # "lifted by the gripper"
        return (
            Told(name, "held") if way in ("held", "holds", "on") and name not in _GROUPS else None
        )
    if kind == "most":
        return Told(name, side, "cubes")
    if kind == "end" or (way in _SIDES and away):
        return Told(name, f"end {side}") if far is None else None
    if way == "table":
        return Told(name, "on", "table")
    if way in ("top", "bottom", "stacked", "flat"):
        return Told(name, way) if away else None
    if away and other != "table":
        return Told(name, way, "drawer") if way in ("on", "off") and not other else None
    if way == "along":
        return Told(name, "on", "line") if other == "line" else None
    return Told(other, "over", name) if way == "under" else Told(name, way, other, far)


def mark(state: State, reading: Reading, _part: Part) -> Marks:
    """F1 over the things' positions and the drawer's opening. The gripper counts if it is named."""
    truth: Any = state
    wanted = len(truth.positions) + (truth.drawer_open_value is not None)
    idle = truth.task in ("place", "align")  # all cubes are on the table
    told = [
        claim
        for claim in reading.claims
        if not (idle and "table" in str(claim.key) and claim.holds(state))
    ]
    wanted += any(
        isinstance(claim.key, Told) and claim.key.how in ("held", "empty")
        for claim in reading.claims
    )
    return Marks.of(state, reading._replace(claims=tuple(told)), wanted)
