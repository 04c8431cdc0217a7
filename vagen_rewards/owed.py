"""The questions that a state's own description answers, and what a text answers to them.

A question is asked once, in whatever form a text answers it: "The box is above the player" and the
coordinates of both answer the same one. What else a text says is never paid.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_rewards.reader import Fact, read
from vagen_rewards.reader.claims import Part

Question = Hashable


class Answer(NamedTuple):
    """What a text answers to a question.

    Attributes:
        question: on boards the relation itself, elsewhere a thing and the property in question.
        fact: the answer without its numbers: what other states are asked for.
        held: whether it is true of this state, numbers included; `None` if the state doesn't say.
            Numbers can only make an answer false: a rare true number isn't worth more than the
                relation that follows from it.
    """

    question: Question
    fact: Fact
    held: bool | None


class Answers(NamedTuple):
    """All answers of a text, and the facts that answer nothing that is owed."""

    to: dict[Question, tuple[Answer, ...]]
    others: tuple[Fact, ...]


def owed(state: State, part: Part) -> dict[Question, Fact]:
    """The questions that a full description of a state answers, with their true answers.

    Args:
        state: the state that is described.
        part: a prediction of an SVG describes the drawing, an observation the target.
    """
    kind = _KINDS.get(state.kind)
    if kind is not None:
        return dict(kind[0](state, part))
    claims = read(state.kind, state.natural_language(), part).claims
    return {claim.key: claim.key for claim in claims if claim.holds(state)}


def answers(state: State, facts: Iterable[Fact]) -> Answers:
    """What the facts of a text answer in this state; each fact counts once.

    A kind of state whose reader was registered (`register_reader`) has its facts themselves as
    questions.
    """
    distinct = list(dict.fromkeys(facts))
    kind = _KINDS.get(state.kind)
    if kind is None:
        found = [Answer(fact, fact, fact.holds(state)) for fact in distinct]
        return Answers({each.question: (each,) for each in found}, ())
    to: dict[Question, list[Answer]] = {}
    others: list[Fact] = []
    for answer in kind[1](state, distinct):
        if isinstance(answer, Answer):
            to.setdefault(answer.question, []).append(answer)
        else:
            others.append(answer)
    return Answers({question: tuple(found) for question, found in to.items()}, tuple(others))


# -- boards ----------------------------------------------------------------------------------------

COUNTED = frozenset({"sokoban", "frozen_lake"})
"""Kinds of states in which an answer is true if and only if a full description has it. Counting
descriptions is some twenty times as fast as asking each state."""


def told(state: State) -> frozenset[Fact]:
    """The facts of a full description of a board; boards with equal facts share the set."""
    return _shared(tuple(owed(state, "grounding").values()))


@functools.lru_cache(maxsize=50_000)  # a long training meets ever new boards
def _shared(facts: tuple[Fact, ...]) -> frozenset[Fact]:
    return frozenset(facts)


_BY_PLACE = ("hole",)
"""Things that occur many times: each of the eight directions with such a thing is a question of its
own.
"""


@functools.cache
def _related(pair: tuple[str, str], vertical: int, horizontal: int) -> tuple[Fact, ...]:
    """The relations of two things with these signs (-1, 0, 1) of their offset along each axis."""
    from vagen_rewards.reader.facts import Where

    if pair[0] in _BY_PLACE:
        return (Where(*pair, vertical, horizontal),)
    return Where(*pair, vertical=vertical), Where(*pair, horizontal=horizontal)


def _board_owed(state: Any, _part: Part) -> Iterator[tuple[Question, Fact]]:
    for one, other in state.related:
        for a, b in itertools.product(state.cells[one], state.cells[other]):
            for fact in _related((one, other), _sign(a[0] - b[0]), _sign(a[1] - b[1])):
                yield fact, fact


def _board_answers(state: Any, facts: Sequence[Fact]) -> Iterator[Answer | Fact]:
    from vagen_rewards.reader.facts import At, Where

    cells: list[tuple[str, tuple[int, int], Fact]] = []
    for fact in facts:
        cell = _cell(fact)
        if cell is not None:
            cells.append((*cell, fact))
        elif isinstance(fact, Where):
            yield from _said_of_pair(state, fact)
        else:
            yield fact
    yield from _said_by_cells(state, [(kind, cell) for kind, cell, _ in cells], At)


def _said_of_pair(state: Any, fact: Any) -> Iterator[Answer | Fact]:
    """The answers of a relation, along each axis that it says something about."""
    turned = (fact.other, fact.subject) in state.related
    pair = (fact.other, fact.subject) if turned else (fact.subject, fact.other)
    axes = (fact.vertical is not None) + (fact.horizontal is not None)
    if pair not in state.related or fact.nth < 1 or axes < 1 + (pair[0] in _BY_PLACE):
        yield fact
        return
    # How many there are isn't owed, and a reader takes a repetition for another thing.
    fact = fact._replace(nth=1)
    sign = -1 if turned else 1
    if pair[0] in _BY_PLACE:
        for answer in _related(pair, sign * _sign(fact.vertical), sign * fact.horizontal):
            yield Answer(answer, answer, fact.holds(state))
        return
    alone = fact.near or fact.straight or axes == 1
    if fact.vertical is not None:
        row, _ = _related(pair, sign * _sign(fact.vertical), 0)
        said = fact if alone else fact._replace(horizontal=None, columns=None)
        yield Answer(row, row, said.holds(state))
    if fact.horizontal is not None:
        _, column = _related(pair, 0, sign * fact.horizontal)
        said = fact if alone else fact._replace(vertical=None, rows=None)
        yield Answer(column, column, said.holds(state))


def _cell(fact: Any) -> tuple[str, tuple[int, int]] | None:
    """The thing and the cell of a coordinate, as the text counts."""
    from vagen_rewards.reader.facts import At, Within

    if isinstance(fact, At):
        return fact.kind, fact.cell
    if not isinstance(fact, Within) or fact.nth != 1:
        return None
    places = dict(fact.places)
    numbers = [places.get("row"), places.get("column")]
    if len(places) != 2 or not all(isinstance(at, str) and at.isdecimal() for at in numbers):
        return None
    return fact.kind, (int(str(numbers[0])), int(str(numbers[1])))


def _said_by_cells(
    state: Any, cells: Sequence[tuple[str, tuple[int, int]]], at: Callable[..., Fact]
) -> Iterator[Answer | Fact]:
    """The relations that follow from coordinates: true only where each number is.

    A text counts from 0 or from 1. It is held against the one by which more of its numbers are
    true.
    """
    base = max((0, 1), key=lambda start: sum(_true_numbers(state, *each, start) for each in cells))
    moved = [(kind, (row - base, column - base)) for kind, (row, column) in cells]
    kinds = {kind for kind, _ in moved}
    paired = {kind for pair in state.related if kinds.issuperset(pair) for kind in pair}
    for pair in state.related:
        ones = [cell for kind, cell in moved if kind == pair[0]]
        others = [cell for kind, cell in moved if kind == pair[1]]
        for one, other in itertools.product(ones, others):
            told = _related(pair, _sign(one[0] - other[0]), _sign(one[1] - other[1]))
            for axis, fact in enumerate(told):
                axes = (0, 1) if pair[0] in _BY_PLACE else (axis,)
                held = [
                    _is_there(state, pair[0], one, axes),
                    _is_there(state, pair[1], other, axes),
                ]
                yield Answer(fact, fact, all(held))
    for kind, cell in moved:
        if kind not in paired:
            yield at(kind, cell)


def _is_there(state: Any, kind: str, cell: tuple[int, int], axes: Sequence[int]) -> bool:
    at_axes = operator.itemgetter(*axes)
    return at_axes(cell) in map(at_axes, state.cells.get(kind, ()))


def _true_numbers(state: Any, kind: str, cell: tuple[int, int], base: int) -> int:
    moved = (cell[0] - base, cell[1] - base)
    return sum(_is_there(state, kind, moved, (axis,)) for axis in (0, 1))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


# -- Navigation ------------------------------------------------------------------------------------


def _navigation_owed(state: Any, _part: Part) -> Iterator[tuple[Question, Fact]]:
    """Direction and distance of the target and of the visible objects; of several of a type, of the
    nearest.
    """
    from vagen_rewards.reader.navigation import Seen

    target = (state.target_type, state.target_direction, state.target_distance)
    told = set()
    for kind, way, far in (target, *state.visible_objects):
        name = "target" if kind == state.target_type else _spoken(kind)
        if name not in told:
            told.add(name)
            yield (name, "direction"), Seen(name, frozenset({way}))
            yield (name, "distance"), Seen(name, metres=far)


def _navigation_answers(state: Any, facts: Sequence[Fact]) -> Iterator[Answer | Fact]:
    from vagen_rewards.reader.navigation import Seen

    for fact in facts:
        if not isinstance(fact, Seen):
            yield fact
            continue
        name = _resolved(state, fact) or fact.name
        if fact.ways:
            plain = Seen(name, fact.ways)
            yield Answer((name, "direction"), plain, plain.holds(state))
        if fact.metres is not None:
            yield Answer((name, "distance"), Seen(name, metres=fact.metres), fact.holds(state))


def _resolved(state: Any, fact: Any) -> str:
    """One name for an object, whatever a text calls it; none for what isn't visible."""
    if fact.is_target(state):
        return "target"
    for kind, *_ in state.visible_objects:
        if fact.may_be(kind):
            return _spoken(kind)
    return ""


