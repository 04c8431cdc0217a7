"""SVG: elements by shape, colour and place. The paper scores no reasoning here; this is ours."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.modality import DENIALS, DOUBTS, plain
from vagen_rewards.scores import Part

TOLERANCE = 15
"""Percent of the picture by which a middle may be off."""

MAX_CLAIMS = 64

_SHAPES = {"square": "rectangle", "rect": "rectangle", "bar": "rectangle", "box": "rectangle", "disc": "circle",
           "disk": "circle", "dot": "circle", "ring": "circle", "oval": "ellipse", "stroke": "line", "letter": "text",
           "path": "shape", "polygon": "shape", "figure": "shape"}  # fmt: skip
_ROUND = ("circle", "ellipse")
_NAMES = "circle|ellipse|rectangle|triangle|line|text|shape|" + "|".join(_SHAPES)
_COLOURS = {"grey": "gray", "violet": "purple", "magenta": "pink", "turquoise": "cyan"}
_COLOUR = "black|white|gr[ae]y|red|orange|yellow|green|cyan|blue|purple|pink|brown|" + "|".join(
    set(_COLOURS) - {"grey"}
)
_PAINT = rf"(?:(?P<tone>light|dark|pale|bright) )?(?P<colour>{_COLOUR})"
_CLAIM = re.compile(
    rf"\b(?:{_PAINT}(?:[-, ]+(?!(?:and|or|on|in|at|with|of|is|near|{_COLOUR}|{_NAMES})\b)[a-z]+){{0,3}}[-, ]+)?"
    rf"(?P<shape>{_NAMES})(?:e?s)?\b"
)
_AFTER = re.compile(
    r"(?:[, -]"
    r"|\b(?:in|that|which|is|are|has|with|of|the|a|colou?r(?:ed)?|fill(?:ed)?|painted|drawn|shaded|tinted|solid)\b)*"
    rf"\b{_PAINT}\b(?! background)"
)
"""A colour after the shape: "a circle in red", "a circle, red, …"."""
_ENTRY = re.compile(
    r"\{shape:\s*(?P<shape>[a-z ]{1,40}),\s*colou?r:\s*(?P<colour>#[0-9a-f]{6}|[a-z ]{1,20}),"
    r"\s*center:\s*\((?P<x>\d{1,3}),\s*(?P<y>\d{1,3})\)"
)
_POINT = re.compile(r"\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_TOPIC = re.compile(r"(drawing|my picture|my svg|rendering)\b|target\b")
_HEDGE = re.compile(rf"\b(?:or|{DOUBTS})\b")
_WORD = re.compile(r"[a-z]+")
_NOT = re.compile(rf"\b(?:no|without|{DENIALS})\b[a-z ]{{0,30}}$")


class _Claim(NamedTuple):
    shape: str
    colour: str
    at: tuple[int, int] | None
    third: tuple[int | None, int | None]  # -1 left or top, 0 middle, 1 right or bottom
    hedged: bool
    words: str


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over elements. Each claim needs a shape and a colour or a place, and an element of its own that fits.

    Words before "drawing" speak of the target, words after it of the drawing. A description must cover
    the target, a prediction the drawing if there is one.
    """
    truth: Any = state
    marks = Marks()
    about = {"target": truth.target, "drawing": truth.drawing or ()}
    aim = "drawing" if part == "world_modeling" and truth.drawing is not None else "target"
    for name, claims in _read(text, aim):
        right, faults = _match(claims, about[name])
        marks.right += right
        marks.found += right
        for fault in faults:
            marks.fault(f"{name}: {fault}")
        if name == aim or claims:
            marks.wanted += len(about[name])
    return marks


def _read(text: str, aim: str) -> list[tuple[str, tuple[_Claim, ...]]]:
    """The claims about the target and about the drawing; words that name neither are about `aim`."""
    text = plain(text).replace("\n", ".")
    said: dict[str, tuple[_Claim, ...]] = {"target": (), "drawing": ()}
    topic = aim
    for sentence in text.split("."):
        for named, claims in _sentence(sentence) if sentence else ():
            topic = named or topic
            said[topic] += claims
    return [(name, claims[:MAX_CLAIMS]) for name, claims in said.items()]


@functools.lru_cache(maxsize=8192)
def _sentence(sentence: str) -> list[tuple[str, tuple[_Claim, ...]]]:
    """What is spoken of, if it is said, and claims about it."""
    starts = [match.start() for match in _TOPIC.finditer(sentence)]
    pieces = [sentence[a:b] for a, b in itertools.pairwise([0, *starts, len(sentence)])]
    found = []
    for piece in pieces:
        named = _TOPIC.match(piece)
        topic = "" if named is None else "drawing" if named[1] else "target"
        found.append((topic, _claims(piece)))
    return found


