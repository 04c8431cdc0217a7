"""Clauses of a text by the grammar: the second half of the reader. `grammar.lark` has the forms."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from lark import Lark, Token, Transformer, Tree
from lark.exceptions import UnexpectedInput
from lark.lexer import Lexer

from vagen_rewards.reader.claims import Part, Span
from vagen_rewards.reader.joints import Names, clauses
from vagen_rewards.reader.words import Mention, Word, sentences

_NAMES = (
    "THING",
    "PICTURE",
    "COLOUR",
    "SHAPE",
    "CELL",
    "WAY",
    "POSS",
    "NUM",
    "UNIT",
    "LENGTH",
    "MOST",
    "OPEN",
    "SHUT",
)
"""Classes of words that name things, places and distances.

An unread sentence that has one of them matters.
"""

_IT = Mention("it")

_TELLS = ("IS", "COLON", "CELL", "THERE")
"""Classes of words that tell what is: a plan that has one of them matters too."""

_NUMBERS = {"some": None, "every": 0, "none": -1}


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
        also: what else it is seen from, as in "above the player and the box".
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
    """What a clause says, and its characters."""

    form: str  # as `grammar.lark` names it
    things: Things
    relations: tuple[Relation, ...] = ()
    span: Span = (0, 0)
    value: Mapping[str, Any] = _NOTHING


class Sentence(NamedTuple):
    """A sentence, which is read whole or not at all.

    Attributes:
        span: its characters.
        clauses: what it says; none if it wasn't read.
        unread: spans that weren't read, with whether they name things, places or distances.
        retracts: whether it doubts without naming anything, as "That is false." does.
    """

    span: Span
    clauses: tuple[Clause, ...]
    unread: tuple[tuple[Span, bool], ...] = ()
    retracts: bool = False


class _Words(Lexer):
    """Gives the words as they are."""

    def __init__(self, _conf: object) -> None: ...

    def lex(self, data: tuple[tuple[str, Any], ...]) -> Iterator[Token]:  # type: ignore[override]
        for kind, value in data:
            yield Token(kind, value)


class _Forms(Transformer):  # type: ignore[type-arg]
    """Makes relations and clauses of what the parser found.

    What a line of the grammar has, whatever its order.
    """

    def thing(self, children: list[Token]) -> Mention:
        return children[0].value  # type: ignore[no-any-return]

    def ways(self, children: list[Token]) -> list[str]:
        return [way for token in children for way in token.value]

    def parts(self, children: list[Any]) -> list[Any]:
        return [each for each in children if not isinstance(each, Token)]

    items = parts

    def seen_from(self, children: list[Any]) -> Relation:
        relation: Relation = children[0]
        others = tuple([each for each in children if isinstance(each, Mention)])
        return relation._replace(other=others[0], also=others[1:])

    def side(self, children: list[Any]) -> Relation:
        relation: Relation = children[0]
        return relation._replace(how="side")

    def counted(self, children: list[Any]) -> Things:
        return Things((children[1],), int(children[0].value))

    def __default__(self, data: object, children: list[Any], meta: object) -> Any:
        name = str(data)
        if name.startswith("_"):  # of a repetition, which the parser unfolds
            return Tree(name, children)
        tokens = {each.type: each.value for each in children if isinstance(each, Token)}
        mentions = tuple([each for each in children if isinstance(each, Mention)])
        if name in _NUMBERS:
            return Things(mentions, _NUMBERS[name])
        things = [each for each in children if isinstance(each, Things)]
        lists = [each for each in children if type(each) is list]
        if name in _CLAUSES:
            relations = tuple(lists[0]) if lists else ()
            return Clause(
                name,
                things[0] if things else Things(mentions),
                relations,
                value=tokens | {"OTHER": mentions[:1]},
            )
        ways = tuple(lists[0]) if lists else ()
        other = Mention(tokens["POSS"]) if "POSS" in tokens else mentions[0] if mentions else None
        unit = tokens.get("UNIT", tokens.get("LENGTH", ""))
        exact = "EXACT" in tokens
        return Relation(
            name, ways, other, tokens.get("NUM"), unit, exact, {**tokens, "MENTIONS": mentions}
        )


_CLAUSES = (
    "placed",
    "first",
    "seen",
    "total",
    "shared",
    "holds",
    "ordered",
    "painted",
    "blank",
    "alike",
)


def grammar() -> str:
    """The text of the grammar."""
    return files("vagen_rewards.reader").joinpath("grammar.lark").read_text(encoding="utf-8")


@functools.cache
def parser(start: str) -> Lark:
    """The parser of a kind of sentence, `clause` or `elements`."""
    return Lark(grammar(), parser="lalr", lexer=_Words, start=start, transformer=_Forms())


Prepare = Callable[[list[Word]], list[Word]]


def read_sentences(
    kind: str, text: str, part: Part, start: str = "clause", prepare: Prepare | None = None
) -> list[Sentence]:
    """The sentences of a text.

    Args:
        kind: the state's `kind`, which decides on the vocabulary.
        text: what a model wrote.
        part: which part of the reply; an observation doesn't tell the future.
        start: the rule of the grammar.
        prepare: changes the words of a sentence before it is parsed.
    """
    names = Names()
    found = []
    for span, words in sentences(kind, text, part):
        ready = names.named(prepare(words) if prepare else words)
        found.append(_sentence(span, ready, start))
    return found


def _sentence(span: Span, words: list[Word], start: str) -> Sentence:
    kinds = {word.kind for word in words}
    named = any(word.kind in _NAMES and word.value != _IT for word in words)
    if not kinds.isdisjoint(("DOUBT", "DENIAL")):
        return Sentence(span, (), ((span, named),), retracts="DENIAL" in kinds and not named)
    found, left = [], []
    parts = clauses(words) if start == "clause" else [words]
    for i, clause in enumerate(parts):
        if not clause:
            return Sentence(span, (), ((span, named),))
        begin = clause[0].span[0] if i else span[0]
        where = (begin, clause[-1].span[1] if i + 1 < len(parts) else span[1])
        if clause[0].kind == "PLAN" and {word.kind for word in clause}.isdisjoint(_TELLS):
            left.append((where, False))
            continue
        parsed = _parsed(start, tuple([(word.kind, word.value) for word in clause]))
        if parsed is None:
            return Sentence(span, (), ((span, named),))
        found.append(parsed._replace(span=where))
    return Sentence(span, tuple(found), tuple(left))


@functools.lru_cache(maxsize=8192)
def _parsed(start: str, words: tuple[tuple[str, Any], ...]) -> Clause | None:
    """What words say, wherever they stand: texts about other states have many of the same."""
    try:
        clause: Any = parser(start).parse(words)
    except UnexpectedInput:
        return None
    return cast("Clause", clause)
