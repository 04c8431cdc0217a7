"""PrimitiveSkill: coordinates of named things, the gripper and the drawer (VAGEN, appendices C.2 and D.1)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_rewards.reader.claims import Claim, Fact, Marks, Part, Reading, Span, Unclear
from vagen_rewards.reader.words import is_unsure, lexicon

TOLERANCE = 10
"""Millimetres that a coordinate may be off; the paper's judge gives none. A cube is 40 wide."""

UNCLEAR = 20
"""Millimetres, half a cube, within which observers differ about sides."""

OPEN = 100
"""Millimetres from which on a drawer is open; below a tenth of it, it is shut."""

_WORDS = lexicon()["primitive_skill"]
_COLOURS, _BE = "|".join(_WORDS["colours"]), f"(?:{'|'.join(_WORDS['be'])})"
_CALLED, _HOW, _ENDS = [
    {word: meant for meant, words in _WORDS[table].items() for word in words} for table in ("things", "sides", "ends")
]
_NAMES = rf"(?:{_COLOURS})[ _](?:cube|block|box|one)|{'|'.join(_CALLED)}|(?:{_COLOURS})(?= (?:at|is|and)\b)"
_THING = rf"(?:the )?({_NAMES})"
_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*(?:mm)?\s*"
_PLACED = re.compile(
    rf"(?i)[\"']?\b(?:the\s+)?(?P<name>{_NAMES})\b[\"']?"
    rf"\s*(?:->|[:=|]|,|'s|{_BE}|seems to be|at|located|position|positioned"
    r"|now|will|be|coordinates|centered|around|about|approximately|near|found|~|\s)*"
    rf"[\[(]?\s*(?:x\s*[:=]?\s*)?{_NUMBER}[\s,]+(?:y\s*[:=]?\s*)?{_NUMBER}[\s,]+(?:z\s*[:=]?\s*)?{_NUMBER}\s*[\])]?"
)
_OPENING = re.compile(
    r"(?i)[\"']?drawer_open_value[\"']?\s*[:=]\s*(\d+)|\bdrawer (?:is|will be) (?:now )?(?:open(?:ed)? )?(?:by )?"
    r"(?:about )?(\d+(?:\.\d+)?) ?(mm|cm)(?: open| wide)?"
)
_HOLDS = re.compile(
    rf"(?i)^(?:the )?gripper (?:holds|will hold|(?:is|will be)(?: now| holding)?) (?:the )?({_NAMES}|empty)$"
)
_PREDICATE = re.compile(
    rf"(?i)[\s,:]*(?:(?:{_BE}|{'|'.join(_WORDS['adverbs'])})\b[\s,]*)*(?:"
    rf"(?P<how>{'|'.join(_HOW)}) (?:(?:both )?{_THING}(?: and {_THING})?|(?P<others>{'|'.join(_WORDS['others'])})|it\b)"
    rf"|(?:(?:at|around|about|approximately|position|coordinates) )*[(\[]{_NUMBER},\s*{_NUMBER},\s*{_NUMBER}\s*[)\]]"
    rf"|(?P<opened>open|closed|shut|out)\b|(?:(?:on|at|to|in) )?(?:the |its )?(?P<end>{'|'.join(_ENDS)})\b)"
)
_PLAN = re.compile(
    rf"(?i)(?:so |then |now )*(?:(?:i|we) (?:{'|'.join(_WORDS['plans'])})\b|[a-z ]+ (?:needs?|has|have) to [a-z ]+$)"
)
_ORDER = re.compile(
    r"(?i)^(?:the )?(?:cubes )?(?:ordered )?from (left to right|right to left|bottom to top|top to bottom)[,:]? "
    r"(?:the )?(?:there are |i (?:can )?see |we have )?(?:the )?(?:cubes|things|blocks)?(?: are| is|:)*\s*"
    rf"((?:(?:the )?(?:{_COLOURS})(?: cube| one)?(?:,| and|\s)*){{2,4}})$"
)
_TOUCHES = rf"{_NAMES}|\d|\b(?:{'|'.join(_WORDS['touches'])})\b"
"""What an unread clause has that may be false of things."""
_LATEX = re.compile(r"\\text\{([^{}]*)\}")
_XYZ_LINES = re.compile(r":\s*\n\s*(?=x\b)|\n\s*(?=[yz]\s*:)")
"""Line breaks in a thing's three coordinates, as in YAML."""
_PIECE = re.compile(r"[^.;\n]+(?:\.\d[^.;\n]*)*")
_BEGINS = rf"(?:the|there|its?|{_COLOURS})\b[^,;]*\b(?:{_BE}|at|on|in|to|holds)\b|so (?:i|we)\b"
_CLAUSE = re.compile(rf"(?:,\s*)?(?:\b(?:and|while|whereas|but) |,\s*)(?={_BEGINS})", re.I)
_PLAIN = re.compile(rf"(?:[\s{{}}\[\]().,;:*\"'`$\\|-]|\b(?:{'|'.join(_WORDS['plain'])})\b)*", re.IGNORECASE)
_SIDES = {"left": (1, -1), "right": (1, 1), "front": (0, 1), "behind": (0, -1)}


