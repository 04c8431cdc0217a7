"""Sentences about pictures: clause by clause the elements that are claimed, by shape, colour, place and size."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import itertools
import re
from typing import NamedTuple

from vagen_rewards.rules import colours
from vagen_rewards.rules.lexicon import by_first_letter, nouns
from vagen_rewards.rules.modality import DENIALS, hedges, hedges_and_denies, mentions
from vagen_rewards.rules.svg_places import with_middles

# Four for each of the 16 elements that an observation tells apart (`svg.state.MOST_ELEMENTS`).
MAX_CLAIMS = 64

_NOUNS = nouns("svg")
_SHAPES = {phrase: shape for shape, each in _NOUNS.items() for phrase in each if shape not in ("drawing", "target")}
_GLYPHS = ("symbol", "icon", "glyph", "logo", "emblem", "sign", "pictogram")
"""What is drawn on a background, and is none."""
DRAWN = ("circle", "ellipse", "rectangle", "triangle", "line", "text")
"""Shapes that an element's own name says; any other is "shape"."""

_NAMES = by_first_letter(re.escape(name) for name in sorted(_SHAPES, key=len, reverse=True))
ROUND = ("circle", "ellipse")
_COLOUR = f"(?:{colours.pattern()})"
_ISH = r"(?:(?:reddish|orangish|yellowish|greenish|bluish|purplish|pinkish|brownish|grayish|greyish)[ -])?"
_TONES = {
    **dict.fromkeys(("lighter", "darker", "paler", "deeper", "brighter"), ""),
    "light": "light",
    "medium": "",
    "mid": "",
    "pale": "light",
    "pastel": "light",
    "dark": "dark",
    "deep": "",
    "bright": "",
    "vivid": "",
}
_TONE = rf"(?:(?P<tone>{'|'.join(_TONES)})[ -])?"
_PAINT = rf"{_TONE}{_ISH}(?P<colour>#[0-9a-f]{{6}}|\b{_COLOUR}(?:ish)?)(?:[-/](?P<colour2>{_COLOUR})\b)?"
_CLAIM = re.compile(
    rf"(?<![\w#])(?:{_PAINT}(?:[-, (]+(?:#[0-9a-f]{{6}}\)?)?"
    rf"(?!(?:and|or|on|in|at|with|of|is|near|{_COLOUR}|{_NAMES})\b)[a-z]+){{0,3}}[-, ]+)?"
    rf"\b(?P<shape>{_NAMES})(?P<plural>e?s)?\b(?! of (?:the )?(?:target|picture|image|width|height|canvas|colou?rs?)\b)"
)
_SHARED = re.compile(
    rf"\b(an? (?:[a-z]+ )??(?:{_TONE.replace('?P<tone>', '')})?{_COLOUR}),?((?:,? (?:and|&)|,) (?:an? )?"
    rf"(?:[a-z]+ )??(?:{_TONE.replace('?P<tone>', '')})?{_COLOUR}) (?P<noun>{_NAMES})(?P<plural>e?s)?\b"
)
"""In "a white and a black shape" both have the noun."""