@functools.cache
def _spoken(kind: str) -> str:
    from vagen_envs.navigation.state import words

    return words(kind).lower()


# -- PrimitiveSkill --------------------------------------------------------------------------------


def _skill_owed(state: Any, _part: Part) -> Iterator[tuple[Question, Fact]]:
    """Where each thing is, what the gripper holds, and how far the drawer is open."""
    from vagen_rewards.reader.primitive_skill import Told

    for name, at in state.positions.items():
        yield (name, "place"), Told(name, "at", at=tuple(map(float, at)))
    if state.drawer_open_value is not None:
        yield ("drawer", "open"), Told("drawer", "open", far=state.drawer_open_value)
    yield "gripper", Told(state.held, "held") if state.held else Told("gripper", "empty")


def _skill_answers(state: Any, facts: Sequence[Fact]) -> Iterator[Answer | Fact]:
    """A side of a thing answers where it is, as its coordinates do: other states say what that is
    worth.
    """
    from vagen_rewards.reader.primitive_skill import Told

    for fact in facts:
        question: Question = None
        if isinstance(fact, Told):
            if fact.how in ("held", "empty"):
                question = "gripper"
            elif fact.how in ("open", "shut"):
                question = ("drawer", "open")
            elif fact.name in state.positions:
                question = (fact.name, "place")
        yield fact if question is None else Answer(question, fact, fact.holds(state))


