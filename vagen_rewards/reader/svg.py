"""SVG: painted elements by colour, shape, place and size. The paper scores no reasoning here; this is ours."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_envs.svg.state import colour_name
from vagen_rewards.reader import colours
from vagen_rewards.reader.claims import Claim, Marks, Part, Reading, Span
from vagen_rewards.reader.words import NUMBERS, is_slip, is_unsure, lexicon

TOLERANCE, MOST_OFF, MOST_UNCLEAR = 15, 20, 5
"""Percent of the picture: that a middle and a size may be off; around a middle where observers differ about sides."""

_WORDS = lexicon()["svg"]
_SIDES = {
    word: (side[0], int(side[1:])) for side, words in _WORDS["sides"].items() for word in words
}
SHAPES = {name: shape for shape, names in _WORDS["shapes"].items() for name in names}
_TEXTS: dict[str, str | list[str]] = {
    **_WORDS,
    **_WORDS["patterns"],
    "shape": [*SHAPES],
    "told": [
        name for name, shape in SHAPES.items() if shape != "any" and name not in ("bar", "ring")
    ],
    "listed": sorted({*colours.names(), "grey"}, key=lambda name: (-len(name), name)),
    "families": [*colours.PLAIN],
}


def _text(name: str) -> str:
    """A pattern of the lexicon, with those whose names stand in it in capitals."""
    text = _TEXTS[name]
    joined = text if isinstance(text, str) else "|".join(text)
    return re.sub("<([A-Z]+)>", lambda other: _text(other[1].lower()), joined)


_SIZES = ("by", "width", "share", "w2", "w3"), ("high", "height", "h2", "h3")
_PATTERNS = {name: re.compile(_text(name)) for name in _WORDS["patterns"]}


class Painted(NamedTuple):
    """The target, or the drawing, has such an element; places and sizes in percent of the picture."""

    where: str  # `target` or `drawing`
    shape: str  # as in `SHAPES`; `any` of another noun ("a red car"), `nothing` if it is empty, `alike` if both are
    tone: str  # such as `light`
    colour: str  # no colour is any, and of "red/orange" either will do
    at: tuple[int, int] | None = None  # its middle
    size: tuple[int | None, int | None] = (None, None)  # width and height
    many: int = 1  # so many of them
    place: str = ""  # such as `upper left`

    def holds(self, state: Any) -> bool | None:
        """Whether an element fits; `None` if observers may differ about its colour or shape."""
        if self.shape in ("nothing", "alike"):
            drawing = getattr(state, self.where)
            same = True if drawing == state.target else None if drawing else False
            return same if self.shape == "alike" else not drawing
        verdicts = [self.fits(element) for element in getattr(state, self.where) or ()]
        if verdicts.count(True) >= self.many:
            return True
        least = 1 if self.shape == "any" else self.many  # "two sails" may be painted as one
        return None if len(verdicts) - verdicts.count(False) >= least else False

    def fits(self, element: Any) -> bool | None:
        """Whether this is such an element."""
        if self.at and max(abs(self.at[0] - element.x), abs(self.at[1] - element.y)) > TOLERANCE:
            return False
        for stated, true in zip(self.size, (element.width, element.height), strict=True):
            if stated is not None and abs(stated - true) > MOST_OFF:
                return False
        named = [_SIDES[word] for word in self.place.replace("-", " ").split() if word in _SIDES]
        sides = [(getattr(element, axis) - 50) * sign for axis, sign in named]
        if any(off < -MOST_UNCLEAR for off in sides):
            return False
        both = {self.shape, element.shape}
        doubted = any(off < MOST_UNCLEAR for off in sides)
        if len(both) > 1 and both != {"circle", "ellipse"} and self.shape != "any":
            if "shape" not in both and both != {"line", "rectangle"}:
                return False
            doubted = True
        names = self.colour.split("/")
        verdicts = {_called(element.colour, self.tone, name) if name else True for name in names}
        verdict = True if True in verdicts else None if None in verdicts else False
        return None if verdict and doubted else verdict

    def __str__(self) -> str:
        at = f" at {self.at}" if self.at else ""
        return f"the {self.where} has a {self.tone} {self.colour} {self.shape}{at}".replace(
            "  ", " "
        )


class Related(NamedTuple):
    """An element is above, below, left or right of another one."""

    one: Painted
    how: str
    other: Painted

    def holds(self, state: Any) -> bool | None:
        """Whether two are so; `None` if observers may differ about them, or their middles are alike."""
        axis, sign = _SIDES[self.how]
        verdicts = []
        for one in getattr(state, self.one.where) or ():
            for other in getattr(state, self.other.where) or ():
                off = (getattr(one, axis) - getattr(other, axis)) * sign
                if one is not other and False not in (
                    fits := {self.one.fits(one), self.other.fits(other)}
                ):
                    wrong = None if abs(off) < MOST_UNCLEAR else False
                    verdicts.append(wrong if off < MOST_UNCLEAR else None if None in fits else True)
        return True if True in verdicts else None if None in verdicts or not verdicts else False


@functools.lru_cache(maxsize=65536)
def _called(colour: str, tone: str, name: str) -> bool | None:
    """Whether `#rrggbb` goes by a name; `None` if observers may differ."""
    if f"{tone} {name}".strip() == colour_name(colour):
        return True
    tone = (
        "light" if tone in ("pale", "pastel", "baby") else tone if tone in ("light", "dark") else ""
    )
    if colours.may_be_called(colour, name, tone):
        return True
    return None if colours.could_be_called(colour, name) else False


def claims_of(_kind: str, text: str, part: Part) -> Reading:
    """Elements in sentences or dictionaries. A prediction that names neither picture speaks of the drawing."""
    claims: list[Claim] = []
    unread: list[tuple[Span, bool]] = []
    elements: list[Painted] = []
    where = "drawing" if part == "world_modeling" else "target"
    for piece in _PATTERNS["piece"].finditer(text):
        plain = _PATTERNS["aside"].sub(lambda match: " " * len(match[0]), piece[0].lower())
        said, span = _PATTERNS["word"].sub(lambda word: _corrected(word[0]), plain), piece.span()
        whole = {
            "nothing": _PATTERNS["undrawn"].search(said),
            "alike": _PATTERNS["alike"].search(said),
        }
        for match in filter(None, whole.values()):
            said = said.replace(match[0], " " * len(match[0]))
        if is_unsure(said) or _PATTERNS["lacking"].search(said):
            unread.append((span, True))
            continue
        found, where, rest = _elements(said, where, elements)
        if _PATTERNS["rest"].search(rest):
            unread.append((span, bool(found) or bool(_PATTERNS["named"].search(said))))
            continue
        said_of_all = [Painted("drawing", shape, "", "") for shape, match in whole.items() if match]
        claims += [Claim(span, fact) for fact in dict.fromkeys([*said_of_all, *found])]
    return Reading.of(claims, unread)


def _elements(said: str, where: str, elements: list[Painted]) -> tuple[list[Any], str, str]:
    """Elements of a sentence after earlier ones, the picture that it ends with, and what of it is left."""
    found: list[Any] = []
    pictures = {str(match.lastgroup) for match in _PATTERNS["topic"].finditer(said)}
    where = pictures.pop() if len(pictures) == 1 else where
    rest, last = said, 0
    head = _PATTERNS["entry" if _PATTERNS["entry"].search(said) else "head"]
    end = 0
    while match := head.search(said, end):
        parts: dict[str, str] = {name: value for name, value in match.groupdict().items() if value}
        end = match.end()
        while head is _PATTERNS["head"] and (more := _PATTERNS["qualifier"].match(said, end)):
            given = {name: value for name, value in more.groupdict().items() if value}
            if given.keys() & parts.keys():
                break
            parts, end = {**parts, **given}, more.end()
        if not ({"colour", "x"} & parts.keys() if "shape" in parts else match["colour"]):
            end = match.end() + (not match[0])
            continue
        elements.append(_painted(_topic(said[: match.start()], where), parts))
        found.append(elements[-1])
        between = (
            _PATTERNS["relation"].fullmatch(said[last : match.start()].strip(" ,"))
            if len(elements) > 1
            else None
        )
        if between:
            one, other = elements[-2:] if not between["it"] else elements[:-3:-1]
            found.append(
                Related(one, next(word for word in between["how"].split() if word in _SIDES), other)
            )
            rest = rest[:last] + " " * (match.start() - last) + rest[match.start() :]
        elif len(elements) > 1 and (trailing := _PATTERNS["trailing"].match(said, end)):
            found.append(Related(elements[-1], trailing["how"], elements[-2]))
            end = trailing.end()
        last = end
        rest = rest[: match.start()] + " " * (end - match.start()) + rest[end:]
    for chain in _PATTERNS["chain"].finditer(said):  # "white and blue parts"
        topic = _topic(said[: chain.start()], where)
        found += [
            _painted(topic, {"colour": match[0]}) for match in _PATTERNS["bare"].finditer(chain[0])
        ]
        rest = rest[: chain.start()] + " " * len(chain[0]) + rest[chain.end() :]
    return found, _topic(said, where), rest


def _topic(said: str, where: str) -> str:
    """The picture that a text speaks of last."""
    return next(
        (str(match.lastgroup) for match in reversed(list(_PATTERNS["topic"].finditer(said)))), where
    )


def _painted(where: str, parts: dict[str, str]) -> Painted:
    at = (
        (int(parts["x"]), int(parts["y"]))
        if "x" in parts
        else (50, 50)
        if "middle" in parts
        else None
    )
    wide, high = [next((int(parts[key]) for key in keys if key in parts), None) for keys in _SIZES]
    if "radius" in parts:
        wide = high = int(parts["radius"]) * (1 + (parts["radial"] != "diameter"))
    name = parts.get("colour", "").replace("grey", "gray").removesuffix("ish")
    tone, _, plain = name.rpartition(" ") if " " in name else ("", "", name)
    if "-" in plain:
        first, _, second = plain.partition("-")
        tone, plain = (first, second) if first in _WORDS["tones"] else (tone, f"{first}/{second}")
    count = parts.get("count", "1")
    many, place = NUMBERS.get(count) or int(count), parts.get("place", parts.get("first", ""))
    return Painted(
        where, _shape(parts.get("shape", "")), tone, plain, at, (wide, high), many, place
    )


def _shape(word: str) -> str:
    return next((shape for name, shape in SHAPES.items() if re.fullmatch(name, word)), "any")


@functools.lru_cache(maxsize=65536)
def _corrected(word: str) -> str:
    """A shape, colour or tone that a word is a slip of."""
    known = {*SHAPES, *colours.PLAIN, *_WORDS["tones"], "shaped"}
    if word in known or word in colours.names():
        return word
    meant = {other for other in known if is_slip(word, other)}
    return meant.pop() if len(meant) == 1 else word


def mark(state: State, reading: Reading, part: Part) -> Marks:
    """F1 over elements: a description must cover the target, a prediction the drawing if there is one."""
    truth: Any = state
    aim = "drawing" if part == "world_modeling" and truth.drawing is not None else "target"
    named = {aim, *(claim.key.where for claim in reading.claims if isinstance(claim.key, Painted))}
    told = tuple(
        [
            claim
            for claim in reading.claims
            if getattr(claim.key, "shape", "") != "nothing" or truth.drawing
        ]
    )
    return Marks.of(
        state,
        reading._replace(claims=told),
        sum(len(set(getattr(truth, where) or ())) for where in named),
    )