_ONES = re.compile(rf"(?<=[a-z ])({_COLOUR}) ones?\b")
_SIZE = re.compile(
    r"(?P<w>\d{1,3})\s*%?\s*(?:by|x|×|\*)\s*(?P<h>\d{1,3})\b|(?P<w2>\d{1,3})\s*%?(?: of the (?:width|picture|image))? wide\b(?:(?:,| and| by)* ~?(?P<h2>\d{1,3})\s*%? (?:high|tall)\b)?"
    r"|(?P<w3>\d{1,3})\s*% of the width"
)
_AFTER = re.compile(
    r"(?:[, :=(\[-]"
    r"|\b(?:in|that|which|whose|its?|'s|is|are|will|be|has|with|of|the|a|colou?r(?:ed)?|fill(?:ed)?|painted|drawn|shaded"
    r"|tinted|solid|outlined?|border|stroke|edge|very|quite|all|completely|entirely|not [a-z]+,? but)\b|'s\b)*"
    rf"{_PAINT}\b(?! background)"
)
"""A colour after the shape: "a circle in red", "a circle, red, …"."""
_LATER = re.compile(
    r"\b(?:is|are|will be|appears|coloured|colored)\s(?:(?:a|an|the|solid|mostly|very|all|filled|painted|coloured|colored|in|with|plain"
    rf"|now|still|also|entirely) )*{_PAINT}\b(?! background)"
)
"""And after its place: "the circle at the top is red"."""
_ENTRY = re.compile(
    r"\{shape:\s*(?P<shape>[a-z][a-z ]{0,40}),\s*colou?r:\s*(?P<colour>#[0-9a-f]{6}|[a-z][a-z ]{0,20}),"
    r"\s*center:\s*\((?P<x>\d{1,3}),\s*(?P<y>\d{1,3})\)"
)
_POINT = re.compile(
    r"(?<!size )(?<!size of )[(\[]\s*(?:x\s*=\s*)?(\d{1,3})\s*%?\s*,\s*(?:y\s*=\s*)?(\d{1,3})\s*%?\s*[)\]]"
    r"|\bx\s*[=:]?\s*(\d{1,3})\s*%?\s*,?\s*(?:and )?(?:cent(?:er|re) )?y\s*[=:]?\s*(\d{1,3})"
    r"|\b(?:at|around|near|about|coordinates|cent(?:er|re)(?:ed)?|centred|middle) (\d{1,3})\s*,\s*(\d{1,3})\b"
    r"|(\d{1,3})\s*% (?:from|of) the left(?: edge| side)?(?:,? and|,) (?:about |around )?(\d{1,3})\s*% (?:from|of) the top"
    r"|(\d{1,3})\s*% (?:across|horizontally)(?:,? and|,) (?:about |around )?(\d{1,3})\s*% (?:down|vertically)"
)
_SHAPED = re.compile(
    r"\b(circular|round|rectangular|triangular|oval|elliptical|square)((?:[ ,]+(?!with\b|and\b|on\b|in\b)[a-z]+){0,2}?)"
    r" (?:shape|figure|form|object|element|patch|piece)(s?)\b"
)
_SHAPELY = ("circular", "round", "angular", "oval", "elliptical", "square")
_AS_NOUN = {"circular": "circle", "round": "circle", "rectangular": "rectangle", "triangular": "triangle",
            "elliptical": "ellipse"}  # fmt: skip
_MANY = re.compile(
    r"\b(two|three|four|five|six|several|many|multiple|various|both|(?:a )?pair of|a few|\d{1,2})(?: [a-z]+)? *$"
)
_NUMBERS = {"three": 3, "four": 4, "five": 5, "six": 6}
_OTHERWISE = re.compile(r"\b(?:not(?! [a-z]+,? but\b)|nor|rather than|instead of)\b[^,;]*")
_PLANNED = re.compile(
    r"\b(?:needs?|wants?|have|has|plans?|try|aims?|hopes?) to (?:be )?"
    r"(?:add|draw|paint|includ|put|chang|mov|mak)[a-z]*\b[a-z ]{0,30}$"
    r"|\b(?:i|we) (?:will|shall|am going to) (?:now |then |also |next )?(?:add|draw|paint|put|place|change|make|include)\b[a-z ]{0,30}$"
)
_FRONTED = re.compile(
    r"(?P<by>^|,|\band\b|\bwhile\b|\bbut\b|\bwith\b) *(?P<place>(?:in|at|on|near|towards?|to|along) "
    r"(?:(?!\band\b)[^,]){0,40}?\b(?:left|right|top|bottom|middle|cent(?:er|re)|corner|part|side|half)\b"
    r"(?: of (?:it|(?:the|my) [a-z]+(?: image| picture)?))?),? *"
    r"(?P<verb>(?:there (?:is|are|will be)|is|are|sits?|stands?|lies|rests|i (?:can )?see|we (?:can )?see"
    r"|you (?:can )?see"
    r"|appears|it has|shows|i notice|:)\b)? *(?:also |just )?(?:an?|the|one|another|two|three|some)? *(?:[a-z]+ )?$"
)
"""A place before its element: "in the lower left there is a …"."""

