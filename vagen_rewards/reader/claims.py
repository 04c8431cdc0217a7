"""Claims of a text, whatever the state is.

reading = read("sokoban", "The box is above the player. It glows.", "grounding")
[claim.holds(state) for claim in reading.claims], reading.unread
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, Self

from vagen_rewards.errors import JudgeConfigError

Part = Literal["grounding", "world_modeling"]
PARTS: tuple[Part, ...] = ("grounding", "world_modeling")
"""Parts of a reply that are judged."""

Span = tuple[int, int]
"""A piece of a text: its first character and the one after its last."""

MAX_TEXT, _GAP = 8000, re.compile(r"\s{30}")
"""Characters that are read; a description of these states needs a tenth of it."""

_NOTES = 4
"""False claims that a score's reason names at most."""

BUILT_IN = ("sokoban", "frozen_lake", "navigation", "primitive_skill", "svg")
"""The kinds of states that are read without a registration."""


class Fact(Hashable, Protocol):
    """A fact that may hold in a state. Two wordings of one fact are equal."""

    def holds(self, state: Any) -> bool | None:
        """Whether it is true of a state; `None` if the state doesn't say."""


class Unclear(NamedTuple):
    """Words with several readings.

    False only if all readings are, true if one is and none is false.
    """

    readings: tuple[tuple[Fact, ...], ...]

    def holds(self, state: Any) -> bool | None:
        """Return `None` where readings differ, or observers may."""
        verdicts = {_all_hold(reading, state) for reading in self.readings}
        if verdicts == {False}:
            return False
        return True if True in verdicts and False not in verdicts else None

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, reading)) for reading in self.readings)


def _all_hold(facts: tuple[Fact, ...], state: Any) -> bool | None:
    return every([fact.holds(state) for fact in facts])


def every(verdicts: list[bool | None]) -> bool | None:
    """Return whether all hold: false if one is, else `None` if one isn't known."""
    if False in verdicts:
        return False
    return None if None in verdicts else True


def some(verdicts: list[bool | None]) -> bool | None:
    """Return whether one holds: true if one does, else `None` if one isn't known."""
    if True in verdicts:
        return True
    return None if None in verdicts else False


class Claim(NamedTuple):
    """A fact and where the text claims it.

    Attributes:
        span: first character of the clause and the one after its last.
        key: the fact.
    """

    span: Span
    key: Fact

    def holds(self, state: Any) -> bool | None:
        """Whether the fact is true of this state; `None` if the state doesn't say."""
        return self.key.holds(state)


class Reading(NamedTuple):
    """The parts of a text that were read, and the rest.

    Attributes:
        claims: in the order of the text.
        unread: spans that weren't understood, in the order of the text.
        matters: those of `unread` that name things and places, so that they may contain a false
            claim.
    """

    claims: tuple[Claim, ...] = ()
    unread: tuple[Span, ...] = ()
    matters: tuple[Span, ...] = ()

    @classmethod
    def of_none(cls, text: str) -> Self:
        """The reading of a text that isn't understood, or that takes back what it says."""
        whole = ((0, len(text)),)
        return cls((), whole, whole)

    @classmethod
    def of(cls, claims: Iterable[Claim], unread: Iterable[tuple[Span, bool]]) -> Self:
        """From claims and from spans that weren't read, with whether they matter."""
        left = sorted(unread)
        return cls(
            tuple(claims),
            tuple([span for span, _ in left]),
            tuple([span for span, matters in left if matters]),
        )


Verdicts = Mapping[Fact, bool | None]
"""Whether each fact of a reading holds in a state, in the order of the text."""


@dataclass(slots=True)
class Marks:
    """Counts of a reading against a state, for F1.

    Attributes:
        right, wrong: claims that are true and false.
        found, wanted: facts of a full description that the text states, and all of them.
        essential: whether the facts are stated that a description must have.
        notes: the first few false claims in words.
        undecided: spans of claims that the state doesn't decide.
    """

    right: int = 0
    wrong: int = 0
    found: int = 0
    wanted: int = 0
    essential: bool = True
    notes: tuple[str, ...] = ()
    undecided: tuple[Span, ...] = ()

    @classmethod
    def of(cls, verdicts: Verdicts, wanted: int | None = None) -> Self:
        """Count each fact once; by default what is true is a full description."""
        held = list(verdicts.values())
        right = held.count(True)
        return cls(right, held.count(False), right, right if wanted is None else wanted)

    @property
    def f1(self) -> float:
        """Harmonic mean of the shares of claims that are right and of facts that are stated."""
        if not self.right or not self.wanted:
            return 0.0
        precision = self.right / (self.right + self.wrong)
        recall = min(1.0, self.found / self.wanted)
        return 2 * precision * recall / (precision + recall)


Reader = Callable[[str, Part], Reading]
Marker = Callable[[Any, Verdicts, Part], Marks]

_READERS: dict[str, tuple[Reader, Marker]] = {}


def register_reader(kind: str, reader: Reader) -> None:
    """Read texts about states of another kind, or replace how a known kind is read.

    For F1, what is true of a text is a full description.

    Args:
        kind: the state's `kind`.
        reader: gives the claims of a text. It must not raise because of the text.
    """
    _READERS[kind] = reader, lambda _state, verdicts, _part: Marks.of(verdicts)
    read.cache_clear()


@functools.lru_cache(maxsize=8192)
def read(kind: str, text: str, part: Part) -> Reading:
    """The claims of a text about states of this kind.

    A text longer than `MAX_TEXT` or with large gaps isn't read.
    """
    too_long = len(text) > MAX_TEXT or _GAP.search(text)
    return Reading.of_none(text) if too_long else _entry(kind)[0](text, part)


def mark(state: Any, reading: Reading, part: Part) -> Marks:
    """Count a reading against a state. Raises JudgeConfigError for an unknown kind of state."""
    verdicts: dict[Fact, bool | None] = {}
    for claim in reading.claims:
        if claim.key not in verdicts:
            verdicts[claim.key] = claim.holds(state)
    marks = _entry(state.kind)[1](state, verdicts, part)
    marks.notes = tuple([str(fact) for fact, held in verdicts.items() if held is False][:_NOTES])
    open_claims = [claim for claim in reading.claims if verdicts[claim.key] is None]
    marks.undecided = tuple([claim.span for claim in open_claims])
    return marks


def _entry(kind: str) -> tuple[Reader, Marker]:
    if kind not in _READERS:
        if kind not in BUILT_IN:
            raise JudgeConfigError(
                f"the rule judge can't read about states of kind {kind!r}; "
                "call vagen_rewards.reader.register_reader"
            )
        name = "boards" if kind in ("sokoban", "frozen_lake") else kind
        module = importlib.import_module(f"vagen_rewards.reader.{name}")
        _READERS[kind] = functools.partial(module.claims_of, kind), module.mark
    return _READERS[kind]
