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

TOLERANCE = 15
"""Percent of the picture that a middle may be off."""

MOST_OFF = 20
"""Percent of the picture that a size may be off."""

MOST_UNCLEAR = 5
"""Percent of the picture around its middle in which observers differ about the half."""

_SIDES = {
    **dict.fromkeys(("top", "upper"), ("y", -1)),
    **dict.fromkeys(("bottom", "lower"), ("y", 1)),
    "left": ("x", -1),
    "right": ("x", 1),
}
_WORDS = lexicon()["svg"]
SHAPES = {name: shape for shape, names in _WORDS["shapes"].items() for name in names}
_SHAPE = "|".join(SHAPES)
_ROUND = ({"circle", "ellipse"},)
_ADJECTIVE = "|".join([*_WORDS["adjectives"], "[a-z]+-(?:like|shaped)"])
_ABOUT = r"(?:(?:about|roughly|around|approximately|some|~)\s*)?"
_QUALIFIER = re.compile(
    rf"[\s,:]*(?:and |with |filled,? |solid,? |which is |that is |is |has |of |a )*{_ABOUT}(?:"
    rf"(?:(?:(?:located |positioned |cent(?:er|r)ed )?(?:at|around|near) ?{_ABOUT}|cent(?:er|re)(?: at)?)\s*)?"
    r"\(\s*(?P<x>\d+)\s*,\s*(?P<y>\d+)\s*\)"
    r"|(?P<middle>cent(?:er|r)ed(?: in the (?:picture|image|middle))?(?!\s+at)|(?:in|at) the (?:cent(?:er|re)|middle)\b"
    r"(?: of the (?:picture|image|target|drawing))?)"
    r"|(?:at|in|on|near) the (?:very )?(?P<place>(?:top|upper|bottom|lower)(?:[ -](?:left|right))?|left|right)\b"
    r"(?: (?:corner|half|part|edge|side|area))?(?: of the (?:picture|image|target|drawing))?"
    rf"|(?P<share>\d+)%? of the (?:(?:picture|image)(?:'s)? )?width"
    rf"|(?P<radial>radius|r|diameter)\s*(?:of|=|is)?\s*{_ABOUT}(?P<radius>\d+)"
    r"|(?P<by>\d+)\s*(?:by|x|×)\s*(?P<high>\d+)"
    rf"|(?P<width>\d+)%?(?: units)? (?:wide|across)(?: and {_ABOUT}(?P<height>\d+)%? (?:high|tall))?"
    r"|\(?(?:filled with |in |colou?red )?(?P<colour>COLOUR)\)?(?![\w -]*\b(?:SHAPE)))"
)
_ENTRY = re.compile(
    rf"\{{\s*[\"']?shape[\"']?: [\"']?(?:filled |outlined )?(?P<shape>{_SHAPE})[\"']?, [\"']?colou?r[\"']?: "
    r"[\"']?(?P<colour>#[0-9a-f]{6}|[a-z ]+)[\"']?, [\"']?center[\"']?: [\[(](?P<x>\d+), (?P<y>\d+)[\])], "
    r"[\"']?size[\"']?: [\[(](?P<width>\d+), (?P<height>\d+)[\])]\s*\}"
)
_TELLS = re.compile(
    rf"\d|\b(?:(?!icon|element)(?:{_SHAPE})s?|{'|'.join([*_WORDS['tones'], *_WORDS['tells'], *colours.PLAIN])}|grey)\b"
)
"""What an unread rest has that may be false of elements."""
_UNDRAWN = re.compile(
    r"(?:there is no drawing(?: yet)?|(?:the )?drawing does not exist|nothing (?:is|has been) drawn(?: yet)?"
    r"|drawing: none)"
)
_PIECE = re.compile(r"[^.;\n]+")
_WORD = re.compile(r"[a-z]{4,}")
_TOPIC = re.compile(r"\b(target|drawing|(?<=i )drew)\b")


