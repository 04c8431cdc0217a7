"""SVG.

Painted elements by colour, shape, place and size. The paper scores no reasoning here; this is ours.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_envs.svg.state import colour_name
from vagen_rewards.reader import colours
from vagen_rewards.reader.claims import Claim, Fact, Marks, Part, Reading, Span, Verdicts, every
from vagen_rewards.reader.clauses import Clause, Relation
from vagen_rewards.reader.dictionaries import Dict, data_in, numbers_of, words_in
from vagen_rewards.reader.sentences import World, read_sentences
from vagen_rewards.reader.words import Word, phrases

TOLERANCE = 15
"""Percent of the picture that a middle may be off."""

MOST_OFF = 20
"""Percent of the picture that a size may be off."""

MOST_UNCLEAR = 5
"""Percent of the picture around its middle where observers differ about sides."""

SIDES = {"up": ("y", -1), "down": ("y", 1), "left": ("x", -1), "right": ("x", 1)}


class Painted(NamedTuple):
    """The target, or the drawing, has such an element.

    Places and sizes in percent of the picture.
    """

    where: str  # `target` or `drawing`
    shape: str  # `any` of "symbol", `nothing` if the picture is empty, `alike` if both are
    tone: str  # `light`, `dark` or nothing
    colour: str  # a name or `#rrggbb`
    at: tuple[int, int] | None = None  # its middle
    size: tuple[int | None, int | None] = (None, None)  # width and height
    many: int = 1  # so many of them
    place: str = ""  # such as `up left`

    def holds(self, state: Any) -> bool | None:
        """Whether an element fits; `None` if observers may differ about its colour or shape."""
        if self.shape in ("nothing", "alike"):
            drawing = getattr(state, self.where)
            if self.shape != "alike":
                return not drawing
            if drawing == state.target:
                return True
            return None if drawing else False
        verdicts = [self.fits(element) for element in getattr(state, self.where) or ()]
        if verdicts.count(True) >= self.many:
            return True
        return None if len(verdicts) - verdicts.count(False) >= self.many else False

    def fits(self, element: Any) -> bool | None:
        """Whether an element has this shape, colour, place and size; None if that can't be told."""
        if self.at is not None:
            x, y = self.at
            if abs(x - element.x) > TOLERANCE or abs(y - element.y) > TOLERANCE:
                return False
        shape = self._is_shape(element.shape)
        if shape is False or not self._is_as_large(element):
            return False
        sides = [(getattr(element, axis) - 50) * sign for axis, sign in self._place()]
        if any(off < -MOST_UNCLEAR for off in sides):
            return False
        doubted: list[bool | None] = [None for off in sides if off < MOST_UNCLEAR]
        return every([shape, _called(element.colour, self.tone, self.colour), *doubted])

    def _is_as_large(self, element: Any) -> bool:
        wide, high = self.size
        if wide is not None and abs(wide - element.width) > MOST_OFF:
            return False
        return high is None or abs(high - element.height) <= MOST_OFF

    def _is_shape(self, shape: str) -> bool | None:
        both = {self.shape, shape}
        if len(both) == 1 or both == {"circle", "ellipse"} or self.shape == "any":
            return True
        return None if "shape" in both or both == {"line", "rectangle"} else False

    def _place(self) -> list[tuple[str, int]]:
        return [SIDES[way] for way in self.place.split()]

    def __str__(self) -> str:
        at = f" at {self.at}" if self.at else ""
        words = f"the {self.where} has a {self.tone} {self.colour} {self.shape}{at}"
        return words.replace("  ", " ")


_TONES = {
    **dict.fromkeys(("pale", "pastel", "baby", "light"), "light"),
    "dark": "dark",
}
"""The tone that a word before a colour names."""


@functools.lru_cache(maxsize=65536)
def _called(colour: str, tone: str, name: str) -> bool | None:
    """Whether `#rrggbb` goes by a name; `None` if observers may differ."""
    if f"{tone} {name}".strip() == colour_name(colour):
        return True
    tone = _TONES.get(tone, "")
    if colours.may_be_called(colour, name, tone):
        return True
    return None if colours.could_be_called(colour, name) else False


def claims_of(kind: str, text: str, part: Part) -> Reading:
    """Elements in dictionaries and sentences.

    A text that names neither picture speaks of the target, or predicts.
    """
    claims: list[Claim] = []
    unread: list[tuple[Span, bool]] = []
    where = "drawing" if part == "world_modeling" else "target"
    found, plain = data_in(text, lambda _entries: False)
    for data in found:
        own = [*_of_data(data.value, where, data.span)]
        claims += [Claim(span, fact) for fact, span in own if fact is not None]
        unread += [(span, True) for fact, span in own if fact is None]
        if not own:
            start, end = data.span
            plain = plain[:start] + text[start:end] + plain[end:]
    told = read_sentences(World(kind, _told, "elements", _joined), plain, part, where)
    if told.retracts:
        return Reading.of_none(text)
    return Reading.of([*claims, *told.claims], [*unread, *told.unread])


