"""What a statement is worth: the information in its claims, on a scale on which the truth's own words are 1.

Claims are taken in their order, each as a bet at the odds that an environment's own states give. A claim that holds in
a share q of them brings -ln q if it is true, and costs max(-ln q, -ln q · q / (1 - q)) if it is false: at least what it
would have brought, and so much that to make it without looking gains nothing. q is the largest share seen under what
the claims before have settled, each alone and all together, so a claim that follows from others is worth nothing.

Of a prediction, q is the share among states where the claim held before the actions just if it held here. What held
already and still holds is worth nothing, whether or not the observation said it: else "the drawer is open", where it
mostly stays so, earns 0.19 a turn without looking.

What one's own actions do for sure is no foresight: q is also measured among the turns in which as much was done. Else
to turn right always, and to foretell that what was ahead will be on the left, earns 0.48 in Navigation's first turns.
For the same reason a true description of one's own drawing is worth nothing: the same drawing, described in every
first turn, earned 1. And of an observation q is also measured among the states in which one stands at the same edges:
else who always goes left, and says that something is on the right, earns 0.23 in FrozenLake's later turns. In later
turns q is at least as large as among turns in which as much was done by an agent that doesn't look and always does the
same: where it comes to rest says more than the edges do, for it came there without falling into a hole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_rewards.rules import read
from vagen_rewards.scores import Part
from vagen_rewards.worth.reference import Reference, Stage, Transition
from vagen_rewards.worth.told import held_before, stood_in

MOST_CLAIMS = 64
"""More claims of one statement aren't weighed: no state here has that much to say."""

MOST_KEPT = 4096
"""Turns of which the worth of the truth's own words is kept."""

FEWEST = 8
"""Under conditions that fewer states meet, a share says nothing."""

FLOOR = 0.5
"""The truth's words are taken to be worth at least this share of what they are worth on average in a stage: else a
state with nearly nothing to tell would pay in full for nearly nothing."""


class Weighed(NamedTuple):
    """A statement's worth.

    Attributes:
        value: from -1 to 1; 1 is what the truth's own words are worth.
        gained, lost: nats that its true claims brought, and that its false ones cost.
        whole: nats that the truth's own words bring.
        right, wrong, unknown: how many claims hold, don't hold, or can't be told.
    """

    value: float
    gained: float
    lost: float
    whole: float
    right: int
    wrong: int
    unknown: int


class Bets(NamedTuple):
    """Nats gained and lost by claims, and how many held, didn't, and can't be told."""

    gained: float
    lost: float
    right: int
    wrong: int
    unknown: int


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
    """

    def __init__(self, transitions: Sequence[Transition], blind: Sequence[Transition] = ()) -> None:
        self.transitions = transitions
        self.means: dict[Part, float] = {}
        self._every = (*blind, *transitions)
        self._all = (1 << len(transitions)) - 1
        self._done: dict[Hashable, int] = {}
        self._stood: dict[Hashable, int] = {}
        for number, each in enumerate(reversed(self._every)):
            self._done[each.done] = self._done.get(each.done, 0) | 1 << number
            stood = stood_in(each.before)
            self._stood[stood] = self._stood.get(stood, 0) | 1 << number
        self._before = functools.lru_cache(maxsize=16384)(functools.partial(self._bits, 0))
        self._largest = functools.lru_cache(maxsize=1024)(self._largest_of)
        self._after = functools.lru_cache(maxsize=16384)(functools.partial(self._bits, 1))

    def _bits(self, side: int, claim: Any) -> int:
        text = "".join(["1" if claim.holds(each[side]) is True else "0" for each in self._every])
        return int(text or "0", 2)

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
            before, after = self._before(claim), 0 if held is None else self._after(claim)
            net, bits = self.bet(before, after, held, holds, settled, without.blind)
            settled.append(bits)
            gained, lost = gained + max(net, 0.0), lost + max(-net, 0.0)
            right, wrong, unknown = right + (holds is True), wrong + (holds is False), unknown + (holds is None)
        return Bets(gained, lost, right, wrong, unknown)

    def bits(self, claim: Any, part: Part) -> tuple[int, int]:
        """Where a claim holds before and after, for `bet`; of an observation's claim only before matters."""
        return self._before(claim), 0 if part == "grounding" else self._after(claim)

    def bet(
        self, before: int, after: int, held: bool | None, holds: bool | None, settled: Sequence[int], blind: int = 0
    ) -> tuple[float, int]:
        """One claim as a bet: the nats that it gains or loses, and the transitions that it leaves.

        Args:
            before: where the claim holds before, of `bits`.
            after: where it holds after.
            held: whether it held here, as in `bets`.
            holds: whether it holds here.
            settled: what the claims before have left.
            blind: of `Known`.
        """
        bits, base = (before, -1) if held is None else (after, before if held else ~before)
        if held and holds:  # unchanged: to name it without having looked must not pay, whatever was observed
            return 0.0, bits
        share = self._largest(bits, base & self._all, tuple(settled))
        if (base & blind).bit_count() >= FEWEST:
            share = max(share, self._largest(bits, base & blind, tuple(settled)))
        pays = -math.log(share)
        if holds:
            return pays, bits
        fair = pays * share / (1 - share)  # what is out of view may be so: to guess it gains nothing
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