_PLACES = ("left", "right", "top", "bottom", "middle", "cent", "corner", "part", "side", "half")
"""One of these is in each of them."""
_TOPIC = re.compile(
    r"(drawing(?<!\ba drawing)(?<!\ban drawing)|rendering|\bmine"
    r"|\bmy (?:current |own |last |latest |first )?(?:picture|svg|image|render|output|attempt|canvas|version|result|code))\b|target\b"
)
_WORD = re.compile(r"[a-z]+")
_DIGIT = re.compile(r"\d")
_NOT = re.compile(rf"\b(?:no|without|{DENIALS})\b[a-z ]{{0,45}}$")

_UNDONE = re.compile(
    r"[a-z ,-]{0,40}?\b(?<!that )(?<!which )(?:(?:is|was|are|were|has|have|had|does|did|do|can?|could|would|will) "
    r"(?:not|never|hardly|nowhere)|cannot|(?:has been|have been|will be) (?:removed|deleted|erased)|is (?:missing|absent|gone))\b(?! [a-z]+,? but\b)"
)
"""After an element: "a red circle was not found"."""


class Drawn(NamedTuple):
    """An element as it is claimed; places and sizes in percent, `None` and "" where they aren't said."""

    shape: str
    colour: str
    at: tuple[int, int] | None
    third: tuple[int | None, int | None]  # -1 left or top, 0 middle, 1 right or bottom
    size: tuple[int | None, int | None]
    hedged: bool
    words: str


_NO_PLACE = re.compile(r"\bright (?=(?:place|size|spot|position|colou?r|shape)s?\b)|\ball right\b")
_EMPTY = ("nothing", "no drawing", "empty", "blank")
_EMPTY_TAIL = re.compile(r"(?:,| and| while| whereas| but)[^,;]{0,40}\b(?:nothing|no drawing|empty|blank)\b[^;]*$")
"""In "…, on the right side nothing is drawn" that side is no place of what came before."""

PAINTED = re.compile(rf"(?:#[0-9a-f]{{6}}|\b{_COLOUR})\b(?! background)")
_ITS_COLOUR = re.compile(
    rf"\b((?:filled(?: with| in)?|fill ?[:=]|in|is|colou?red|painted(?: in)?) (?:#[0-9a-f]{{6}}|(?:[a-z]+ )?{_COLOUR}))"
    rf"(?:,| and)(?= (?:an? |the |one )?(?:[a-z]+ )??(?:{_NAMES})\b)"
)
"""In "disc filled with red, bar in blue" the red is the disc's."""


_NAMELESS = re.compile(
    rf"(^\W*(?:(?:light|pale|dark|deep|bright)[ -])?{_COLOUR})(?=\s*[,:(~])"
    rf"|\b({_COLOUR}) (?!(?:{_NAMES}|{_COLOUR}|background|canvas|and|or|with|one|ones|colou?rs?|shades?|tones?|filled?|fill|outline[ds]?"
    r"|border|stroke|in|on|at|is|are|of|the|round(?:ed)?|circular|rectangular|triangular|oval|solid|vertical|horizontal|thin|large|small|big|tiny"
    r"|part|drawing|target|image|picture|side|from|to|by|as|but|while|which|that|near|inside|around|below|above|under|over|behind|there|it|its|next"
    r"|sits|covers|fills|has|shows|instead|only|too|also|here|now|then|not)(?:e?s)?\b)[a-z]{3,}"
    r"(?=\s*(?:[,.;:()]|$|and\b|with\b|on\b|in\b|at\b|near\b|around\b|below\b|above\b|under(?:neath)?\b|behind\b|inside\b))"
)
"""A colour of what has no name here: "green grass underneath", "dark green, 88 by 87"."""


