"""A search for words that earn without looking: statements that don't depend on the state, and what they would be paid.

Candidates are made of the environment's own true descriptions: whole, each sentence, and sentences at random with words
of others in place of their own, with pieces left out, denied. The best are then combined, greedily and at random, and
varied again, until the tries are used up. Nothing here knows any environment, so it works on yours.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
_MOST_WHOLES = 100
"""Whole descriptions make dozens of claims and hold of one state, so few of them are tried."""

_MOST_JOINED = 4
"""Claims of a statement that is put together with others: what claims more is tried alone, or costs all the time."""

_WORD = re.compile(r"[^\W_]+|\S")
_PIECES = re.compile(r"(?<=[.;])\s+|\n+")


class Found(NamedTuple):
    """What a constant statement earns.

    Attributes:
        text: of the statement.
        means: its mean value over the states of each stage and part.
        claims: how many it makes.
    """

    text: str
    means: dict[tuple[Stage, Part], float]
    claims: int = 0

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


def audit(
    worth: Worth,
    states: Reference,
    tries: int = 20_000,
    keep: int = 10,
    seed: int = 0,
    told: Callable[[], None] | None = None,
) -> Audit:
    """Search for constant statements that earn.

    Args:
        worth: what statements are paid by.
        states: whose transitions they are tried on; best another draw than `worth.reference`, which it was made of.
        tries: how many statements.
        keep: how many of the best are returned, for each stage and part.
        seed: of the random combinations.
        told: is called for each statement that was tried.
    """
    fields = [
        _Field(worth, stage, part, getattr(states, stage))
        for stage in STAGES
        if getattr(states, stage)
        for part in PARTS
    ]
    kind = states.reset[0].before.kind
    tried: dict[tuple[Any, ...], Found] = {}
    for text in itertools.islice(_statements(states, fields, tried, tries, HashStream("audit", seed)), 4 * tries):
        if len(tried) >= tries:
            break
        claims = {part: _claims(kind, text, part) for part in PARTS}
        if claims["grounding"] and claims["grounding"] not in tried:
            means = {each.where: each.mean(claims[each.part]) for each in fields}
            tried[claims["grounding"]] = Found(text, means, len(claims["grounding"]))
            if told is not None:
                told()
    best = {
        field.where: tuple(sorted(tried.values(), key=lambda found: -found.means[field.where])[:keep])
        for field in fields
    }
    return Audit(
        best, {each.where: each.oracle for each in fields}, {each.where: each.telling for each in fields}, len(tried)
    )


class _Column(NamedTuple):
    """A claim in a field.

    Attributes:
        truths: whether it held before, and whether it holds now, each pair that occurs, with the turns as bits.
        bits: of each group, for `Shares.bet`.
    """

    truths: dict[tuple[bool | None, bool | None], int]
    bits: list[tuple[int, int]]


class _Field:
    """A stage and a part: what a constant statement earns there on average."""

    def __init__(self, worth: Worth, stage: Stage, part: Part, transitions: Sequence[Transition]) -> None:
        self.where = (stage, part)
        self.part = part
        told: dict[int, tuple[Shares, list[Transition]]] = {}
        for each in transitions:
            shares = worth.shares(stage, each.before)
            told.setdefault(id(shares), (shares, []))[1].append(each)
        self.groups = [shares for shares, _ in told.values()]
        self.turns = [each for _, here in told.values() for each in here]
        sizes = [len(here) for _, here in told.values()]
        self.members = [((1 << size) - 1) << sum(sizes[:i]) for i, size in enumerate(sizes)]
        self.full = [worth.full(part, stage, each) for each in self.turns]
        own = [worth.truth(part, stage, each) for each in transitions]
        telling = [each for each in own if each.whole > 0]
        self.oracle = math.fsum(each.value for each in telling) / max(1, len(telling))
        self.telling = len(telling) / max(1, len(own))
        self._columns: dict[Any, _Column] = {}

    def mean(self, claims: Sequence[Any]) -> float:
        """The mean value of these claims over all states."""
        columns = [self._columns.get(claim) or self._column(claim) for claim in claims]
        nets = np.zeros(len(self.turns))
        for number in range(len(self.groups)):
            for turns, net in self._weighed(columns, number):
                nets[_numbers(turns, len(nets))] = net
        return math.fsum(map(on_scale, nets.tolist(), self.full)) / len(self.full)

    def _weighed(self, columns: Sequence[_Column], number: int) -> Iterator[tuple[int, float]]:
        """The nats of the turns of a group. Those in which the claims so far were equally true go together."""
        shares = self.groups[number]
        going: list[tuple[int, int, float, tuple[int, ...]]] = [(0, self.members[number], 0.0, ())]
        while going:
            depth, turns, net, settled = going.pop()
            if depth == len(columns):
                yield turns, net
                continue
            truths, bits = columns[depth]
            for (held, holds), where in truths.items():
                if some := turns & where:
                    brings, left = shares.bet(*bits[number], held, holds, settled)
                    going.append((depth + 1, some, net + brings, (*settled, left)))

    def _column(self, claim: Any) -> _Column:
        truths: dict[tuple[bool | None, bool | None], int] = {}
        for i, (before, after) in enumerate(self.turns):
            if self.part == "grounding":
                truth: tuple[bool | None, bool | None] = (None, claim.holds(before))
            else:
                truth = (claim.holds(before) is True, claim.holds(after))
            truths[truth] = truths.get(truth, 0) | (1 << i)
        column = _Column(truths, [shares.bits(claim, self.part) for shares in self.groups])
        self._columns[claim] = column
        return column


def _numbers(bits: int, count: int) -> NDArray[np.bool_]:
    """Which of so many bits are set."""
    data = np.frombuffer(bits.to_bytes(count // 8 + 1, "little"), np.uint8)
    return np.unpackbits(data, count=count, bitorder="little").view(np.bool_)


def _claims(kind: str, text: str, part: Part) -> tuple[Any, ...]:
    return tuple(unique([claim.key for claim in read(kind, text, part).claims]))


# -- candidates -----------------------------------------------------------------------------------


def _statements(
    states: Reference, fields: Sequence[_Field], tried: dict[Any, Found], tries: int, stream: HashStream
) -> Iterator[str]:
    """A third of the tries on single sentences, then the best with one another, then both at random."""
    wholes = list(dict.fromkeys(_descriptions(states)))
    yield from stream.sample(wholes, min(len(wholes), _MOST_WHOLES))
    pieces = list(dict.fromkeys(piece for whole in wholes for piece in _PIECES.split(whole) if piece.strip()))
    yield from pieces
    yield from (text for piece in pieces for text in _denied(piece))
    swaps = _exchangeable(pieces)
    for _ in range(tries):
        if len(tried) >= tries // 3:
            break
        yield _varied(stream.choice(pieces), swaps, stream)
    for field in fields:
        yield from _grown(field.where, tried)
    while True:
        ranked = [_ranked(field.where, tried) for field in fields]
        # Ranking looks at all that was tried so far, so it is done once for 500 more.
        for _ in range(500):
            pool = stream.choice(ranked)
            if stream.below(4):
                some = stream.sample(pool, min(len(pool), 2 + stream.below(4)))
                yield " ".join(found.text for found in some)
            else:
                yield _varied(stream.choice(pool).text, swaps, stream)


def _descriptions(states: Reference) -> Iterator[str]:
    every = [each.before for stage in STAGES for each in getattr(states, stage)]
    for state in every[:: max(1, len(every) // _MOST_TEXTS)]:
        for form in FORMS:
            try:
                yield state.describe(form)
            except NotImplementedError:  # not every kind has every form
                continue


def _exchangeable(pieces: Iterable[str]) -> dict[str, list[str]]:
    """Words that stand between the same two others."""
    gaps: dict[tuple[str, str], set[str]] = {}
    for piece in pieces:
        words = ["", *_WORD.findall(piece)[:60], ""]
        for before, word, after in zip(words, words[1:], words[2:], strict=False):
            gaps.setdefault((before, after), set()).add(word)
    found: dict[str, set[str]] = {}
    for group in gaps.values():
        for word in group:
            found.setdefault(word, set()).update(group - {word})
    return {word: sorted(others) for word, others in found.items() if others}


def _varied(text: str, swaps: dict[str, list[str]], stream: HashStream) -> str:
    """With another word, or two, or without some, or denied."""
    for _ in range(1 + stream.below(2)):
        words = list(_WORD.finditer(text))
        if not words:
            return text
        at = stream.below(len(words))
        word, how = words[at], stream.below(4)
        if how == 0:
            last = words[min(at + stream.below(6), len(words) - 1)]
            text = text[: word.start()] + text[last.end() :].lstrip()
        elif how == 1 and (denied := list(_denied(text))):
            text = stream.choice(denied)
        elif word[0] in swaps:
            text = text[: word.start()] + stream.choice(swaps[word[0]]) + text[word.end() :]
    return text


def _denied(piece: str) -> Iterator[str]:
    for word in (" is ", " has ", " holds "):
        if word in piece:
            yield piece.replace(word, f"{word}not ", 1)


def _ranked(where: tuple[Stage, Part], tried: dict[Any, Found]) -> list[Found]:
    """The best that are short enough to be put together."""
    short = [found for found in tried.values() if found.claims <= _MOST_JOINED]
    return heapq.nlargest(60, short, key=lambda found: found.means[where])


def _grown(where: tuple[Stage, Part], tried: dict[Any, Found]) -> Iterator[str]:
    """The best statement with another after it, again and again while that earns more."""
    # At most 5 x 6 x 60 = 1,800 texts, of the 20,000 that are tried by default.
    for start in _ranked(where, tried)[:5]:
        text, earned = start.text, start.means[where]
        for _ in range(6):
            others = [found.text for found in _ranked(where, tried)]
            for other in others:
                yield f"{text} {other}"
            longer = [found for found in tried.values() if found.text.startswith(f"{text} ")]
            best = max(longer, key=lambda found: found.means[where], default=None)
            if best is None or best.means[where] <= earned:
                break
            text, earned = best.text, best.means[where]
