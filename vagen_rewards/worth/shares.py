"""How common claims are among an environment's states, and what they bring as bets at those odds."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vagen_rewards.rules.truths import TRUE, States, truths_of
from vagen_rewards.scores import Part
from vagen_rewards.worth.playing import Transition
from vagen_rewards.worth.told import stood_in

FEWEST = 8
"""Under conditions that fewer states meet, a share says nothing."""


class Bets(NamedTuple):
    """Nats gained and lost by claims, and how many held, didn't, and can't be told."""

    gained: float
    lost: float
    right: int
    wrong: int
    unknown: int


class Held(NamedTuple):
    """In which transitions a claim holds, as bits, before and after, and how likely it is guessed by what is told."""

    before: int
    after: int
    guessed: float = 0.0


class Known(NamedTuple):
    """What is known of a turn without looking.

    Attributes:
        given: transitions, as bits, in which the same is known.
        blind: those in which an agent that doesn't look did as much.
    """

    given: tuple[int, ...] = ()
    blind: int = 0


class Shares:
    """How common claims are among transitions: of each claim those in which it holds before and after, as bits.

    Args:
        transitions: of play that looks and of random play, together.
        blind: of play that always does the same.
        guess: how likely a claim is guessed right by what the prompt tells.
    """

    def __init__(
        self,
        transitions: Sequence[Transition],
        blind: Sequence[Transition] = (),
        guess: Callable[[Any], float] | None = None,
    ) -> None:
        self.transitions = transitions
        self.counts = len(transitions), len(blind)
        self.means: dict[Part, float] = {}
        self._guess = guess
        every = (*blind, *transitions)
        self._sides = (States(each.before for each in every), States(each.after for each in every))
        self._all = (1 << len(transitions)) - 1
        self._done: dict[Hashable, int] = {}
        self._stood: dict[Hashable, int] = {}
        for number, each in enumerate(reversed(every)):
            self._done[each.done] = self._done.get(each.done, 0) | 1 << number
            stood = stood_in(each.before)
            self._stood[stood] = self._stood.get(stood, 0) | 1 << number
        self._before = functools.lru_cache(maxsize=16384)(functools.partial(self._bits, 0))
        self._largest = functools.lru_cache(maxsize=1024)(self._largest_of)
        self._after = functools.lru_cache(maxsize=16384)(functools.partial(self._bits, 1))

    def _bits(self, side: int, claim: Any) -> int:
        held = truths_of(claim, self._sides[side]) == TRUE
        return int.from_bytes(np.packbits(held[::-1], bitorder="little").tobytes(), "little")

    def known(self, part: Part, here: Transition) -> Known:
        """What is known of a turn without looking."""
        done = 0 if here.done is None else self._done.get(here.done, 0)
        place = stood_in(here.before)
        stood = 0 if place is None else self._stood.get(place, 0)
        given = (stood,) if part == "grounding" else (done, stood)
        return Known(tuple([each for each in given if each]), done & ~self._all)

    def bets(
        self,
        said: Iterable[tuple[Any, bool | None, bool | None]],
        known: Sequence[Any] = (),
        without: Known = Known(),  # noqa: B008
    ) -> Bets:
        """Take claims one after the other as bets.

        Args:
            said: each claim, whether it held before (`None`: it is one about the state before), and whether it
                holds now (`None`: that can't be told).
            known: claims of the state before that still hold. To repeat them gains nothing.
            without: what is known without looking.
        """
        gained = lost = 0.0
        right = wrong = unknown = 0
        settled = [*without.given, *(self._after(each) for each in known)]
        for claim, held, holds in said:
            if claim in known:
                right += 1
                continue
            net, bits = self.bet(self.held(claim, after=held is not None), held, holds, settled, without.blind)
            settled.append(bits)
            gained, lost = gained + max(net, 0.0), lost + max(-net, 0.0)
            right, wrong, unknown = right + (holds is True), wrong + (holds is False), unknown + (holds is None)
        return Bets(gained, lost, right, wrong, unknown)

    def held(self, claim: Any, after: bool) -> Held:
        """Where a claim holds, for `bet`; `after` matters for a prediction's claim only."""
        guessed = 0.0 if self._guess is None else self._guess(claim)
        return Held(self._before(claim), self._after(claim) if after else 0, guessed)

    def bet(
        self, where: Held, held: bool | None, holds: bool | None, settled: Sequence[int], blind: int = 0
    ) -> tuple[float, int]:
        """One claim as a bet: the nats that it gains or loses, and the transitions that it leaves.

        Args:
            where: of `held`.
            held: whether it held here, as in `bets`.
            holds: whether it holds here.
            settled: what the claims before have left.
            blind: of `Known`.
        """
        before, after, guessed = where
        bits, base = (before, -1) if held is None else (after, before if held else ~before)
        if held and holds:  # unchanged: to name it without having looked must not pay, whatever was observed
            return 0.0, bits
        share = max(guessed, self._largest(bits, base & self._all, tuple(settled)))
        if (base & blind).bit_count() >= FEWEST:
            share = max(share, self._largest(bits, base & blind, tuple(settled)))
        pays = -math.log(share)
        if holds:
            return pays, bits
        # What is out of view may be so: to guess it gains nothing. 1 is the limit where all is told.
        fair = pays * share / (1 - share) if share < 1 else 1.0
        return -(fair if holds is None else max(pays, fair)), ~bits

    def _largest_of(self, bits: int, base: int, settled: tuple[int, ...]) -> float:
        """The largest share of the claim with these bits: under `base`, and under what else is settled."""
        here = bits & base
        share = largest = (here.bit_count() + 0.5) / (base.bit_count() + 1)
        together = base
        for each in settled:
            together &= each
            among = (base & each).bit_count()
            if among >= FEWEST:
                largest = max(largest, ((here & each).bit_count() + share) / (among + 1))
        among = together.bit_count()
        if among >= FEWEST:
            largest = max(largest, ((bits & together).bit_count() + share) / (among + 1))
        return largest