def plainer(words: str) -> str:
    """With a noun for every colour that shares one, and for "circular shape"."""
    if mentions(words, _EMPTY):
        words = _EMPTY_TAIL.sub("", words)
    words = with_middles(words)
    words = _NO_PLACE.sub("", words).replace(" of the target", "").replace("+", " and ").replace("*", "")
    if "|" in words:
        words = words.strip(" |").replace("|", ",")
    if not words.isascii():
        words = words.replace("–", "-").replace("—", "-")
    if "," in words or " and " in words:
        words = _ITS_COLOUR.sub(r"\1;", words)
    words = _NAMELESS.sub(lambda match: f"{match[1] or match[2]} shape", words)
    if mentions(words, _SHAPELY):
        words = _SHAPED.sub(_shaped, words)
    if " and " in words or " & " in words:
        words = _SHARED.sub(lambda match: f"{match[1]} {match['noun']}{match[2]} {match['noun']}", words)
    if " one" in words:
        words = _ONES.sub(r"\1 shape", words)
    return words


@functools.lru_cache(maxsize=8192)
def claims_in(sentence: str) -> list[tuple[str, tuple[Drawn, ...], bool]]:
    """What is spoken of, if it is said, claims about it, and whether no colour is left over."""
    starts = [match.start() for match in _TOPIC.finditer(sentence)]
    pieces = [sentence[a:b] for a, b in itertools.pairwise([0, *starts, len(sentence)])]
    found = []
    for piece in pieces:
        named = _TOPIC.match(piece)
        topic = "" if named is None else "drawing" if named[1] else "target"
        found.append((topic, *_claims(piece)))
    return found


def _claims(piece: str) -> tuple[tuple[Drawn, ...], bool]:
    if "{" in piece:
        piece = piece.translate(_BARE)
        entries = [
            Drawn(
                _SHAPES.get(shape := entry["shape"].split()[-1], shape),
                entry["colour"],
                (int(entry["x"]), int(entry["y"])),
                (None, None),
                (None, None),
                False,
                entry[0],
            )
            for entry in _ENTRY.finditer(piece)
        ]
        if entries:
            return tuple(entries), True
    read = [_clause(part) for part in piece.split(";")]
    return tuple([claim for claims, _ in read for claim in claims]), all(clear for _, clear in read)


_BARE = str.maketrans("[]", "()", "\"'")


@functools.lru_cache(maxsize=65536)
def _clause(part: str) -> tuple[tuple[Drawn, ...], bool]:
    """The claims of a part between semicolons, and whether no shape has a colour that wasn't read."""
    clear = True
    found: list[Drawn] = []
    doubtful, denied = hedges_and_denies(part)
    matches = list(_CLAIM.finditer(part))[: 2 * MAX_CLAIMS]
    end = 0
    fronted = ""
    for i, match in enumerate(matches):
        place = fronted
        lead = part[max(end, match.start() - 80) : match.start()]
        following = matches[i + 1].start() if i + 1 < len(matches) else len(part)
        rest = part[match.end() : min(following, match.end() + 80)]
        if i == 0:
            place = _fronted(lead, first=True)[0]
        fronted, cut = _fronted(rest, first=False) if following < len(part) else ("", len(rest))
        end = match.end()
        if (denied and (_NOT.search(part, 0, match.start()) or _UNDONE.match(rest))) or (
            (" to " in lead or "will" in lead) and _PLANNED.search(lead)
        ):
            continue
        rest = _OTHERWISE.sub("", rest[:cut]) if "not " in rest or " of" in rest or " than" in rest else rest[:cut]
        claim = _element(match, lead, rest, place, doubtful)
        if claim is not None and not claim.colour and (PAINTED.search(rest) or (i == 0 and PAINTED.search(lead))):
            clear = False  # its colour is said in words that aren't known: the rest alone isn't what is claimed
        elif claim is not None:
            found += [claim] * _count(match, lead)
    return tuple(found), clear


