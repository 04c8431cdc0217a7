"""PrimitiveSkill: coordinates of named things, the gripper and the drawer (VAGEN, appendices C.2 and D.1)."""

from __future__ import annotations

import itertools
import re
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_rewards.reader.claims import Claim, Fact, Marks, Part, Reading

TOLERANCE = 10
"""Millimetres that a coordinate may be off; the paper's judge gives none. A cube is 40 wide."""

UNCLEAR = 20
"""Millimetres, half a cube, within which observers differ about sides."""

OPEN = 100
"""Millimetres from which on a drawer is open; below a tenth of it, it is shut."""

_COLOURS = "red|green|blue|yellow|purple|orange|cyan|white|black"
_NAMES = rf"(?:{_COLOURS})[ _](?:cube|block|box|one)|apple|drawer|handle|(?:left|right|red|green)[ _]target"
_NUMBER = r"(-?\d+(?:\.\d+)?)\s*(?:mm)?"
_THING = re.compile(
    rf"[\"']?\b(?:the\s+)?(?P<name>{_NAMES}|(?:left|right) (?:target )?(?:disc|disk|circle))\b[\"']?"
    r"\s*(?:->|[:=|]|,|is|are|sits?|lies|stands?|seems to be|at|located|position|positioned"
    r"|now|will|be|coordinates|centered|rests|\s)*"
    rf"[\[(]?\s*(?:x\s*[:=]\s*)?{_NUMBER}\s*,?\s*(?:y\s*[:=]\s*)?{_NUMBER}\s*,?\s*(?:z\s*[:=]\s*)?{_NUMBER}\s*[\])]?",
    re.IGNORECASE,
)
_OPENING = re.compile(r"[\"']?drawer_open_value[\"']?\s*[:=]\s*(\d+)|\bdrawer is (?:now )?(\d+) mm open", re.IGNORECASE)
_DRAWER = re.compile(
    r"^(?:the )?drawer (?:is|will be|stays|remains)(?: now| still| fully| completely)* (open|closed|shut)$",
    re.IGNORECASE,
)
_HOLDS = re.compile(
    rf"^(?:the )?gripper (?:is holding|holds|will hold|will be holding|will be|is|is now) (?:the )?({_NAMES}|empty)$",
    re.IGNORECASE,
)
_THINGS = rf"(?:the )?({_NAMES}|(?:left|right) (?:target )?(?:disc|disk|circle))"
_RELATED = re.compile(
    rf"^{_THINGS}(?:,? which)?(?: is| are| sits?| lies| rests?| stands?| stays?| remains?| will be| will stay| ends up"
    r"| will end up| will sit| will rest)(?: now| then| still| placed| stacked| sitting| resting| located| directly)* "
    rf"(on top of|on|at|in|to the left of|left of|to the right of|right of) {_THINGS}"
    rf"(?:, which is (on top of|on) {_THINGS})?$",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"^from (left to right|right to left),? (?:the |there are )?(?:cubes|things|blocks)?(?: are| is|:)*\s*"
    rf"((?:(?:the )?(?:{_COLOURS})(?: cube| one)?(?:,| and|\s)*){2, 4})$",
    re.IGNORECASE,
)
_LATEX = re.compile(r"\\text\{([^{}]*)\}")
_UNSURE = re.compile(
    r"\b(?:not|no|never|may|might|maybe|perhaps|possibly|probably|if|or|either|unless|would|could|swapped|instead|false"
    r"|wrong|was|were|when|after|before|until|half|almost)\b|n't\b|\?",
    re.IGNORECASE,
)
_XYZ_LINES = re.compile(r":\s*\n\s*(?=x\b)|\n\s*(?=[yz]\s*:)")
"""Line breaks in a thing's three coordinates, as in YAML."""
_PIECE = re.compile(r"[^.;\n]+(?:\.\d[^.;\n]*)*")
_PLAIN = re.compile(
    r"(?:[\s{}\[\]().,;:*\"'`$\\|-]|\b(?:and|the|is|are|while|there|two|three|four|cubes?|text|i|see|a|an|with|mm|in|its"
    r"|that|of|one|object|name|coordinates|position|nothing will have moved|will be)\b)*",
    re.IGNORECASE,
)


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
    """A thing is at, on, left or right of another. Left is towards negative y."""

    name: str
    how: str
    other: str

    def holds(self, state: Any) -> bool | None:
        """Whether it is so; `None` within `UNCLEAR` of the bound, or if the state doesn't know the things."""
        one, other = state.positions.get(self.name), state.positions.get(self.other)
        if one is None or other is None:
            return None
        if self.how in ("left", "right"):
            far = (other[1] - one[1]) * (1 if self.how == "left" else -1)
            return None if abs(far) < UNCLEAR else far > 0
        off = max(abs(one[0] - other[0]), abs(one[1] - other[1]))
        above = one[2] - other[2]
        if off > 2 * UNCLEAR or above < -TOLERANCE:
            return False
        return True if off <= UNCLEAR and above > 0 else None

    def __str__(self) -> str:
        return f"{self.name} {self.how} {self.other}"


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
    text = _LATEX.sub(lambda match: f"      {match[1]} ", text)
    whole = _XYZ_LINES.sub(lambda match: match[0].replace("\n", " "), text)
    for piece in _PIECE.finditer(whole):
        said, span = piece[0].strip(" -*$\t{}[],"), piece.span()
        if not any(letter.isalnum() for letter in said):
            continue
        if _UNSURE.search(said):
            unread.append((span, True))
            continue
        found = [Claim(span, Position(_name(match["name"]), (float(match[2]), float(match[3]), float(match[4]))))
                 for match in _THING.finditer(said)]  # fmt: skip
        found += [Claim(span, Opened(float(match[1] or match[2]))) for match in _OPENING.finditer(said)]
        if match := _DRAWER.match(said.strip()):
            found.append(Claim(span, Opened(-1.0 if match[1].lower() != "open" else 1e9)))
        if match := _HOLDS.match(said.strip()):
            found.append(Claim(span, Holds("" if match[1].lower() == "empty" else _name(match[1]))))
        related = _related(said.strip())
        if related:
            claims += [Claim(span, fact) for fact in related]
            continue
        rest = _OPENING.sub("", _THING.sub("", said)) if found else said
        if not found or not (_DRAWER.match(said) or _HOLDS.match(said) or _PLAIN.fullmatch(rest)):
            clear = found and not re.search(rf"{_NAMES}|\d|\bone\b|gripper", rest, re.IGNORECASE)
            unread.append((span, bool(re.search(rf"{_NAMES}|cubes?|gripper|\d", rest, re.IGNORECASE))))
            found = found if clear else []
        claims += found
    return Reading.of(claims, unread)


