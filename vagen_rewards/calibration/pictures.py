"""Statements about SVG reconstruction: elements by shape, colour and place."""

from __future__ import annotations

from typing import Any

from vagen_envs.seeding import HashStream
from vagen_envs.svg.state import Element, colour_name
from vagen_rewards.calibration.boards import Made
from vagen_rewards.scores import Part

_PLACES = {(-1, -1): "top left", (0, -1): "top", (1, -1): "top right", (-1, 0): "left", (0, 0): "middle",
           (1, 0): "right", (-1, 1): "bottom left", (0, 1): "bottom", (1, 1): "bottom right"}  # fmt: skip
_COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "brown", "pink")


def make(
    kind: str, templates: dict[str, Any], category: str, state: Any, other: Any, part: Part, stream: HashStream
) -> Made:
    """A statement of a category with its label; `None` where this state has none.

    Elements whose middle is near the border between two places are not spoken of.
    """
    words = templates["svg"]
    drawn = part == "world_modeling" and bool(state.drawing)
    elements = state.drawing if drawn else state.target
    clear = [each for each in elements if _place(each) is not None]
    if category == "empty":
        return str(stream.choice(words["empty"])), False
    if not clear:
        return None
    chosen = stream.sample(clear, 1 + stream.below(min(2, len(clear))))
    first = chosen[0]
    said = [(each.shape, colour_name(each.colour), each.x, each.y, _place(each) or "") for each in chosen]

    def say(claims: Any) -> str:
        text = stream.choice(words["drawn"] if drawn else words["sentences"])
        told = [_element(each, words, stream, category == "equivalent") for each in claims]
        text = text.format(e=told[0]) + "".join(stream.choice(words["more"]).format(e=each) for each in told[1:])
        return str(text[:1].upper() + text[1:])

    if category in ("true", "equivalent"):
        return say(said), True
    if category == "stale":
        theirs = [each for each in other.target if _place(each) is not None]
        if not theirs:
            return None
        each = stream.choice(theirs)
        claim = (each.shape, colour_name(each.colour), each.x, each.y, _place(each) or "")
        fits = _is_there(claim, elements)
        return None if fits is None else (say([claim]), fits)
    wrong = _changed(said[0], stream)
    if category == "off_by_one":
        return (say([*said[1:], wrong]), False) if _is_there(wrong, elements) is False else None
    if category == "appendix_e":
        return None
    another = stream.choice([each for each in _COLOURS if each not in colour_name(first.colour)])
    name = {"other_language": "languages"}.get(category, category)
    text = stream.choice(words[name]).format(s=first.shape, c=colour_name(first.colour), d=another)
    return text, category == "other_language"


Told = tuple[str, str, int, int, str]


def _element(claim: Told, words: dict[str, Any], stream: HashStream, synonyms: bool) -> str:
    shape, colour, x, y, place = claim
    if synonyms:
        shape = stream.choice(words["shapes"].get(shape, [shape]))
        tone, _, plain = colour.rpartition(" ")
        colour = f"{tone} {stream.choice(words['colours'].get(plain, [plain]))}".strip()
    text: str = stream.choice(words["elements"])
    return text.format(c=colour, s=shape, p=stream.choice(words["places"][place]), x=x, y=y)


def _place(element: Element) -> str | None:
    """Which ninth of the picture its middle is in; `None` near a border between two."""
    at = []
    for middle in (element.x, element.y):
        if 33 <= middle <= 43 or 57 <= middle <= 67:
            return None
        at.append((middle > 60) - (middle < 40))
    return _PLACES[at[0], at[1]]


def _changed(claim: Told, stream: HashStream) -> Told:
    """Another colour, or another place."""
    shape, colour, x, y, place = claim
    if stream.below(2):
        return shape, stream.choice([each for each in _COLOURS if each not in colour]), x, y, place
    moved = stream.choice([each for each in _PLACES.values() if each != place])
    across, down = next(key for key, name in _PLACES.items() if name == moved)
    return shape, colour, 50 + 40 * across, 50 + 40 * down, moved


_WHEEL = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink")
_BESIDES = {"brown": {"red", "orange", "yellow", "gray", "black"}, "gray": {"white", "black", "blue", "brown"},
            "white": {"gray"}, "black": {"gray", "brown"}}  # fmt: skip


def _might_be(name: str, other: str) -> bool:
    """Whether two plain names are one colour or neighbours, of which people may say either."""
    if name in _WHEEL and other in _WHEEL:
        return abs(_WHEEL.index(name) - _WHEEL.index(other)) % len(_WHEEL) in (0, 1, len(_WHEEL) - 1)
    return name == other or other in _BESIDES.get(name, ()) or name in _BESIDES.get(other, ())


def _is_there(claim: Told, elements: Any) -> bool | None:
    """Whether some element is so; `None` where one is nearly so and judges may differ."""
    shape, colour, x, y, place = claim
    alike = [
        each
        for each in elements
        if "shape" in (shape, each.shape) or shape == each.shape
        if _might_be(colour.split()[-1], colour_name(each.colour).split()[-1])
    ]
    if any(
        colour == colour_name(each.colour) and _place(each) == place and max(abs(each.x - x), abs(each.y - y)) <= 10
        for each in alike
    ):
        return True
    far = all(max(abs(each.x - x), abs(each.y - y)) > 20 and _is_elsewhere(each, place) for each in alike)
    return False if far else None


def _is_elsewhere(element: Element, place: str) -> bool:
    """Whether it plainly isn't there: "on the left" says nothing of top or bottom."""
    its = _place(element)
    if its is None or place == "middle":
        return its not in (None, place)
    return not set(place.split()) <= set(its.split())