class Worth:
    """Weighs statements by how common their claims are in an environment.

    Args:
        reference: the environment's own states.
        representation: of the truth's words that are worth 1.
    """

    def __init__(self, reference: Reference, representation: str = "natural_language") -> None:
        self.reference = reference
        self.representation = representation
        self._shares: dict[tuple[Stage, Hashable], Shares] = {}
        self._wholes: dict[tuple[Part, Stage, str], float] = {}

    def observation(self, claims: Sequence[Any], before: State, stage: Stage, done: Hashable = None) -> Weighed:
        """The worth of what is said of the state before a turn's actions.

        `done` is what `worth.told.done_in` says of the turn.
        """
        return self._weighed(claims, (), "grounding", stage, Transition(before, before, done))

    def prediction(
        self,
        claims: Sequence[Any],
        seen: Sequence[Any],
        before: State,
        after: State,
        stage: Stage,
        done: Hashable = None,
    ) -> Weighed:
        """The worth of what is said of the state after a turn's actions, beyond what was `seen` before them."""
        return self._weighed(claims, seen, "world_modeling", stage, Transition(before, after, done))

    def truth(self, part: Part, stage: Stage, here: Transition) -> Weighed:
        """The worth of the truth's own words."""
        seen = self._truth(here.before, "grounding")
        words = seen if part == "grounding" else self._truth(here.after, part)
        return self._weighed(words, seen, part, stage, here)

    def _weighed(
        self, claims: Sequence[Any], seen: Sequence[Any], part: Part, stage: Stage, here: Transition
    ) -> Weighed:
        shares = self.shares(stage, here.before)
        bets = self._bets(shares, claims, seen, part, here)
        value = on_scale(bets.gained - bets.lost, self.full(part, stage, here))
        return Weighed(
            value, bets.gained, bets.lost, self._whole(part, stage, here), bets.right, bets.wrong, bets.unknown
        )

    def full(self, part: Part, stage: Stage, here: Transition) -> float:
        """What is worth 1 in this turn, on the scale of `on_scale`."""
        return math.log1p(max(self._whole(part, stage, here), FLOOR * self._mean_of(part, stage, here.before)))

    def shares(self, stage: Stage, here: State) -> Shares:
        """How common claims are in this stage of an episode, where the same was told as here."""
        if stage == "play" and not self.reference.play:
            stage = "reset"
        key, fitted = self.reference.told(stage, here)
        if (stage, key) not in self._shares:
            blind = self.reference.told("blind", here)[1] if stage == "play" else tuple
            self._shares[stage, key] = Shares(fitted(), blind())
        return self._shares[stage, key]

    def _bets(self, shares: Shares, claims: Iterable[Any], seen: Iterable[Any], part: Part, here: Transition) -> Bets:
        before, after, _ = here
        without = shares.known(part, here)
        if part == "grounding":
            return shares.bets([(claim, None, claim.holds(before)) for claim in unique(claims)], without=without)
        known = [each for each in unique(seen) if each.holds(before) is True and each.holds(after) is True]
        every = [(claim, claim.holds(after)) for claim in unique(claims)]
        said = [(claim, held_before(claim, before, holds), holds) for claim, holds in every]
        return shares.bets(said, known, without)

    def _whole(self, part: Part, stage: Stage, here: Transition) -> float:
        key = (part, stage, repr(here))  # the words: PrimitiveSkill's states have a dictionary and can't be hashed
        if key not in self._wholes:
            if len(self._wholes) >= MOST_KEPT:
                self._wholes.clear()
            self._wholes[key] = self._whole_of(part, stage, here)
        return self._wholes[key]

    def _whole_of(self, part: Part, stage: Stage, here: Transition) -> float:
        """Nats of the truth's own words; of a prediction, beyond its own words of the state before."""
        seen = self._truth(here.before, "grounding")
        words = seen if part == "grounding" else self._truth(here.after, part)
        bets = self._bets(self.shares(stage, here.before), words, seen, part, here)
        return max(0.0, bets.gained - bets.lost)

    def _truth(self, state: State, part: Part) -> list[Any]:
        return [claim.key for claim in read(state.kind, state.describe(self.representation), part).claims]

    def _mean_of(self, part: Part, stage: Stage, here: State) -> float:
        """The mean of a stage, over a sample of its states."""
        shares = self.shares(stage, here)
        if part not in shares.means:
            sample = shares.transitions[:: max(1, len(shares.transitions) // 48)]
            nats = [self._whole_of(part, stage, each) for each in sample]
            shares.means[part] = math.fsum(nats) / max(1, len(nats))
        return shares.means[part]


def unique(claims: Iterable[Any]) -> list[Any]:
    """Each once, in their order; of very many the first."""
    return list(dict.fromkeys(claims))[:MOST_CLAIMS]


def on_scale(net: float, full: float) -> float:
    """Nats on a scale on which `full` is 1, from -1 to 1.

    The first nats count most, so that an honest half of a long description is more than half of it. The curve is
    concave throughout: what gains nothing in nats on average gains nothing on this scale either. It goes below 0
    because a scale that stops there would pay for guessing: half of the guesses would earn and half cost nothing.
    """
    if full <= 0:
        return 0.0
    return max(-1.0, min(1.0, (math.log1p(net) if net > 0 else net) / full))
