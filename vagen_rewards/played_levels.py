"""Levels of comparison, played as far as was asked: each action and each look is done once.

A reward asks for the same actions in the same levels again and again: in the turn that it pays, as
the past of the next turn, and in other episodes that begin alike. The moments of a level make a
graph, in which what is known is looked up.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from vagen_envs.core import State, Turn, VagenEnv
from vagen_rewards.owed import told
from vagen_rewards.reader import Fact

MOST_MOMENTS = 100_000
"""Moments that are kept, at some 500 bytes each on the grids; then all are forgotten."""


class Moment:
    """A moment of a level.

    Attributes:
        at: the environment's own word for it. Equal ones have the same future.
        over: whether the level is.
        next: the feedback on an action, and the moment after it, for each one that was played.
        state: the truth, once it was asked for, where finding it takes long.
        told: what a full description of it tells, once it was asked for.
    """

    __slots__ = ("at", "next", "over", "state", "told")

    def __init__(self, at: Any, over: bool) -> None:
        self.at = at
        self.over = over
        self.next: dict[Hashable, tuple[tuple[str, ...], Moment]] = {}
        self.state: State | None = None
        self.told: frozenset[Fact] | None = None


class PlayedLevels:
    """Plays levels of the train split.

    Args:
        env: plays them. Where it has `play_on`, `moment` and `state_at`, each action is played
            once; otherwise each turn is, from the level's start.
    """

    def __init__(self, env: VagenEnv) -> None:
        self.env = env
        self._branches = hasattr(env, "play_on")
        self._known: dict[Hashable, Moment] = {}

    def start(self, seed: int) -> Moment:
        """The start of a level."""
        if not self._branches:
            return Moment((seed, ()), False)
        self.env.reset(seed=seed, options={"split": "train"})
        return self._known_at(cast(Any, self.env).moment(), False)

    def play(self, moment: Moment, actions: tuple[str, ...]) -> tuple[Moment, tuple[str, ...]]:
        """The moment after a turn's actions, and the feedback on each that was played before the
        level was over.
        """
        if not self._branches:
            feedback, moment = moment.next.get(actions) or self._replayed(moment, actions)
            return moment, feedback
        feedbacks: tuple[str, ...] = ()
        for action in actions:
            if moment.over:
                break
            feedback, moment = moment.next.get(action) or self._played(moment, action)
            feedbacks += feedback
        return moment, feedbacks

    def state(self, moment: Moment) -> State:
        """The truth at a moment."""
        if moment.state is not None:
            return moment.state
        if self._branches:
            state = cast(State, cast(Any, self.env).state_at(moment.at))
        else:
            state = cast(State, self._info_at(moment)[0]["state"])
        if not self.env.quick:
            moment.state = state
        return state

    def told(self, moment: Moment) -> frozenset[Fact]:
        """What a full description of a moment tells."""
        if moment.told is None:
            moment.told = told(self.state(moment))
        return moment.told

    def _played(self, moment: Moment, action: str) -> tuple[tuple[str, ...], Moment]:
        at, feedback, over = cast(Any, self.env).play_on(moment.at, action)
        found = ((feedback,), self._known_at(at, over))
        moment.next[action] = found
        return found

    def _known_at(self, at: Hashable, over: bool) -> Moment:
        """The moment that this is: blocked moves and ways back lead to those that are known."""
        found = self._known.get(at)
        if found is None:
            if len(self._known) >= MOST_MOMENTS:
                self._forget()
            found = self._known[at] = Moment(at, over)
        return found

    def _forget(self) -> None:
        """Part the moments, so that only those that somebody else keeps are left."""
        for moment in self._known.values():
            moment.next.clear()
        self._known.clear()

    def _replayed(self, moment: Moment, actions: tuple[str, ...]) -> tuple[tuple[str, ...], Moment]:
        seed, history = moment.at
        after = Moment((seed, (*history, actions)), False)
        info, after.over = self._info_at(after)
        after.state = info["state"]
        moment.next[actions] = found = (feedback_on(info["turn"]), after)
        return found

    def _info_at(self, moment: Moment) -> tuple[dict[str, Any], bool]:
        seed, history = moment.at
        info = self.env.reset(seed=seed, options={"split": "train"})[1]
        over = False
        for actions in history:
            if not over:
                reply = self.env.grammar.render(list(actions))
                *_, terminated, truncated, info = self.env.step(reply)
                over = terminated or truncated
        return info, over


def feedback_on(turn: Turn) -> tuple[str, ...]:
    """The feedback on each action of a turn."""
    return tuple([each.feedback for each in turn.executed])
