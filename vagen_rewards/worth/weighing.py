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
same: where it comes to rest says more than the edges do, for it came there without falling into a hole. Nor is q less
than the chance of a guess by what the prompt tells: PrimitiveSkill's lists where things are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_rewards.rules import read
from vagen_rewards.scores import Part
from vagen_rewards.worth.playing import Transition
from vagen_rewards.worth.reference import STAGES, Reference, Stage
from vagen_rewards.worth.shares import Bets, Shares
from vagen_rewards.worth.told import held_before, told_of

MOST_CLAIMS = 64
"""More claims of one statement aren't weighed: no state here has that much to say."""

MOST_KEPT = 4096
"""Turns of which the worth of the truth's own words is kept."""

FLOOR = 0.5
"""The truth's words are taken to be worth at least this share of what they are worth on average in a stage: else a
state with nearly nothing to tell would pay in full for nearly nothing."""

LEAST = 0.1
"""Nats that they are taken to be worth at least: where a stage tells less, its truth isn't paid in full either."""

_FEW = 4
"""Turns of a stage by which it is told whether anything is worth something."""


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

    def tells(self, part: Part) -> bool:
        """Whether the truth's own words are worth anything, in some of a few turns of either stage."""
        return any(
            self._whole(part, stage, each) >= LEAST
            for stage in STAGES
            for turns in [getattr(self.reference, stage)]
            for each in turns[:: max(1, len(turns) // _FEW)]
        )

    def full(self, part: Part, stage: Stage, here: Transition) -> float:
        """What is worth 1 in this turn, on the scale of `on_scale`."""
        return math.log1p(max(LEAST, self._whole(part, stage, here), FLOOR * self._mean_of(part, stage, here.before)))

    def shares(self, stage: Stage, here: State) -> Shares:
        """How common claims are in this stage of an episode, where the same was told as here."""
        if stage == "play" and not self.reference.play:
            stage = "reset"
        key, fitted = self.reference.told(stage, here)
        if (stage, key) not in self._shares:
            blind = self.reference.told("blind", here)[1] if stage == "play" else tuple
            told, options = told_of(here.kind), self.reference.options
            guess = None if told is None or told.guess is None else told.guess
            guessed = None if guess is None else functools.lru_cache(4096)(lambda claim: guess(claim, here, options))
            self._shares[stage, key] = Shares(fitted(), blind(), guessed)
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