class Position(NamedTuple):
    """A thing is at (x, y, z), in millimetres."""

    name: str
    at: tuple[float, float, float]

    def holds(self, state: Any) -> bool | None:
        """Whether it is there, within the tolerance along each axis."""
        true = state.positions.get(self.name)
        return None if true is None else all(abs(a - b) <= TOLERANCE for a, b in zip(true, self.at, strict=True))

    def __str__(self) -> str:
        return f"{self.name} at {self.at}"


class Beside(NamedTuple):
    """A thing is at, on, left of, right of, in front of or behind another; left is towards -y, the front towards +x."""

    name: str
    how: str
    other: str

    def holds(self, state: Any) -> bool | None:
        """Whether it is so; `None` within `UNCLEAR` of the bound, or if the state doesn't know the things."""
        one = state.positions.get(self.name)
        x, y = one[:2] if one else (0, 0)
        other = {**state.positions, "line": (0, y, 0), "table": (x, y, -UNCLEAR)}.get(self.other)
        if one is None or other is None:
            return None
        if self.how in _SIDES:
            axis, sign = _SIDES[self.how]
            far = (one[axis] - other[axis]) * sign
            return None if abs(far) < UNCLEAR else far > 0
        off = max(abs(one[0] - other[0]), abs(one[1] - other[1]))
        above = one[2] - other[2]
        if off > 2 * UNCLEAR or above < -TOLERANCE:
            return False
        return True if off <= UNCLEAR and 0 < above <= 3 * UNCLEAR else None  # higher: there may be another between

    def __str__(self) -> str:
        return f"{self.name} {self.how} {self.other}"


class Outermost(NamedTuple):
    """A cube is left or right of all others, or between them."""

    name: str
    side: str

    def holds(self, state: Any) -> bool | None:
        """Whether it is; `None` if it is the middle one of three or more, which may be on a side of the table."""
        others = [name for name in state.positions if name.endswith("_cube") and name != self.name]
        if self.side == "middle":
            sides = {Beside(self.name, "left", other).holds(state) for other in others}
            return None if None in sides else len(sides) == 2
        verdicts = {Beside(self.name, self.side, other).holds(state) for other in others}
        return verdicts.pop() if len(verdicts) == 1 else None

    def __str__(self) -> str:
        return f"{self.name} at the {self.side} end"


class Holds(NamedTuple):
    """The gripper holds a thing; nothing if the name is empty."""

    name: str

    def holds(self, state: Any) -> bool:
        """Whether it does."""
        return bool(state.held == self.name)

    def __str__(self) -> str:
        return f"the gripper holds {self.name or 'nothing'}"


class Opened(NamedTuple):
    """How far the drawer is open, in millimetres; 1e9 stands for "open", -1 for "shut"."""

    by: float

    def holds(self, state: Any) -> bool | None:
        """Whether it is so, within the tolerance; `None` without a drawer or between open and shut."""
        true = state.drawer_open_value
        if true is None:
            return None
        if 0 <= self.by < 1e9:
            return bool(abs(true - self.by) <= TOLERANCE)
        if OPEN / 10 < true < OPEN:
            return None
        return bool((true >= OPEN) == (self.by > 0))

    def __str__(self) -> str:
        return "the drawer is open" if self.by == 1e9 else "the drawer is shut" if self.by < 0 else f"open by {self.by}"