def _told(clause: Clause, where: str) -> tuple[list[Fact] | None, str]:
    """The elements of a sentence, and the picture that it names or that was named before."""
    where = clause.value.get("PICTURE", where)
    return _facts(clause, where), where


def _joined(words: list[Word]) -> list[Word]:
    """One joint between elements, and none at the ends."""
    found: list[Word] = []
    for word in words:
        if word.kind != "AND" or (found and found[-1].kind != "AND"):
            found.append(word)
    return found[:-1] if found and found[-1].kind == "AND" else found


def _facts(clause: Clause, where: str) -> list[Fact] | None:
    """The elements of a sentence.

    One for each colour with a shape, with the places and sizes that follow it.
    """
    if clause.form == "blank":
        return [Painted(where, "nothing", "", "")]
    if clause.form == "alike":
        return [Painted("drawing", "alike", "", "")] if where == "drawing" else None
    found: list[Painted] = []
    for relation in clause.relations:
        if relation.how == "element":
            tone = relation.value.get("TONE", "")
            count = int(relation.amount or 1)
            shape = relation.value["SHAPE"]
            colour = relation.value["COLOUR"]
            found.append(Painted(where, shape, tone, colour, many=count))
        elif not found or (changed := _with(found[-1], relation)) is None:
            return None
        else:
            found[-1] = changed
    return list(found)


def _with(element: Painted, relation: Relation) -> Painted | None:
    """The element with a place or a size; `None` if it has one, or the place can't be."""
    if relation.how in ("middle", "place"):
        if element.at or element.place:
            return None
        point = relation.value.get("CELL", (50.0, 50.0))
        if relation.how == "place":
            return element._replace(place=" ".join(relation.ways))
        return element._replace(at=(int(point[0]), int(point[1]))) if len(point) == 2 else None
    wide, high = element.size
    number = int(relation.amount or 0) * (2 if relation.how == "radius" else 1)
    if relation.how != "high":
        wide = number if wide is None else None
    if relation.how != "wide":
        high = number if high is None else None
    return element._replace(size=(wide, high))


# -- dictionaries


def _of_data(value: Any, where: str, span: Span) -> Iterator[tuple[Painted | None, Span]]:
    """Each element, `None` for one that can't be read."""
    if isinstance(value, Dict):
        if value.get("shape", "type", "kind") and value.get("color", "colour", "fill"):
            yield _element(value, where), span
            return
        for entry in value:
            key = words_in(entry.key)
            topic = next((name for name in ("target", "drawing") if name in key), where)
            if topic in key and str(entry.value).lower() in ("none", "null", "[]"):
                yield Painted(topic, "nothing", "", ""), entry.span
            yield from _of_data(entry.value, topic, entry.span)
    elif isinstance(value, list):
        for each in value:
            yield from _of_data(each, where, span)


def _is_pair(numbers: Sequence[float] | None) -> bool:
    """Whether these are two numbers, or none."""
    return numbers is None or len(numbers) == 2


def _element(entries: Dict, where: str) -> Painted | None:
    known = phrases("svg")
    shapes = str(entries.get("shape", "type", "kind")).lower().split()
    found = [known.get((word,)) for word in shapes]
    shape = next((entry[1] for entry in found if entry and entry[0] == "SHAPE"), None)
    words = str(entries.get("color", "colour", "fill")).lower().replace("grey", "gray").split()
    colour = words[-1]
    tone = " ".join(words[:-1])
    named = colour in colours.names() or (colour.startswith("#") and len(colour) == 7)
    if shape is None or not named or tone not in ("", "light", "dark"):
        return None
    at = numbers_of(entries.get("center", "centre", "position", "at"))
    size = numbers_of(entries.get("size"))
    radius = numbers_of(entries.get("radius", "r"))
    if radius and size is None:
        size = (2 * radius[0], 2 * radius[0])
    if not _is_pair(at) or not _is_pair(size):
        return None
    middle = (int(at[0]), int(at[1])) if at else None
    sides = (int(size[0]), int(size[1])) if size else (None, None)
    return Painted(where, shape, tone, colour, middle, sides)


def mark(state: State, verdicts: Verdicts, part: Part) -> Marks:
    """F1 over elements.

    A description must cover the target, a prediction the drawing if there is one.
    """
    truth: Any = state
    aim = "drawing" if part == "world_modeling" and truth.drawing is not None else "target"
    named = {aim, *(fact.where for fact in verdicts if isinstance(fact, Painted))}
    wanted = sum(len(set(getattr(truth, where) or ())) for where in named)
    if truth.drawing:
        return Marks.of(verdicts, wanted)
    # That a drawing is empty before the first turn tells nothing.
    told = {
        fact: held for fact, held in verdicts.items() if getattr(fact, "shape", "") != "nothing"
    }
    return Marks.of(told, wanted)
