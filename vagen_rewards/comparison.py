"""Comparison states: what else may be there for all that an agent can know without looking.

An agent that reads everything but the picture knows the prompt, its own actions and the feedback on
them. A state's comparison states are those of other levels in which the same actions had the same
feedback. What such an agent says is right in them as often as here, so a reward that subtracts its
mean over them pays it nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import gymnasium as gym

from vagen_envs.core import State, Turn, VagenEnv
from vagen_rewards.transitions import Step

ENOUGH, MOST = 24, 600
"""Where fewer levels share the feedback, those with the nearest feedback fill the comparison up.
The standard error of a mean over 600 is 0.04 at most.
"""

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


class Particle(NamedTuple):
    """A level of comparison after some turns: the simulator's moment, and the feedback so far."""

    moment: Any
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
        self._branches = hasattr(self.env, "play_on")
        self._particles = Recent[list[Particle]](KEPT_HISTORIES)
        self._steps = Recent[tuple[Step, ...]](KEPT_COMPARISONS)
        self._states = Recent[State](20_000)

    def prepare(self) -> None:
        """Draw the levels."""
        self._after((), ())

    def first(self) -> tuple[Step, ...]:
        """The states of first turns."""
        return self._steps.get(((), (), ()), lambda: self._found((), (), ()))

    def of(
        self, turn: Turn, earlier: Sequence[Turn], foreseen: bool
    ) -> tuple[Any, tuple[Step, ...]]:
        """Other levels' states at this turn, and a key that is equal for the same ones.

        Args:
            turn: whose state is compared.
            earlier: the turns of its episode before it, the first one first.
            foreseen: whether the states after the turn's own actions are asked for. The feedback on
                these isn't known to an agent that foresees them.
        """
        actions: History = tuple([_texts(each) for each in earlier])
        told: History = tuple([_told(each) for each in earlier])
        now = _texts(turn) if foreseen else ()
        if not self.env.replays_comparisons:
            actions, told, now = (), (), ()
        key = (actions, told, now)
        return key, self._steps.get(key, lambda: self._found(actions, told, now))

    def _found(self, actions: History, told: History, now: tuple[str, ...]) -> tuple[Step, ...]:
        """Levels with the same feedback; where these are few, those with the nearest feedback as
        well.
        """
        particles = self._after(actions, told)
        while not particles:  # each of these levels is over by then
            actions = actions[:-1]
            told = told[:-1]
            particles = self._after(actions, told)
        same = [each for each in particles if each.told == told]
        if len(same) < ENOUGH:
            same = sorted(particles, key=lambda each: _apart(each.told, told))[:ENOUGH]
        chosen = same[:MOST]
        steps = []
        for each in chosen:
            after = self._played(each.moment, now)[0] if now else each.moment
            steps.append(Step(self._state(each.moment), self._state(after)))
        return tuple(steps)

    def _after(self, actions: History, told: History) -> list[Particle]:
        """Levels after these turns, with the nearest feedback on all but the last one. Those that
        are over by then are left out.
        """
        key = (actions, told[:-1])
        return self._particles.get(key, lambda: self._played_from(*key))

    def _played_from(self, actions: History, told: History) -> list[Particle]:
        if not actions:
            return [Particle(self._begin(seed), ()) for seed in self._seeds()]
        before = self._after(actions[:-1], told)
        followed = [each for each in before if each.told == told]
        if len(followed) < FOLLOWED:
            followed = sorted(before, key=lambda each: _apart(each.told, told))[:FOLLOWED]
        found = []
        for particle in followed:
            moment, feedback, over = self._played(particle.moment, actions[-1])
            if not over:
                found.append(Particle(moment, (*particle.told, feedback)))
        return found

    # -- a level of comparison

    def _seeds(self) -> range:
        return range(FIRST_LEVEL, FIRST_LEVEL + self.env.comparison_levels)

    def _begin(self, seed: int) -> Any:
        """The start of a level: its simulator's, or where an environment has no `play_on`, its seed
        and actions.
        """
        if not self._branches:
            return seed, ()
        self.env.reset(seed=seed, options={"split": "train"})
        return cast(Any, self.env).moment()

    def _played(self, moment: Any, actions: tuple[str, ...]) -> tuple[Any, tuple[str, ...], bool]:
        if self._branches:
            return cast(Any, self.env).play_on(moment, actions)  # type: ignore[no-any-return]
        seed, history = moment
        moment = (seed, (*history, actions))
        info, over = self._replayed(moment)
        return moment, _told(info["turn"]), over

    def _replayed(self, moment: Any) -> tuple[dict[str, Any], bool]:
        seed, history = moment
        info, over = self.env.reset(seed=seed, options={"split": "train"})[1], False
        for actions in history:
            if not over:
                reply = self.env.grammar.render(list(actions))
                *_, terminated, truncated, info = self.env.step(reply)
                over = terminated or truncated
        return info, over

    def _state(self, moment: Any) -> State:
        if not self._branches:
            return self._states.get(moment, lambda: cast(State, self._replayed(moment)[0]["state"]))
        env = cast(Any, self.env)
        if env.quick:
            return cast(State, env.state_at(moment))
        return self._states.get(moment, lambda: cast(State, env.state_at(moment)))


def _texts(turn: Turn) -> tuple[str, ...]:
    return tuple([each.text for each in turn.executed])


def _told(turn: Turn) -> tuple[str, ...]:
    return tuple([each.feedback for each in turn.executed])


def _apart(one: History, other: History) -> float:
    """How far two feedbacks are apart: differing actions, those of each turn worth half of the next
    one's.
    """
    apart = 0.0
    for mine, theirs in zip(one, other, strict=True):
        differing = abs(len(mine) - len(theirs))
        differing += sum(a != b for a, b in zip(mine, theirs, strict=False))
        apart = apart / 2 + differing
    return apart
