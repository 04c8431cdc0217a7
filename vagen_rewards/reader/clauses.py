"""Clauses by the grammar: relations of things, as the parser finds them.

`grammar.lark` has the forms.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput
from lark.lexer import Lexer

from vagen_rewards.reader.joints import Kind, clauses
from vagen_rewards.reader.words import Mention, Word

_TELLS = ("IS", "COLON", "CELL", "THERE")
"""Classes of words that tell what is: a plan that has one of them matters too."""

_NUMBERS = {"every": 0, "none": -1}


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Relation(NamedTuple):
    """Where something is, as one part of a clause says.

    Attributes:
        how: the form, as `grammar.lark` names it.
        ways: directions.
        other: what it is seen from, if that is named.
        amount: a number, such as the distance along the directions.
        unit: of the amount: `any`, `row`, `column`, or a length in metres.
        exact: whether it is "directly" there.
        value: each word of the form by its class, such as a cell.
        also: what else it is seen from, as in "above the player and the box", or the other end of
            "between me and the box".
    """

    how: str
    ways: tuple[str, ...] = ()
    other: Mention | None = None
    amount: float | None = None
    unit: str | float = ""
    exact: bool = False
    value: Mapping[str, Any] = _NOTHING
    also: tuple[Mention, ...] = ()


def places_another(relations: tuple[Relation, ...]) -> bool:
    """Whether a place may be the other thing's, as in "right of the handle at (1, 2, 3)"."""
    pairs = itertools.pairwise(relations)
    return any(one.other is not None and two.how == "at" for one, two in pairs)


class Things(NamedTuple):
    """What a clause speaks of.

    `number` is 0 for all of them, -1 for none, `None` if it isn't said.
    """

    names: tuple[Mention, ...]
    number: int | None = None


class Clause(NamedTuple):
    """What a clause says."""

    form: str  # as `grammar.lark` names it
    things: Things
    relations: tuple[Relation, ...] = ()
    other: Mention | None = None  # a thing beside these, as in "from the box, the target is up"
    value: Mapping[str, Any] = _NOTHING  # each word of the form by its class


class Shape(NamedTuple):
    """A form of the grammar.

    Attributes:
        name: as `grammar.lark` has it.
        places: of its words in the sentence.
        ways, things: places of the words that name directions and things in it.
        inner: forms within it, such as the parts of a clause.
    """

    name: str
    places: tuple[int, ...]
    ways: tuple[int, ...]
    things: tuple[int, ...]
    inner: tuple[Shape, ...]


class Form(NamedTuple):
    """A clause by the classes of its words.

    Attributes:
        first, last: places of its first and last word.
        shape: `None` if it is a plan.
    """

    first: int
    last: int
    shape: Shape | None


class _Places(Lexer):
    """Gives the classes of words with their places."""

    def __init__(self, _conf: object) -> None: ...

    def lex(self, data: Sequence[Kind]) -> Iterator[Token]:  # type: ignore[override]
        for kind, place in data:
            yield Token(kind, place)


def grammar() -> str:
    """The text of the grammar."""
    return files("vagen_rewards.reader").joinpath("grammar.lark").read_text(encoding="utf-8")


@functools.cache
def parser(start: str) -> Lark:
    """The parser of a kind of sentence, `clause` or `elements`."""
    return Lark(grammar(), parser="lalr", lexer=_Places, start=start)


@functools.lru_cache(maxsize=8192)
def forms(start: str, kinds: tuple[str, ...]) -> tuple[Form, ...] | None:
    """The clauses of words of these classes, whatever they are: texts have many of the same.

    `None` if the grammar has no form of one.
    """
    found = []
    parts = clauses(kinds) if start == "clause" else [[(kind, i) for i, kind in enumerate(kinds)]]
    for part in parts:
        own = {kind for kind, _ in part}
        shape = None
        if part[0][0] != "PLAN" or not own.isdisjoint(_TELLS):
            shape = _shape(start, part)
            if shape is None:
                return None
        found.append(Form(part[0][1], part[-1][1], shape))
    return tuple(found)


def _shape(start: str, part: list[Kind]) -> Shape | None:
    try:
        tree: Any = parser(start).parse(part)
    except UnexpectedInput:
        return None
    return _shape_of(tree)


def _shape_of(tree: Tree[Token]) -> Shape:
    inner = [_shape_of(child) for child in tree.children if isinstance(child, Tree)]
    named: dict[str, list[int]] = {"ways": [], "thing": []}
    for form in inner:
        named.get(form.name, []).extend(form.places)
    return Shape(
        str(tree.data),
        tuple([child.value for child in tree.children if isinstance(child, Token)]),
        tuple(named["ways"]),
        tuple(named["thing"]),
        tuple([form for form in inner if form.name not in named]),
    )


# -- what a form says of the words in it


def clause(shape: Shape, words: Sequence[Word]) -> Clause:
    """What the words of a sentence say in one of its forms."""
    relations: tuple[Relation, ...] = ()
    mentions = _mentions(shape, words)
    things = Things(mentions)
    for form in shape.inner:
        if form.name in ("parts", "items"):
            relations = tuple([_relation(each, words) for each in form.inner])
        else:
            things = _things(form, words)
    value = {words[place].kind: words[place].value for place in shape.places}
    return Clause(shape.name, things, relations, mentions[0] if mentions else None, value)


def _things(shape: Shape, words: Sequence[Word]) -> Things:
    number = _NUMBERS.get(shape.name)
    if shape.name == "counted":
        number = int(words[shape.places[0]].value)
    return Things(_mentions(shape, words), number)


def _relation(shape: Shape, words: Sequence[Word]) -> Relation:
    if shape.inner:
        return _of_another(shape, words)
    value = {words[place].kind: words[place].value for place in shape.places}
    other, *also = _mentions(shape, words) or (None,)
    return Relation(
        shape.name,
        tuple([way for place in shape.ways for way in words[place].value]),
        Mention(value["POSS"]) if "POSS" in value else other,
        value.get("NUM"),
        value.get("UNIT", value.get("LENGTH", "")),
        "EXACT" in value,
        value,
        tuple(also),
    )


def _of_another(shape: Shape, words: Sequence[Word]) -> Relation:
    """A direction from things that are named, or on the board."""
    relation = _relation(shape.inner[0], words)
    if shape.name == "side":
        return relation._replace(how="side")
    others = _mentions(shape, words)
    return relation._replace(other=others[0], also=others[1:])


def _mentions(shape: Shape, words: Sequence[Word]) -> tuple[Mention, ...]:
    return tuple([words[place].value for place in shape.things])