def _claims(piece: str) -> tuple[_Claim, ...]:
    if "{" in piece:
        entries = [
            _Claim(
                _SHAPES.get(shape := entry["shape"].split()[-1], shape),
                entry["colour"],
                (int(entry["x"]), int(entry["y"])),
                (None, None),
                False,
                entry[0],
            )
            for entry in _ENTRY.finditer(piece)
        ]
        if entries:
            return tuple(entries)
    return tuple([claim for part in piece.split(";") for claim in _clause(part)])


@functools.lru_cache(maxsize=65536)
def _clause(part: str) -> tuple[_Claim, ...]:
    """The claims of a part between semicolons."""
    found: list[_Claim] = []
    doubtful = _HEDGE.search(part) is not None
    matches = list(_CLAIM.finditer(part))[: 2 * MAX_CLAIMS]
    end = 0
    for i, match in enumerate(matches):
        lead = part[max(end, match.start() - 80) : match.start()]
        if _NOT.search(lead):
            end = match.end()
            continue
        following = matches[i + 1].start() if i + 1 < len(matches) else len(part)
        rest = part[match.end() : min(following, match.end() + 80)]
        end = match.end()
        point = _POINT.search(rest) if "(" in rest else None
        spot = (int(point[1]), int(point[2])) if point else None
        painted = match if match["colour"] else _AFTER.match(rest)
        third = (None, None) if point else _third(rest)
        if painted is None and spot is None and third == (None, None):
            continue
        colour = "" if painted is None else _COLOURS.get(painted["colour"], painted["colour"])
        if painted is not None and painted["tone"] in ("light", "dark"):
            colour = f"{painted['tone']} {colour}"
        shape = match["shape"]
        hedged = doubtful and bool(_HEDGE.search(lead) or _HEDGE.search(rest))
        found.append(_Claim(_SHAPES.get(shape, shape), colour, spot, third, hedged, f"{match[0]}{rest[:20]}".strip()))
    return tuple(found)


def _third(rest: str) -> tuple[int | None, int | None]:
    words = set(_WORD.findall(rest))
    across = -1 if "left" in words else 1 if "right" in words else None
    down = -1 if words & {"top", "upper"} else 1 if words & {"bottom", "lower"} else None
    if across is None and down is None and words & {"middle", "center", "centre"}:
        return 0, 0
    return across, down


@functools.lru_cache(maxsize=4096)
def _match(claims: tuple[_Claim, ...], elements: Any) -> tuple[int, tuple[str, ...]]:
    """Give as many claims as possible an element of their own (augmenting paths): how many, and the rest in words."""
    seen = [(each, _named(each.colour)) for each in elements]
    fits = [
        [] if claim.hedged else [i for i, (each, colour) in enumerate(seen) if _fits(claim, each, colour)]
        for claim in claims
    ]
    owner: dict[int, int] = {}

    def place(number: int, tried: set[int]) -> bool:
        for i in fits[number]:
            if i not in tried:
                tried.add(i)
                if i not in owner or place(owner[i], tried):
                    owner[i] = number
                    return True
        return False

    faults = [claim.words for number, claim in enumerate(claims) if not place(number, set())]
    return len(owner), tuple(faults)


def _fits(claim: _Claim, element: Any, colour: tuple[str, str]) -> bool:
    shape, said, at, (across, down), _, _ = claim
    if at is not None and (abs(at[0] - element.x) > TOLERANCE or abs(at[1] - element.y) > TOLERANCE):
        return False
    if shape not in (element.shape, "shape") and (shape not in _ROUND or element.shape not in _ROUND):
        return False
    if across is not None and across != (element.x > 60) - (element.x < 40):
        return False
    if down is not None and down != (element.y > 60) - (element.y < 40):
        return False
    if said.startswith("#"):
        pairs = zip(bytes.fromhex(said[1:]), bytes.fromhex(element.colour[1:]), strict=True)
        return all(abs(a - b) <= 48 for a, b in pairs)
    return not said or said in colour


@functools.lru_cache(maxsize=4096)
def _named(colour: str) -> tuple[str, str]:
    """The name of a colour, and without light or dark."""
    from vagen_envs.svg.state import colour_name

    name = colour_name(colour)
    return name, name.split()[-1]