# -- SVG -------------------------------------------------------------------------------------------


def _svg_owed(state: Any, part: Part) -> Iterator[tuple[Question, Fact]]:
    """Each element of the target, or of the drawing in a prediction."""
    from vagen_envs.svg.state import colour_name
    from vagen_rewards.reader.svg import Painted

    where = "target" if part == "grounding" else "drawing"
    for number, element in enumerate(getattr(state, where) or ()):
        tone, _, colour = colour_name(element.colour).rpartition(" ")
        place, size = (element.x, element.y), (element.width, element.height)
        yield (where, number), Painted(where, element.shape, tone, colour, place, size)


def _svg_answers(state: Any, facts: Sequence[Fact]) -> Iterator[Answer | Fact]:
    """The first element that fits and has no answer yet; a false element answers a question of its
    own.
    """
    from vagen_rewards.reader.svg import Painted

    told = set[Question]()
    for fact in facts:
        held = fact.holds(state)
        if not isinstance(fact, Painted) or fact.shape in ("nothing", "alike"):
            yield fact
            continue
        elements = enumerate(getattr(state, fact.where) or ())
        fitting: list[Question] = [(fact.where, i) for i, each in elements if fact.fits(each)]
        free = [each for each in fitting if each not in told]
        question = (free or fitting or [fact])[0]
        told.add(question)
        yield Answer(question, fact, held)


_Owed = Callable[[Any, Part], Iterator[tuple[Question, Fact]]]
_Answers = Callable[[Any, Sequence[Fact]], Iterator[Answer | Fact]]
_KINDS: dict[str, tuple[_Owed, _Answers]] = {
    "sokoban": (_board_owed, _board_answers),
    "frozen_lake": (_board_owed, _board_answers),
    "navigation": (_navigation_owed, _navigation_answers),
    "primitive_skill": (_skill_owed, _skill_answers),
    "svg": (_svg_owed, _svg_answers),
}
