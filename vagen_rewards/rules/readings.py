"""What a text claims, whatever the state: the claims, and what of the text wasn't read.

    reading = read("sokoban", "The box is above the player. It glows.", "grounding")
    [claim.holds(state) for claim in reading.claims], reading.unread

A claim holds of a state alone. "A hole is to the left, another hole too" makes the same claim twice; that two holes
are needed is for the marks (`marks.py`), which look at all claims together.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.spans import Part, Span

MAX_TEXT = 8000
"""Characters that are read; a description of these states needs a tenth of it."""


class Fact(Hashable, Protocol):
    """What is claimed. Two wordings of one fact are equal."""

    def holds(self, state: Any) -> bool | None:
        """Whether it is true of a state; `None` where the state can't tell, such as of a thing out of view."""


class Claim(NamedTuple):
    """A fact, and where in the text it is claimed.

    Attributes:
        span: first character and the one after the last, of the sentence (or entry) that makes the claim.
        key: the fact. Equal keys are the same fact in other words.
    """

    span: Span
    key: Fact

    def holds(self, state: Any) -> bool | None:
        """Whether it is true of this state, alone; `None` where the state can't tell."""
        return self.key.holds(state)


class Reading(NamedTuple):
    """What was read of a text.

    Attributes:
        claims: in the order of the text.
        unread: spans that say something which wasn't understood, in the order of the text.
        matters: those of `unread` that speak of the environment's things and places; what is right beside them
            isn't all that is said.
    """

    claims: tuple[Claim, ...] = ()
    unread: tuple[Span, ...] = ()
    matters: tuple[Span, ...] = ()


Reader = Callable[[str, Part], Reading]

_READERS: dict[str, Reader] = {}
BUILT_IN = ("sokoban", "frozen_lake", "navigation", "primitive_skill", "svg")


def register_reader(kind: str, reader: Reader) -> None:
    """Teach `read` texts about states of another kind, or replace how it reads those of a known one.

    Args:
        kind: the state's `kind`.
        reader: gives the claims of a text. It must not raise because of the text.
    """
    _READERS[kind] = reader
    read.cache_clear()


@functools.lru_cache(maxsize=8192)
def read(kind: str, text: str, part: Part) -> Reading:
    """The claims of a text about states of this kind. Raises JudgeConfigError for an unknown kind."""
    return reader_for(kind)(text[:MAX_TEXT], part)


def reader_for(kind: str) -> Reader:
    """The reader of a kind of state. Raises JudgeConfigError for an unknown one."""
    reader = _READERS.get(kind)
    if reader is None:
        if kind not in BUILT_IN:
            raise JudgeConfigError(
                f"RuleJudge can't compare states of kind {kind!r}; teach it with vagen_rewards.rules.register_reader"
            )
        reader = _READERS[kind] = importlib.import_module(f"vagen_rewards.rules.{kind}").claims_of
    return reader