class Painted(NamedTuple):
    """The target, or the drawing, has such an element; places and sizes in percent of the picture.

    Attributes:
        where: `target` or `drawing`.
        shape: as in `SHAPES`; `any` of another noun, as in "a red car".
        tone, colour: such as `light` and `blue`; no colour is any, and of "red/orange" either will do.
        at, size: middle, and width and height.
        many: so many of them.
        place: such as `upper left`.
    """

    where: str
    shape: str
    tone: str
    colour: str
    at: tuple[int, int] | None = None
    size: tuple[int | None, int | None] = (None, None)
    many: int = 1
    place: str = ""

    def holds(self, state: Any) -> bool | None:
        """Whether an element fits; `None` if observers may differ about its colour or shape."""
        verdicts = [self._fits(element) for element in getattr(state, self.where) or ()]
        if verdicts.count(True) >= self.many:
            return True
        return None if len(verdicts) - verdicts.count(False) >= self.many else False

    def _fits(self, element: Any) -> bool | None:
        if self.at and max(abs(self.at[0] - element.x), abs(self.at[1] - element.y)) > TOLERANCE:
            return False
        for stated, true in zip(self.size, (element.width, element.height), strict=True):
            if stated is not None and abs(stated - true) > MOST_OFF:
                return False
        named = [_SIDES[word] for word in self.place.replace("-", " ").split()]
        sides = [(getattr(element, axis) - 50) * sign for axis, sign in named]
        if any(off < -MOST_UNCLEAR for off in sides):
            return False
        both = {self.shape, element.shape}
        doubted = any(off < MOST_UNCLEAR for off in sides)
        if len(both) > 1 and both not in _ROUND and self.shape != "any":
            if "shape" not in both and both != {"line", "rectangle"}:
                return False
            doubted = True
        names = self.colour.split("/")
        verdicts = {_called(element.colour, self.tone, name) if name else True for name in names}
        verdict = True if True in verdicts else None if None in verdicts else False
        return None if verdict and doubted else verdict

    def __str__(self) -> str:
        at = f" at {self.at}" if self.at else ""
        return f"the {self.where} has a {self.tone} {self.colour} {self.shape}{at}".replace("  ", " ")


class NoDrawing(NamedTuple):
    """Nothing is drawn yet."""

    kind: str = "svg"

    def holds(self, state: Any) -> bool:
        """Whether nothing is."""
        return not state.drawing

    def __str__(self) -> str:
        return "there is no drawing"


@functools.lru_cache(maxsize=65536)
def _called(colour: str, tone: str, name: str) -> bool | None:
    """Whether `#rrggbb` goes by a name; `None` if observers may differ."""
    if f"{tone} {name}".strip() == colour_name(colour):
        return True
    tone = {"bright": "", "pale": "light", "deep": ""}.get(tone, tone)
    if colours.may_be_called(colour, name, tone):
        return True
    return None if colours.could_be_called(colour, name) else False


def claims_of(_kind: str, text: str, part: Part) -> Reading:
    """Elements in sentences or dictionaries. A prediction that names neither picture speaks of the drawing."""
    claims: list[Claim] = []
    unread: list[tuple[Span, bool]] = []
    where = "drawing" if part == "world_modeling" else "target"
    for piece in _PIECE.finditer(text):
        said, span = _WORD.sub(lambda word: _corrected(word[0]), piece[0].lower()), piece.span()
        if not any(letter.isalpha() for letter in said):
            continue
        if _UNDRAWN.fullmatch(said.strip()):
            claims.append(Claim(span, NoDrawing()))
            continue
        if is_unsure(_UNDRAWN.sub("", said).removeprefix("after rendering")):
            unread.append((span, True))
            continue
        found, where, rest = _elements(said, where)
        if not _TELLS.search(rest.replace("white background", "")):
            claims += [Claim(span, fact) for fact in dict.fromkeys(found)]
        else:
            unread.append((span, bool(found) or bool(re.search(rf"\b(?:{_SHAPE}|same|identical)\b", said))))
    return Reading.of(claims, unread)


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """An element's beginning, and what may follow it."""
    listed = sorted({*colours.names(), "grey"}, key=lambda name: (-len(name), name))
    plain = "|".join(listed)
    colour = rf"#[0-9a-f]{{6}}|(?:(?:light|dark|bright|pale|deep)[ -])?(?:{plain})(?:-(?:{plain}))?(?:ish)?\b"
    stop = rf"(?!(?:{'|'.join(_WORDS['plain'])}|background|{plain})\b)"
    head = (
        rf"(?:\b(?:an?|the|one|another|(?P<count>two|three|four|five|[2-5]))\s+)?(?:(?:{_ADJECTIVE}),?\s+)*"
        rf"(?:(?P<colour>{colour})\s+)?(?:(?:{_ADJECTIVE})\s+)*\b(?:(?:{stop}[a-z]+\s+){{0,2}}(?P<shape>{_SHAPE})s?\b|{stop}[a-z]{{3,}})"
    )
    return re.compile(head), re.compile(_QUALIFIER.pattern.replace("COLOUR", colour).replace("SHAPE", _SHAPE))


