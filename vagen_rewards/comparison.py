"""Comparison states: what else may be there for all that an agent can know without looking.

An agent that reads everything but the picture knows the prompt, its own actions and the feedback on
them. A state's comparison states are those of other levels in which the same actions had the same
feedback. What such an agent says is right in them as often as here, so a reward that subtracts its
mean over them pays it nothing.
"""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import gymnasium as gym

from vagen_envs.core import Turn, VagenEnv
from vagen_rewards.owed import COUNTED
from vagen_rewards.played_levels import Moment, PlayedLevels, feedback_on
from vagen_rewards.reader import Fact
from vagen_rewards.transitions import Step

ENOUGH = 24
"""Where fewer levels share the feedback, those with the nearest feedback fill the comparison up."""

FOLLOWED = 240
"""Of the levels whose feedback differs, the nearest ones are played on until so many are left: the
others could only fill a comparison up.
"""

FIRST_LEVEL = 500_000
"""Seed of the first level of comparison, in the split `train`."""

KEPT_HISTORIES, KEPT_COMPARISONS = 96, 256
"""Sequences of actions whose moments are kept (some 300 kB each on the grids), and comparisons
(up to 200 kB each).
"""

History = tuple[tuple[str, ...], ...]
"""For each earlier turn the texts of its actions, or the feedback on each."""

T = TypeVar("T")


class Key(NamedTuple):
    """What an agent that doesn't look knows at a turn: comparison states with the same are the
    same.

    Attributes:
        actions: of the earlier turns.
        told: the feedback on them.
        now: the turn's own actions, where the states after them are asked for.
    """

    actions: History = ()
    told: History = ()
    now: tuple[str, ...] = ()


FIRST = Key()
"""Of first turns."""


class Particle(NamedTuple):
    """A level of comparison after some turns, and the feedback so far."""

    moment: Moment
    told: History


class Recent(Generic[T]):
    """The values that were asked for last."""

    def __init__(self, most: int) -> None:
        self.most, self._kept = most, OrderedDict[Any, T]()

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """The value of a key, made if it isn't kept."""
        if key not in self._kept:
            self._kept[key] = make()
            if len(self._kept) > self.most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


class Comparisons:
    """Finds the comparison states of turns in one configuration of an environment.

    Args:
        env_id: the environment, as in `gym.make`.
        options: its options.
    """

    def __init__(self, env_id: str, options: Mapping[str, Any]) -> None:
        own = {**options, "observation": "text", "strategy": "no_think"}
        if "scorer" in options and options.get("success_score") is None:
            # No state depends on the scorer, and this one needs no weights.
            own |= {"scorer": "classical", "scorer_weights": "", "scorer_address": ""}
        made = gym.make(env_id, disable_env_checker=True, **own)
        self.env = cast(VagenEnv, made.unwrapped)
        self._levels = PlayedLevels(self.env)
        self._particles = Recent[list[Particle]](KEPT_HISTORIES)
        self._chosen = Recent[list[Moment]](KEPT_HISTORIES)

    def prepare(self) -> None:
        """Draw the levels."""
        self._after((), ())

    @functools.cached_property
    def counted(self) -> bool:
        """Whether `described` tells all about the states: not where a state makes its own."""
        state = self._levels.state(self._choose(FIRST)[0])
        return state.kind in COUNTED and not hasattr(state, "alike")

    def key(self, turn: Turn, earlier: Sequence[Turn], foreseen: bool) -> Key:
        """What an agent knows without looking.

        Args:
            turn: whose state is compared.
            earlier: the turns of its episode before it, the first one first.
            foreseen: whether the states after the turn's own actions are asked for. The feedback on
                these isn't known to an agent that foresees them.
        """
        now = _texts(turn) if foreseen else ()
        if not self.env.replays_comparisons:
            return FIRST
        actions = tuple([_texts(each) for each in earlier])
        return Key(actions, tuple([feedback_on(each) for each in earlier]), now)

    def steps(self, key: Key) -> tuple[Step, ...]:
        """Other levels' states at a turn, and after its actions."""
        state = self._levels.state
        return tuple([Step(state(one), state(other)) for one, other in self._moments(key)])

    def described(self, key: Key) -> Counter[tuple[frozenset[Fact], frozenset[Fact]]]:
        """How many of them have these facts: on boards many have the same."""
        told = self._levels.told
        return Counter([(told(one), told(other)) for one, other in self._moments(key)])

    def _moments(self, key: Key) -> list[tuple[Moment, Moment]]:
        then = Key(key.actions, key.told)
        chosen = self._chosen.get(then, lambda: self._choose(then))
        return [(moment, self._levels.play(moment, key.now)[0]) for moment in chosen]

    def _choose(self, key: Key) -> list[Moment]:
        """Levels with the same feedback; where these are few, those with the nearest feedback as
        well.
        """
        actions, told = key.actions, key.told
        particles = self._after(actions, told)
        while not particles:  # each of these levels is over by then
            actions = actions[:-1]
            told = told[:-1]
            particles = self._after(actions, told)
        same = [each for each in particles if each.told == told]
        if len(same) < ENOUGH:
            same = _nearest(particles, told)[:ENOUGH]
        return [each.moment for each in same]

    def _after(self, actions: History, told: History) -> list[Particle]:
        """Levels after these turns, with the nearest feedback on all but the last one. Those that
        are over by then are left out.
        """
        key = (actions, told[:-1])
        return self._particles.get(key, lambda: self._played_from(*key))

    def _played_from(self, actions: History, told: History) -> list[Particle]:
        if not actions:
            return [Particle(self._levels.start(seed), ()) for seed in self._seeds()]
        before = self._after(actions[:-1], told)
        followed = [each for each in before if each.told == told]
        if len(followed) < FOLLOWED:
            followed = _nearest(before, told)[:FOLLOWED]
        found = []
        for particle in followed:
            moment, feedback = self._levels.play(particle.moment, actions[-1])
            if not moment.over:
                found.append(Particle(moment, (*particle.told, feedback)))
        return found

    def _seeds(self) -> range:
        return range(FIRST_LEVEL, FIRST_LEVEL + self.env.comparison_levels)


def _nearest(particles: Sequence[Particle], told: History) -> list[Particle]:
    """Those with the nearest feedback first."""
    histories = {each.told for each in particles}
    apart = {other: _apart(other, told) for other in histories}
    return sorted(particles, key=lambda each: apart[each.told])


def _texts(turn: Turn) -> tuple[str, ...]:
    return tuple([each.text for each in turn.executed])


def _apart(one: History, other: History) -> float:
    """How far two feedbacks are apart: differing actions, those of each turn worth half of the next
    one's.
    """
    apart = 0.0
    for mine, theirs in zip(one, other, strict=True):
        apart /= 2
        if mine != theirs:
            apart += abs(len(mine) - len(theirs))
            apart += sum(a != b for a, b in zip(mine, theirs, strict=False))
    return apart
