"""A search for words that earn without looking: statements that don't depend on the state, and what they would be paid.

Candidates are made of the environment's own true descriptions: each sentence, with words of other sentences in place
of its own, with pieces left out, denied, and whole descriptions of other states. The best are then combined, greedily
and at random, until the tries are used up. Nothing here knows any environment, so it works on yours.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vagen_envs.seeding import HashStream
from vagen_rewards.rules import read
from vagen_rewards.scores import PARTS, Part
from vagen_rewards.worth.reference import STAGES, Reference, Stage, Transition
from vagen_rewards.worth.weighing import Shares, Worth, on_scale, unique

FORMS = ("natural_language", "structured", "symbolic")
_MOST_TEXTS = 250
_WORD = re.compile(r"[^\W_]+|\S")
_PIECES = re.compile(r"(?<=[.;])\s+|\n+")


class Found(NamedTuple):
    """What a constant statement earns.

    Attributes:
        text: of the statement.
        means: its mean value over the states of each stage and part.
    """

    text: str
    means: dict[tuple[Stage, Part], float]

    @property
    def most(self) -> float:
        """Where it earns most."""
        return max(self.means.values())


@dataclass(frozen=True)
class Audit:
    """The result of a search.

    Attributes:
        best: the statements that earn most, for each stage and part, best first.
        oracle: what the truth's own words earn there on average, over the turns in which they tell anything.
        telling: the share of turns in which they do.
        tries: how many statements were tried.
    """

    best: dict[tuple[Stage, Part], tuple[Found, ...]]
    oracle: dict[tuple[Stage, Part], float]
    telling: dict[tuple[Stage, Part], float]
    tries: int

    @property
    def most(self) -> float:
        """What the best of all statements earns."""
        return max((found[0].means[where] for where, found in self.best.items() if found), default=0.0)

    def ranked(self, count: int) -> list[Found]:
        """The best of all stages and parts together."""
        every = {found.text: found for each in self.best.values() for found in each}
        return sorted(every.values(), key=lambda found: (-found.most, found.text))[:count]


def audit(worth: Worth, states: Reference, tries: int = 20_000, keep: int = 10, seed: int = 0) -> Audit:
    """Search for constant statements that earn.

    Args:
        worth: what statements are paid by.
        states: whose transitions they are tried on; best another draw than `worth.reference`, which it was made of.
        tries: how many statements.
        keep: how many of the best are returned, for each stage and part.
        seed: of the random combinations.
    """
    fields = [
        _Field(worth, stage, part, getattr(states, stage))
        for stage in STAGES
        if getattr(states, stage)
        for part in PARTS
    ]
    kind = states.reset[0].before.kind
    tried: dict[tuple[Any, ...], Found] = {}
    for text in itertools.islice(_statements(kind, states, fields, tried, HashStream("audit", seed)), 4 * tries):
        if len(tried) >= tries:
            break
        claims = _claims(kind, text, "grounding")
        if claims and claims not in tried:
            tried[claims] = Found(text, {each.where: each.mean(_claims(kind, text, each.part)) for each in fields})
    best = {
        field.where: tuple(sorted(tried.values(), key=lambda found: -found.means[field.where])[:keep])
        for field in fields
    }
    return Audit(
        best, {each.where: each.oracle for each in fields}, {each.where: each.telling for each in fields}, len(tried)
    )


class _Field:
    """A stage and a part: what a constant statement earns there on average."""

    def __init__(self, worth: Worth, stage: Stage, part: Part, transitions: Sequence[Transition]) -> None:
        self.where = (stage, part)
        self.part = part
        told: dict[int, tuple[Shares, list[Transition]]] = {}
        for each in transitions:
            shares = worth.shares(stage, each.before)
            told.setdefault(id(shares), (shares, []))[1].append(each)
        self.groups = [
            (shares, here, np.array([worth.full(part, stage, each) for each in here])) for shares, here in told.values()
        ]
        self.count = len(transitions)
        own = [worth.truth(part, stage, each) for each in transitions]
        telling = [each for each in own if each.whole > 0]
        self.oracle = math.fsum(each.value for each in telling) / max(1, len(telling))
        self.telling = len(telling) / max(1, len(own))
        self._held: dict[Any, list[tuple[bool | None, bool | None]]] = {}

    def mean(self, claims: Sequence[Any]) -> float:
        """The mean value of these claims over all states."""
        total = 0.0
        columns = [self._truths(claim) for claim in claims]
        start = 0
        for shares, here, full in self.groups:
            patterns: dict[tuple[Any, ...], list[int]] = {}
            for i in range(len(here)):
                patterns.setdefault(tuple([column[start + i] for column in columns]), []).append(i)
            for pattern, rows in patterns.items():
                bets = shares.bets([(claim, *truth) for claim, truth in zip(claims, pattern, strict=True)])
                total += float(_scaled(bets.gained - bets.lost, full[rows]).sum())
            start += len(here)
        return total / self.count

    def _truths(self, claim: Any) -> list[tuple[bool | None, bool | None]]:
        """Of each state, whether the claim held before, and whether it holds now."""
        column = self._held.get(claim)
        if column is None:
            every = [each for _, here, _ in self.groups for each in here]
            if self.part == "grounding":
                column = [(None, claim.holds(each.before)) for each in every]
            else:
                column = [(claim.holds(each.before) is True, claim.holds(each.after)) for each in every]
            self._held[claim] = column
        return column


def _scaled(net: float, full: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([on_scale(net, each) for each in full.tolist()])


def _claims(kind: str, text: str, part: Part) -> tuple[Any, ...]:
    return tuple(unique([claim.key for claim in read(kind, text, part).claims]))


# -- candidates -----------------------------------------------------------------------------------


def _statements(
    kind: str, states: Reference, fields: Sequence[_Field], tried: dict[Any, Found], stream: HashStream
) -> Iterator[str]:
    wholes = list(dict.fromkeys(_descriptions(states)))
    yield from wholes
    pieces = list(dict.fromkeys(piece for whole in wholes for piece in _PIECES.split(whole) if piece.strip()))
    pieces = pieces if len(pieces) <= _MOST_TEXTS else stream.sample(pieces, _MOST_TEXTS)
    yield from _varied(kind, pieces)
    for field in fields:
        yield from _grown(field.where, tried)
    while True:
        ranked = [_ranked(field.where, tried)[:60] for field in fields]
        for _ in range(500):
            pool = stream.choice(ranked)
            some = stream.sample(pool, min(len(pool), 2 + stream.below(7)))
            yield " ".join(found.text for found in some)


def _descriptions(states: Reference) -> Iterator[str]:
    every = [each.before for stage in STAGES for each in getattr(states, stage)]
    for state in every[:: max(1, len(every) // _MOST_TEXTS)]:
        for form in FORMS:
            try:
                yield state.describe(form)
            except NotImplementedError:  # not every kind has every form
                continue


def _varied(kind: str, pieces: Sequence[str]) -> Iterator[str]:
    """Pieces of descriptions, word by word as others have them, shortened, and denied; what claims the same, once."""
    seen: set[tuple[Any, ...]] = set()
    swaps = _exchangeable(pieces)

    def new(text: str) -> bool:
        claims = _claims(kind, text, "grounding")
        known = not claims or claims in seen
        seen.add(claims)
        return not known

    shorter = [text for piece in pieces for text in (piece, *_without_a_piece(piece)) if new(text)]
    yield from shorter
    swapped = [text for piece in shorter for text in _swapped(piece, swaps) if new(text)]
    yield from swapped
    yield from (text for piece in shorter for text in _denied(piece) if new(text))
    yield from (text for piece in swapped for text in _swapped(piece, swaps) if new(text))


def _exchangeable(pieces: Iterable[str]) -> dict[str, set[str]]:
    """Words that stand in the same place of otherwise equal sentences."""
    gaps: dict[tuple[str, ...], set[str]] = {}
    for piece in pieces:
        words = _WORD.findall(piece)
        for i in range(min(len(words), 60)):
            gaps.setdefault((*words[:i], "\0", *words[i + 1 :]), set()).add(words[i])
    found: dict[str, set[str]] = {}
    for group in gaps.values():
        if 1 < len(group) <= 40:
            for word in group:
                found.setdefault(word, set()).update(group - {word})
    return found


def _swapped(piece: str, swaps: dict[str, set[str]]) -> Iterator[str]:
    for match in list(_WORD.finditer(piece))[:60]:
        for word in sorted(swaps.get(match[0], ()))[:12]:
            yield piece[: match.start()] + word + piece[match.end() :]


def _without_a_piece(piece: str) -> Iterator[str]:
    words = list(_WORD.finditer(piece))[:40]
    for length in range(1, 7):
        for i in range(len(words) - length + 1):
            yield piece[: words[i].start()] + piece[words[i + length - 1].end() :].lstrip()


def _denied(piece: str) -> Iterator[str]:
    for word in (" is ", " has ", " holds "):
        if word in piece:
            yield piece.replace(word, f"{word}not ", 1)


def _ranked(where: tuple[Stage, Part], tried: dict[Any, Found]) -> list[Found]:
    return sorted(tried.values(), key=lambda found: -found.means[where])[:200]


def _grown(where: tuple[Stage, Part], tried: dict[Any, Found]) -> Iterator[str]:
    """The best statement with another after it, again and again while that earns more."""
    for start in _ranked(where, tried)[:5]:
        text, earned = start.text, start.means[where]
        for _ in range(6):
            others = [found.text for found in _ranked(where, tried)[:60]]
            for other in others:
                yield f"{text} {other}"
            longer = [found for found in tried.values() if found.text.startswith(f"{text} ")]
            best = max(longer, key=lambda found: found.means[where], default=None)
            if best is None or best.means[where] <= earned:
                break
            text, earned = best.text, best.means[where]