def _elements(said: str, where: str) -> tuple[list[Painted], str, str]:
    """Elements of a sentence, the picture that it ends with, and what of it is left."""
    found: list[Painted] = []
    rest = said
    undrawn = _UNDRAWN.search(rest)
    head, qualifier = _patterns()
    entries = list(_ENTRY.finditer(said))
    for match in entries or head.finditer(said):
        parts: dict[str, str] = {name: value for name, value in match.groupdict().items() if value}
        end = match.end()
        while not entries and (more := qualifier.match(said, end)):
            given = {name: value for name, value in more.groupdict().items() if value}
            if given.keys() & parts.keys():
                break
            parts, end = {**parts, **given}, more.end()
        if not ({"colour", "x"} & parts.keys() if "shape" in parts else match["colour"]):
            continue
        topics = _TOPIC.findall(said, 0, match.start())
        found.append(_painted(topics[-1].replace("drew", "drawing") if topics else where, parts))
        rest = rest[: match.start()] + " " * (end - match.start()) + rest[end:]
    if undrawn:
        rest = rest.replace(undrawn[0], " ")
    topics = _TOPIC.findall(said)
    return found, topics[-1].replace("drew", "drawing") if topics else where, rest


def _painted(where: str, parts: dict[str, str]) -> Painted:
    at = (int(parts["x"]), int(parts["y"])) if "x" in parts else (50, 50) if "middle" in parts else None
    if "radius" in parts:
        size: tuple[int | None, int | None] = (int(parts["radius"]) * (1 + (parts["radial"] != "diameter")),) * 2
    else:
        wide = parts.get("by") or parts.get("width") or parts.get("share")
        high = parts.get("high") or parts.get("height")
        size = (int(wide) if wide else None, int(high) if high else None)
    name = parts.get("colour", "").replace("grey", "gray")
    tone, _, plain = name.rpartition(" ") if " " in name else ("", "", name)
    if "-" in plain:
        first, _, second = plain.partition("-")
        tone, plain = (first, second) if first in _WORDS["tones"] else (tone, f"{first}/{second}")
    count = parts.get("count", "1")
    many, place = NUMBERS.get(count) or int(count), parts.get("place", "")
    return Painted(where, SHAPES.get(parts.get("shape", ""), "any"), tone, plain, at, size, many, place)


@functools.lru_cache(maxsize=65536)
def _corrected(word: str) -> str:
    """A shape, colour or tone that a word is a slip of."""
    known = {*SHAPES, *colours.PLAIN, *_WORDS["tones"]}
    if word in known or word in colours.names():
        return word
    meant = {other for other in known if is_slip(word, other)}
    return meant.pop() if len(meant) == 1 else word


def mark(state: State, reading: Reading, part: Part) -> Marks:
    """F1 over elements: a description must cover the target, a prediction the drawing if there is one."""
    truth: Any = state
    facts = dict.fromkeys(claim.key for claim in reading.claims)
    aim = "drawing" if part == "world_modeling" and truth.drawing is not None else "target"
    named = {aim, *(fact.where for fact in facts if isinstance(fact, Painted))}
    return Marks.of(state, reading, sum(len(set(getattr(truth, where) or ())) for where in named))
