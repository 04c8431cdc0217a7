"""SVG: elements by shape, colour and place. The paper scores no reasoning here; this is ours."""

from __future__ import annotations

import importlib
import re
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_rewards.rules.marks import Marks
from vagen_rewards.scores import Part

TOLERANCE = 15
"""Percent of the picture by which a middle may be off."""

MAX_CLAIMS = 64

_SHAPES = {"square": "rectangle", "rect": "rectangle", "bar": "rectangle", "box": "rectangle", "disc": "circle",
           "disk": "circle", "dot": "circle", "ring": "circle", "oval": "ellipse", "stroke": "line", "letter": "text",
           "path": "shape", "polygon": "shape", "figure": "shape"}  # fmt: skip
_NAMES = "circle|ellipse|rectangle|triangle|line|text|shape|" + "|".join(_SHAPES)
_COLOURS = {"grey": "gray", "violet": "purple", "magenta": "pink", "turquoise": "cyan"}
_COLOUR = "black|white|gr[ae]y|red|orange|yellow|green|cyan|blue|purple|pink|brown|" + "|".join(
    set(_COLOURS) - {"grey"}
)
_CLAIM = re.compile(
    rf"(?:(?P<how>filled|solid|outlined|hollow) )?(?:(?P<tone>light|dark|pale|bright) )?(?:(?P<colour>{_COLOUR}) )?"
    rf"(?:(?:rounded|big|large|small|tiny|thin|thick) )*(?P<shape>{_NAMES})e?s?\b"
)
_ENTRY = re.compile(
    r"\{shape:\s*(?P<shape>[a-z ]{1,40}),\s*colou?r:\s*(?P<colour>#[0-9a-f]{6}|[a-z ]{1,20}),"
    r"\s*center:\s*\((?P<x>\d{1,3}),\s*(?P<y>\d{1,3})\)"
)
_POINT = re.compile(r"\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_DRAWING = re.compile(r"\b(?:drawing|my (?:picture|svg)|rendering)\b")
_TARGET = re.compile(r"\btarget\b")
_HEDGE = re.compile(r"\b(?:or|either|maybe|perhaps|might|possibly|some colou?r)\b")
_NOT = re.compile(r"\b(?:no|not|without)\b[a-z ]{0,16}$")


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
    said: dict[str, list[_Claim]] = {"target": [], "drawing": []}
    aim = "drawing" if part == "world_modeling" and truth.drawing is not None else "target"
    topic = aim
    lowered = text.lower()
    for piece in re.split(r"(?<=[.\n])|(?=\bdrawing\b)|(?=\btarget\b)", lowered):
        if _DRAWING.search(piece):
            topic = "drawing"
        elif _TARGET.search(piece):
            topic = "target"
        said[topic] += _claims(piece)
    for name, claims in said.items():
        _match(marks, name, claims[:MAX_CLAIMS], about[name])
        if name == aim or claims:
            marks.wanted += len(about[name])
    return marks


def _claims(piece: str) -> list[_Claim]:
    found = []
    entries = list(_ENTRY.finditer(piece))
    for entry in entries:
        shape = entry["shape"].split()[-1]
        at = (int(entry["x"]), int(entry["y"]))
        found.append(_Claim(_SHAPES.get(shape, shape), entry["colour"], at, (None, None), False, entry[0]))
    if entries:
        return found
    matches = list(_CLAIM.finditer(piece))
    for match, following in zip(matches, [*matches[1:], None], strict=False):
        if _NOT.search(piece[: match.start()]):
            continue
        end = following.start() if following else len(piece)
        rest = re.split(r"[;\n]", piece[match.end() : min(end, match.end() + 80)])[0]
        point = _POINT.search(rest)
        spot = (int(point[1]), int(point[2])) if point else None
        colour = match["colour"] or ""
        hedged = bool(_HEDGE.search(match[0] + rest) or re.search(r"\b(?:or|either) $", piece[: match.start()]))
        third = _third(rest)
        if colour or spot or third != (None, None):
            name = _COLOURS.get(colour, colour)
            tone = match["tone"] if match["tone"] in ("light", "dark") else ""
            shape = match["shape"]
            found.append(
                _Claim(
                    _SHAPES.get(shape, shape),
                    f"{tone} {name}".strip(),
                    spot,
                    third,
                    hedged,
                    piece[match.start() : match.end() + 20],
                )
            )
    return found


def _third(rest: str) -> tuple[int | None, int | None]:
    across = -1 if re.search(r"\bleft\b", rest) else 1 if re.search(r"\bright\b", rest) else None
    down = -1 if re.search(r"\b(?:top|upper)\b", rest) else 1 if re.search(r"\b(?:bottom|lower)\b", rest) else None
    if across is None and down is None and re.search(r"\b(?:middle|center|centre)\b", rest):
        return 0, 0
    return across, down


def _match(marks: Marks, name: str, claims: list[_Claim], elements: Any) -> None:
    """Give as many claims as possible an element of their own (augmenting paths)."""
    fits = [[] if claim.hedged else [i for i, each in enumerate(elements) if _fits(claim, each)] for claim in claims]
    owner: dict[int, int] = {}

    def place(number: int, seen: set[int]) -> bool:
        for i in fits[number]:
            if i not in seen:
                seen.add(i)
                if i not in owner or place(owner[i], seen):
                    owner[i] = number
                    return True
        return False

    for number, claim in enumerate(claims):
        if not place(number, set()):
            marks.fault(f"{name}: {claim.words.strip()}")
    marks.right += len(owner)
    marks.found += len(owner)


def _fits(claim: _Claim, element: Any) -> bool:
    if claim.shape not in ("shape", element.shape) and {claim.shape, element.shape} != {"circle", "ellipse"}:
        return False
    if claim.at and max(abs(claim.at[0] - element.x), abs(claim.at[1] - element.y)) > TOLERANCE:
        return False
    for third, middle in zip(claim.third, (element.x, element.y), strict=True):
        if third is not None and third != (middle > 60) - (middle < 40):
            return False
    if claim.colour.startswith("#"):
        pairs = zip(bytes.fromhex(claim.colour[1:]), bytes.fromhex(element.colour[1:]), strict=True)
        return all(abs(a - b) <= 48 for a, b in pairs)
    truth = importlib.import_module("vagen_envs.svg.state").colour_name(element.colour)
    return not claim.colour or claim.colour == truth or claim.colour == truth.split()[-1]
