"""SVG: painted elements by colour, shape, place and size. The paper scores no reasoning here; this is ours."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_envs.svg.state import colour_name
from vagen_rewards.reader import colours
from vagen_rewards.reader.claims import Claim, Marks, Reading, notes_on
from vagen_rewards.spans import Part, Span

TOLERANCE = 15
"""Percent of the picture that a middle may be off."""

MOST_OFF = 20
"""Percent of the picture that a size may be off."""

SHAPES = {
    **dict.fromkeys(("circle", "disc", "disk", "dot", "ring"), "circle"),
    **dict.fromkeys(("ellipse", "oval"), "ellipse"),
    **dict.fromkeys(("rectangle", "square", "bar"), "rectangle"),
    **dict.fromkeys(("shape", "symbol", "star", "mark", "hexagon", "element"), "shape"),
    **{name: name for name in ("triangle", "line", "text")},
}
_SHAPE = "|".join(SHAPES)
_ROUND = ({"circle", "ellipse"},)
_PLACE = re.compile(r"\(?\s*\(?(-?\d{1,3})\s*[,/]\s*(-?\d{1,3})\)?")
_ELEMENT = re.compile(
    r"(?:an?\s+|the\s+|\bone\s+)?(?:(?:big|small|large|plain|thin|filled|outlined|rounded|tiny)\s+)*"
    r"(?:(?P<tone>light|dark|bright|pale|deep)[ -])?(?P<colour>[a-z]{3,12})\s+(?:(?:filled|outlined|rounded)\s+)?"
    rf"(?P<shape>{_SHAPE})\b(?:\s+(?:at|around|near|centered at|centred at)\s+\((?P<x>\d+), ?(?P<y>\d+)\))?"
    r"(?:,?\s*(?:about |roughly )?(?P<width>\d+) wide(?: and (?P<height>\d+) high)?)?"
)
_ENTRY = re.compile(
    rf"\{{\s*[\"']?shape[\"']?: [\"']?(?:filled |outlined )?(?P<shape>{_SHAPE})[\"']?, [\"']?colou?r[\"']?: "
    r"[\"']?(?P<colour>#[0-9a-f]{6}|[a-z ]+)[\"']?, [\"']?center[\"']?: [\[(](?P<x>\d+), (?P<y>\d+)[\])], "
    r"[\"']?size[\"']?: [\[(](?P<width>\d+), (?P<height>\d+)[\])]\s*\}"
)
_PLAIN = re.compile(
    r"(?:[\s,;:+{}\[\]()\"'*-]|\b(?:and|the|with|has|have|there|is|are|target|drawing|image|picture|shows?|i|see|will"
    r"|contains?|consists of|of|none|in|on|it|left|right side|my)\b)*"
)
_UNSURE = re.compile(
    r"\b(?:not|no|never|without|may|might|maybe|perhaps|possibly|if|or|either|unless|would|could|instead|half|third"
    r"|quarter|was|were|should|false|wrong)\b|n't\b|\?"
)
_UNDRAWN = re.compile(
    r"(?:there is no drawing(?: yet)?|(?:the )?drawing does not exist|nothing (?:is|has been) drawn(?: yet)?"
    r"|drawing: none)"
)
_PIECE = re.compile(r"[^.;\n]+")
_TOPIC = re.compile(r"\b(target|drawing)\b")


class Painted(NamedTuple):
    """The target, or the drawing, has such an element; places and sizes in percent of the picture."""

    where: str
    shape: str
    tone: str
    colour: str
    at: tuple[int, int] | None = None
    size: tuple[int | None, int | None] = (None, None)

    def holds(self, state: Any) -> bool | None:
        """Whether an element fits; `None` if observers may differ about its colour or shape."""
        verdicts = [self._fits(element) for element in getattr(state, self.where) or ()]
        return True if True in verdicts else None if None in verdicts else False

    def _fits(self, element: Any) -> bool | None:
        if self.at and max(abs(self.at[0] - element.x), abs(self.at[1] - element.y)) > TOLERANCE:
            return False
        for stated, true in zip(self.size, (element.width, element.height), strict=True):
            if stated is not None and abs(stated - true) > MOST_OFF:
                return False
        both = {self.shape, element.shape}
        doubted = False
        if len(both) > 1 and both not in _ROUND:
            if "shape" not in both and both != {"line", "rectangle"}:
                return False
            doubted = True
        verdict = _called(element.colour, self.tone, self.colour)
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


@functools.cache
def _is_colour(name: str) -> bool:
    return name.replace("grey", "gray") in colours.names() or name in ("gray", "grey")


def claims_of(_kind: str, text: str, part: Part) -> Reading:
    """Elements in sentences or dictionaries. A prediction that names neither picture speaks of the drawing."""
    claims: list[Claim] = []
    unread: list[tuple[Span, bool]] = []
    where = "drawing" if part == "world_modeling" else "target"
    for piece in _PIECE.finditer(text):
        said, span = piece[0].lower(), piece.span()
        if not any(letter.isalpha() for letter in said):
            continue
        if _UNDRAWN.fullmatch(said.strip()):
            claims.append(Claim(span, NoDrawing()))
            continue
        if _UNSURE.search(said):
            unread.append((span, True))
            continue
        found, where, rest = _elements(said, where)
        clear = bool(_PLAIN.fullmatch(rest)) and found
        if clear:
            claims += [Claim(span, fact) for fact in dict.fromkeys(found)]
        elif not _PLAIN.fullmatch(rest):
            unread.append((span, bool(found) or bool(re.search(rf"\b(?:{_SHAPE}|same|identical)\b", said))))
    return Reading(tuple(claims), tuple([s for s, _ in unread]), tuple([s for s, matters in unread if matters]))


def _elements(said: str, where: str) -> tuple[list[Painted], str, str]:
    """Elements of a sentence, the picture that it ends with, and what of it is left."""
    found: list[Painted] = []
    rest = said
    undrawn = _UNDRAWN.search(rest)
    for match in [*_ENTRY.finditer(said), *_ELEMENT.finditer(said)]:
        parts = match.groupdict()
        name = parts["colour"].replace("grey", "gray")
        if not name.startswith("#") and not _is_colour(name.split()[-1]):
            continue
        topics = _TOPIC.findall(said, 0, match.start())
        about = topics[-1] if topics else where
        at = (int(parts["x"]), int(parts["y"])) if parts["x"] else None
        size = (int(parts["width"]) if parts["width"] else None, int(parts["height"]) if parts["height"] else None)
        tone, _, plain = name.rpartition(" ")
        found.append(Painted(about, SHAPES[parts["shape"]], parts.get("tone") or tone, plain, at, size))
        rest = rest[: match.start()] + " " * len(match[0]) + rest[match.end() :]
    if undrawn:
        rest = rest.replace(undrawn[0], " ")
    topics = _TOPIC.findall(said)
    return found, topics[-1] if topics else where, rest


def mark(state: State, reading: Reading, part: Part) -> Marks:
    """F1 over elements: a description must cover the target, a prediction the drawing if there is one."""
    truth: Any = state
    facts = dict.fromkeys(claim.key for claim in reading.claims)
    held = {fact: fact.holds(truth) for fact in facts}
    aim = "drawing" if part == "world_modeling" and truth.drawing is not None else "target"
    named = {aim, *(fact.where for fact in facts if isinstance(fact, Painted))}
    right, wrong = list(held.values()).count(True), list(held.values()).count(False)
    wanted = sum(len(set(getattr(truth, where) or ())) for where in named)
    return Marks(right, wrong, right, wanted, True, notes_on(state, reading))