def _related(said: str) -> list[Fact]:
    """Facts of "the red cube is on the green cube" and "from left to right: red, green"."""
    match = _RELATED.match(said)
    if match:
        side = next((side for side in ("left", "right") if side in match[2].lower().split()), "on")
        facts: list[Fact] = [Beside(_name(match[1]), side, _name(match[3]))]
        return [*facts, Beside(_name(match[3]), "on", _name(match[5]))] if match[4] else facts
    match = _ORDER.match(said)
    if match:
        names = [f"{colour.lower()}_cube" for colour in re.findall(_COLOURS, match[2], re.IGNORECASE)]
        side = "left" if match[1].lower().startswith("left") else "right"
        return [Beside(one, side, other) for one, other in itertools.pairwise(names)]
    return []


def _name(text: str) -> str:
    name = "_".join(text.lower().replace("_", " ").split())
    name = re.sub(r"_(?:target_)?(?:disc|disk|circle)$", "_target", name)
    return re.sub(r"_(?:block|box|one)$", "_cube", name)


def mark(state: State, reading: Reading, _part: Part) -> Marks:
    """F1 over the things' positions and the drawer's opening. The gripper counts if it is named."""
    truth: Any = state
    wanted = len(truth.positions) + (truth.drawer_open_value is not None)
    return Marks.of(state, reading, wanted + any(isinstance(claim.key, Holds) for claim in reading.claims))