_ANOTHER_NOUN = re.compile(r" (?!(?:and|or|in|with|at|on|of|near|around|colou?r|shade|fill|tone)\b)[a-z]{3,}")


def _element(match: re.Match[str], lead: str, rest: str, place: str, doubtful: bool) -> Drawn | None:
    """The claim of a shape with a colour or a place; `None` if it has neither."""
    point = _POINT.search(rest) if _DIGIT.search(rest) else None
    numbers = [int(number) for number in point.groups() if number] if point else []
    spot = (numbers[0], numbers[1]) if numbers else None
    painted = match if match["colour"] else _AFTER.match(rest) or _LATER.search(rest)
    if (
        painted is not None
        and painted is not match
        and rest.startswith(":")
        and _ANOTHER_NOUN.match(rest, painted.end())
    ):
        painted = None  # "icon: blue head, …"
    third = (None, None) if point else _third(rest)
    if third == (None, None) and place and not point:
        third = _third(place)
    if painted is None and spot is None and third == (None, None):
        return None
    shape = match["shape"]
    hedged = doubtful and (hedges(lead) or hedges(rest))
    words = f"{match[0]}{rest[:20]}".strip()
    return Drawn(
        "symbol" if shape in _GLYPHS else _SHAPES[shape], _colour(painted), spot, third, _size(rest), hedged, words
    )


def _colour(painted: re.Match[str] | None) -> str:
    """The tone and the name, or the two names of a mixture, as `_called` reads them."""
    if painted is None:
        return ""
    said = colours.canonical(painted["colour"].removesuffix("ish"))
    other = f"/{colours.canonical(painted['colour2'])}" if painted["colour2"] else ""
    tone = _TONES[painted["tone"]] if painted["tone"] else ""
    return f"{tone} {said}{other}".strip()


def _size(rest: str) -> tuple[int | None, int | None]:
    match = _SIZE.search(rest) if _DIGIT.search(rest) else None
    if match is None:
        return None, None
    width = match["w"] or match["w2"] or match["w3"]
    height = match["h"] or match["h2"]
    return int(width), int(height) if height else None


def _shaped(match: re.Match[str]) -> str:
    """With "a red circle" for "a circular red shape"."""
    noun = _AS_NOUN.get(match[1], match[1])
    return f"{match[2].lstrip(' ,')} {noun}{match[3]}".strip()


def _fronted(lead: str, first: bool) -> tuple[str, int]:
    """The place at the end of some words that is the next element's, and where it begins."""
    match = _FRONTED.search(lead) if mentions(lead, _PLACES) else None
    if match is None or not (first or match["by"] not in ("", ",") or match["verb"]):
        return "", len(lead)
    return match["place"], match.start()


def _count(match: re.Match[str], lead: str) -> int:
    """Of how many elements the words speak: a plural of at least two."""
    if not match["plural"]:
        return 1
    many = _MANY.search(lead) if lead else None
    if many is None:
        return 2
    number = int(many[1]) if many[1].isdecimal() else _NUMBERS.get(many[1], 2)
    return max(1, min(number, MAX_CLAIMS))


def _third(rest: str) -> tuple[int | None, int | None]:
    words = set(_WORD.findall(rest))
    across = -1 if "left" in words else 1 if "right" in words else None
    down = -1 if words & {"top", "upper"} else 1 if words & {"bottom", "lower"} else None
    if words & {"middle", "center", "centre"}:  # "top center" is in the middle of the top
        return (0, 0) if across is None and down is None else (across or 0, down or 0)
    return across, down
