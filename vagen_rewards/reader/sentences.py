"""Sentences of a text: each is read whole or not at all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from vagen_rewards.reader.claims import Claim, Fact, Part, Span
from vagen_rewards.reader.clauses import Clause, clause, forms
from vagen_rewards.reader.joints import Names
from vagen_rewards.reader.words import Mention, Word, sentences, words_of

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

Unread = tuple[Span, bool]
"""A span that wasn't read, and whether it names things, places or distances."""


class World(NamedTuple):
    """How sentences about a kind of state are read.

    Attributes:
        kind: the state's `kind`, which decides on the vocabulary.
        facts: the facts of a clause, and the topic after it. It gets the clause and the topic so
            far; `None` instead of facts if the clause doesn't surely say any.
        start: the rule of the grammar, `clause` or `elements`.
        prepare: changes the words of a sentence before it is parsed.
    """

    kind: str
    facts: Callable[[Clause, Any], tuple[Sequence[Fact] | None, Any]]
    start: str = "clause"
    prepare: Callable[[list[Word]], list[Word]] | None = None


class Before(NamedTuple):
    """What the sentences before one leave to it."""

    names: Names
    topic: Any  # what the last clause was about, as `World.facts` has it


class Told(NamedTuple):
    """What a sentence says.

    Attributes:
        claims: with spans that count from the begin of the sentence.
        unread: such spans of what wasn't read.
        retracts: whether it denies without naming anything, as "That is false." does.
        after: what it leaves to the next sentence.
    """

    claims: tuple[Claim, ...]
    unread: tuple[Unread, ...]
    retracts: bool
    after: Before


def read_sentences(world: World, text: str, part: Part, topic: Any = None) -> Told:
    """What the sentences of a text say, with spans in the text.

    Args:
        world: how to read them.
        text: what a model wrote.
        part: which part of the reply; an observation doesn't tell the future.
        topic: of the first sentence.
    """
    claims: list[Claim] = []
    unread: list[Unread] = []
    before = Before(Names(), topic)
    for begin, sentence in sentences(text):
        told = _told(world, sentence, part, before)
        if told.retracts:
            return told
        claims += [Claim(_moved(claim.span, begin), claim.key) for claim in told.claims]
        unread += [(_moved(span, begin), matters) for span, matters in told.unread]
        before = told.after
    return Told(tuple(claims), tuple(unread), False, before)


def _moved(span: Span, begin: int) -> Span:
    return span[0] + begin, span[1] + begin


@functools.lru_cache(maxsize=8192)
def _told(world: World, sentence: str, part: Part, before: Before) -> Told:
    """What one sentence says: texts about other states have many of the same."""
    words = words_of(world.kind, sentence, part)
    if world.prepare:
        words = world.prepare(words)
    words, names = before.names.given(words)
    kinds = tuple([word.kind for word in words])
    whole = (0, len(sentence))
    denied = "DENIAL" in kinds
    if denied:
        found = None
    elif words:
        found = forms(world.start, kinds)
    else:
        found = ()
    if found is None:
        matters = _matters(words)
        retracts = denied and not matters
        return Told((), ((whole, matters),), retracts, Before(names, before.topic))
    claims: list[Claim] = []
    left: list[Unread] = []
    topic = before.topic
    for i, form in enumerate(found):
        begin = words[form.first].span[0] if i else 0
        end = words[form.last].span[1] if i + 1 < len(found) else len(sentence)
        if form.shape is None:
            left.append(((begin, end), False))
            continue
        facts, topic = world.facts(clause(form.shape, words), topic)
        if facts is None:
            return Told((), ((whole, True),), False, Before(names, topic))
        claims += [Claim((begin, end), fact) for fact in facts]
    return Told(tuple(claims), tuple(left), False, Before(names, topic))


def _matters(words: list[Word]) -> bool:
    """Whether words that weren't read may hold a false claim."""
    return any(word.kind in _NAMES and word.value != _IT for word in words)
