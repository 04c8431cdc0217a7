"""Statements that may earn without looking: an environment's own words, changed, left out, denied and put together.

Candidates are made of the environment's own true descriptions: whole, each sentence, and sentences at random with words
of others in place of their own, with pieces left out, denied. The best are then combined, greedily and at random, and
varied again. Nothing here knows any environment, so it works on yours.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vagen_envs.seeding import HashStream
from vagen_rewards.scores import Part
from vagen_rewards.worth.reference import STAGES, Reference, Stage
from vagen_rewards.worth.told import unnamed

Where = tuple[Stage, Part]

FORMS = ("natural_language", "structured", "symbolic")
_MOST_TEXTS = 250
_MOST_WHOLES = 100
"""Whole descriptions make dozens of claims and hold of one state, so few of them are tried."""

_LONG, _MOST_LONG = 12, 5
"""Of descriptions of more sentences on average fewer are tried: those of a lake of 8x8 take more than a second each."""

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


def statements(
    states: Reference, fields: Sequence[Where], tried: Mapping[Any, Found], tries: int, stream: HashStream
) -> Iterator[str]:
    """A third of the tries on single sentences, then the best with one another, then both at random.

    Args:
        states: whose descriptions the statements are made of.
        fields: stages and parts in which they may earn.
        tried: what each has earned so far; the caller adds to it.
        tries: how many are wanted.
        stream: of the random choices.
    """
    wholes = list(dict.fromkeys(_descriptions(states)))
    long = sum(len(_PIECES.findall(whole)) for whole in wholes) > _LONG * len(wholes)
    yield from stream.sample(wholes, min(len(wholes), _MOST_LONG if long else _MOST_WHOLES))
    pieces = list(dict.fromkeys(piece for whole in wholes for piece in _PIECES.split(whole) if piece.strip()))
    yield from pieces
    yield from (text for piece in pieces for text in _denied(piece))
    swaps = _exchangeable(pieces)
    for _ in range(tries):
        if len(tried) >= tries // 3:
            break
        yield _varied(stream.choice(pieces), swaps, stream)
    for field in fields:
        yield from _grown(field, tried)
    while True:
        ranked = [_ranked(field, tried) for field in fields]
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
                text = state.describe(form)
            except NotImplementedError:  # not every kind has every form
                continue
            yield text
            yield unnamed(state, text)


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


def _ranked(where: Where, tried: Mapping[Any, Found]) -> list[Found]:
    """The best that are short enough to be put together."""
    short = [found for found in tried.values() if found.claims <= _MOST_JOINED]
    return heapq.nlargest(60, short, key=lambda found: found.means[where])


def _grown(where: Where, tried: Mapping[Any, Found]) -> Iterator[str]:
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
