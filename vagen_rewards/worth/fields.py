"""What a constant statement earns on many turns, all of them together.

`Shares.bets` takes the claims of one turn one after the other. Here a claim is taken in all turns at once, with what is
settled in each turn as a column of bits. It is the same arithmetic in the same order, so the figures are equal to the
last bit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vagen_rewards.rules.truths import TRUE, UNKNOWN, States, truths_of
from vagen_rewards.scores import Part
from vagen_rewards.worth.playing import Transition
from vagen_rewards.worth.reference import Stage
from vagen_rewards.worth.shares import FEWEST, Known, Shares
from vagen_rewards.worth.told import is_made
from vagen_rewards.worth.weighing import Worth, on_scale

Bits = NDArray[np.uint64]
"""Transitions of a reference as bits: a column a turn, in words of 64, those of play first and then the blind ones."""

_MOST_COLUMNS = 1024
"""Claims that are kept ready, some 50 kB each."""


class _Column(NamedTuple):
    """A claim in a field.

    Attributes:
        bits: of each turn the transitions of its reference in which the claim holds.
        base: those among which they are counted.
        free: the turns in which it held before and still does, which is worth nothing.
        holds: of each turn, as a number.
        guessed: of each turn, how likely it is guessed.
    """

    bits: Bits
    base: Bits
    free: NDArray[np.bool_]
    holds: NDArray[np.int8]
    guessed: NDArray[np.float64]


class Field:
    """A stage and a part: what a constant statement earns there on average."""

    def __init__(self, worth: Worth, stage: Stage, part: Part, transitions: Sequence[Transition]) -> None:
        self.where = (stage, part)
        self.part = part
        self._states = States(each.before for each in transitions), States(each.after for each in transitions)
        shares = [worth.shares(stage, each.before) for each in transitions]
        self._shares = list({id(each): each for each in shares}.values())
        numbers = {id(each): number for number, each in enumerate(self._shares)}
        self._number = np.array([numbers[id(each)] for each in shares])
        self._play = max(_words(each.counts[0]) for each in self._shares)
        self._blind = max(_words(each.counts[1]) for each in self._shares)
        known = [each.known(part, turn) for each, turn in zip(shares, transitions, strict=True)]
        self._within = self._columns([_within(*each) for each in zip(shares, known, strict=True)], shares)
        most = max(len(each.given) for each in known)
        given = [self._columns([(*each.given, 0, 0)[number] for each in known], shares) for number in range(most)]
        self._given = np.array(given, np.uint64).reshape(most, *self._within.shape)
        self._together = ~np.zeros_like(self._within)
        for each in self._given:
            self._together &= np.where(each.any(axis=0), each, ~np.uint64(0))
        self._full = [worth.full(part, stage, each) for each in transitions]
        own = [worth.truth(part, stage, each) for each in transitions]
        telling = [each for each in own if each.whole > 0]
        self.oracle = math.fsum(each.value for each in telling) / max(1, len(telling))
        self.telling = len(telling) / max(1, len(own))
        self._column = functools.lru_cache(_MOST_COLUMNS)(self._column_of)

    def mean(self, claims: Sequence[Any]) -> float:
        """The mean value of these claims over all turns."""
        return math.fsum(map(on_scale, self._nets(claims).tolist(), self._full)) / len(self._full)

    def _nets(self, claims: Sequence[Any]) -> NDArray[np.float64]:
        """The nats of each turn, as `Shares.bet` gives them."""
        net, together, given = np.zeros(len(self._full)), self._together, len(self._given)
        settled = np.empty((given + len(claims), *self._within.shape), np.uint64)
        settled[:given] = self._given
        for number, claim in enumerate(claims, given):
            bits, base, free, holds, guessed = self._column(claim)
            share = self._share(bits & base, base, settled[:number], together, guessed)
            brings = _brings(share, holds)
            brings[free] = 0.0
            net += brings
            settled[number] = np.where(holds == TRUE, bits, ~bits)
            together = together & settled[number]
        return net

    def _share(
        self, here: Bits, base: Bits, settled: Bits, together: Bits, guessed: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The largest share of a claim, of each turn: `Shares.bet` and `Shares._largest_of`."""
        among, both = self._counts(base), self._counts(here)
        first = (both + 0.5) / (among + 1)
        largest = first.copy()
        for each in (settled, together[np.newaxis]):
            if len(each):
                some = self._counts(base & each)
                shares = np.where(some >= FEWEST, (self._counts(here & each) + first) / (some + 1), 0.0)
                np.maximum(largest, shares.max(axis=1, keepdims=True), out=largest)
        share: NDArray[np.float64] = np.maximum(guessed, largest[0, 0])
        return share if len(largest) == 1 else np.where(among[1, 0] < FEWEST, share, np.maximum(share, largest[1, 0]))

    def _counts(self, bits: Bits) -> NDArray[np.int64]:
        """How many bits are set: first of play, then of blind play if there is any, by rows and by turns."""
        counts = np.bitwise_count(bits.reshape(-1, *self._within.shape))
        sides = [counts[:, : self._play], counts[:, self._play :]] if self._blind else [counts]
        return np.array([each.sum(axis=1, dtype=np.int64) for each in sides])

    def _column_of(self, claim: Any) -> _Column:
        grounding = self.part == "grounding"
        held = [shares.held(claim, after=not grounding) for shares in self._shares]
        guessed = np.array([each.guessed for each in held])[self._number]
        before = self._columns([each.before for each in held], self._shares)[:, self._number]
        if grounding:
            nowhere = np.zeros(len(self._full), np.bool_)
            return _Column(before, self._within, nowhere, truths_of(claim, self._states[0]), guessed)
        after = self._columns([each.after for each in held], self._shares)[:, self._number]
        holds = truths_of(claim, self._states[1])
        was = truths_of(claim, self._states[0]) == TRUE  # as `held_before` has it
        if is_made(claim, self._states[0][0]):
            was |= holds == TRUE
        base = np.where(was, before, ~before) & self._within
        return _Column(after, base, was & (holds == TRUE), holds, guessed)

    def _columns(self, bits: Sequence[int], shares: Sequence[Shares]) -> Bits:
        """Bits of some references, a column each."""
        play, blind = 8 * self._play, 8 * self._blind
        data = b"".join(
            [
                (each & (1 << of.counts[0]) - 1).to_bytes(play, "little")
                + (each >> of.counts[0]).to_bytes(blind, "little")
                for each, of in zip(bits, shares, strict=True)
            ]
        )
        return np.ascontiguousarray(np.frombuffer(data, "<u8").astype(np.uint64).reshape(len(bits), -1).T)


def _within(shares: Shares, known: Known) -> int:
    """The transitions among which anything is counted."""
    return known.blind | (1 << shares.counts[0]) - 1


def _brings(share: NDArray[np.float64], holds: NDArray[np.int8]) -> NDArray[np.float64]:
    """Nats gained or lost at these odds."""
    # `math.log` and not numpy's, which differs in the last bit on some machines
    pays = np.array([-math.log(each) for each in share.tolist()])
    with np.errstate(divide="ignore", invalid="ignore"):
        fair = np.where(share < 1, pays * share / (1 - share), 1.0)
    loses = np.where(holds == UNKNOWN, fair, np.maximum(pays, fair))
    return np.where(holds == TRUE, pays, -loses)


def _words(count: int) -> int:
    """Words of 64 bits that hold so many bits."""
    return -(-count // 64)