def claims_of(_kind: str, text: str, _part: Part) -> Reading:
    """Coordinates in sentences, lists or dictionaries, and what the gripper and the drawer do."""
    claims: list[Claim] = []
    unread: list[tuple[tuple[int, int], bool]] = []
    last = ""
    text = _LATEX.sub(lambda match: f"      {match[1]} ", text)
    whole = _XYZ_LINES.sub(lambda match: match[0].replace("\n", " "), text)
    for said, span, is_sure in _clauses(whole):
        if not is_sure:
            unread.append((span, True))
            continue
        if _PLAN.match(said):
            unread.append((span, False))
            continue
        if related := _related(said.strip(), last):
            claims += [Claim(span, fact) for fact in related]
            last = next((fact.name for fact in related if isinstance(fact, Beside | Position)), last)
            continue
        placed = [(_name(match["name"]), match.group(2, 3, 4)) for match in _PLACED.finditer(said)]
        found = [Claim(span, Position(name, (float(x), float(y), float(z)))) for name, (x, y, z) in placed]
        opened = [(match[1] or match[2], match[3]) for match in _OPENING.finditer(said)]
        found += [Claim(span, Opened(float(far) * (10 if unit == "cm" else 1))) for far, unit in opened]
        if match := _HOLDS.match(said.strip()):
            found.append(Claim(span, Holds("" if match[1].lower() == "empty" else _name(match[1]))))
        rest = _OPENING.sub("", _PLACED.sub("", said)) if found else said
        if not found or not (_HOLDS.match(said) or _PLAIN.fullmatch(rest)):
            clear = found and not re.search(rf"{_NAMES}|\d|\bone\b|gripper", rest, re.IGNORECASE)
            unread.append((span, bool(re.search(_TOUCHES, rest, re.IGNORECASE))))
            found = found if clear else []
        claims += found
    return Reading.of(claims, unread)


def _clauses(text: str) -> Iterator[tuple[str, Span, bool]]:
    """Clauses with their spans, and whether their sentence neither denies nor supposes."""
    for piece in _PIECE.finditer(text):
        is_sure, start = not is_unsure(piece[0]), piece.start()
        whole = not is_sure or _ORDER.match(piece[0].strip())
        cuts = [] if whole else [match.span() for match in _CLAUSE.finditer(piece[0])]
        for end, after in [*cuts, (len(piece[0]), 0)]:
            span = (start, piece.start() + end)
            said = text[slice(*span)].strip(" -*$\t{}[],")
            start = piece.start() + after
            if any(letter.isalnum() for letter in said):
                yield said, span, is_sure


def _related(said: str, last: str) -> list[Fact]:
    """Facts of "the red cube is on the green cube, at (0, 0, 60)" and "from left to right: red, green"."""
    if match := _ORDER.match(said):
        names = [f"{colour.lower()}_cube" for colour in re.findall(_COLOURS, match[2], re.IGNORECASE)]
        side = match[1].lower().split()[0]
        pairs = itertools.pairwise(names[::-1] if side == "bottom" else names)
        return [Beside(one, side if side in _SIDES else "on", other) for one, other in pairs]
    subject = re.match(rf"{_THING}|it\b", said, re.IGNORECASE)
    if subject is None:
        return []
    name, at, facts = _name(subject[1] or last), subject.end(), list[Fact]()
    said = re.sub(rf"(?:\s+(?:{'|'.join(_WORDS['adverbs'])}))+$", "", said, flags=re.IGNORECASE)
    while at < len(said.rstrip()):
        if (match := _PREDICATE.match(said, at)) is None:
            return []
        at, last = match.end(), _predicate(name, match, last, facts)
    return facts


def _predicate(name: str, match: re.Match[str], last: str, facts: list[Fact]) -> str:
    """Add what a predicate says of a thing; return the thing that "it" stands for after it."""
    if match["how"]:
        side = _HOW[match["how"].lower()]
        others = [_name(other) for other in match.group(2, 3) if other] or [last] * (not match["others"])
        facts += [Beside(name, side, other) for other in others] or [Outermost(name, side)]
        return (*others, last)[0]
    if match["opened"]:
        facts.append(Opened(1e9 if match["opened"].lower() in ("open", "out") else -1.0))
    elif match["end"]:
        facts.append(Outermost(name, _ENDS[match["end"].lower()]))
    else:
        place = Position(name, (float(match[5]), float(match[6]), float(match[7])))
        either = (
            facts and isinstance(facts[-1], Beside) and facts[-1].how == "on" and "," not in match[0].partition("(")[0]
        )
        facts.append(Unclear(((place,), (place._replace(name=last),))) if either else place)
    return last


def _name(text: str) -> str:
    name = " ".join(text.lower().replace("_", " ").split())
    name = _CALLED.get(name, name.replace(" ", "_"))
    return f"{name}_cube" if name in _WORDS["colours"] else re.sub(r"_(?:block|box|one)$", "_cube", name)


def mark(state: State, reading: Reading, _part: Part) -> Marks:
    """F1 over the things' positions and the drawer's opening. The gripper counts if it is named."""
    truth: Any = state
    wanted = len(truth.positions) + (truth.drawer_open_value is not None)
    return Marks.of(state, reading, wanted + any(isinstance(claim.key, Holds) for claim in reading.claims))
