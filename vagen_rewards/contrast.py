"""The contrast that answers are paid by: right or wrong here, minus the mean over comparison
states.

A state's own description answers K questions (`vagen_rewards.owed`). A text is right (+1), wrong
(-1) or silent (0) about each, and each answer is paid minus its mean over the comparison states
(`vagen_rewards.comparison`). The sum is divided by what K answers of a full description are worth:
of this state's, or on average if that is more. A text that doesn't depend on the state earns 0.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from vagen_envs.core import State, Turn
from vagen_rewards.comparison import FIRST, KEPT_COMPARISONS, Comparisons, Key, Recent
from vagen_rewards.groups import AskedGroup, CountedGroup, Group
from vagen_rewards.owed import answers
from vagen_rewards.reader import Fact
from vagen_rewards.reader.claims import Part
from vagen_rewards.transitions import Step, combined, owed_by, were_true

LEAST = 0.25
"""What an answer of a full description is worth at least: else where hardly anything is left to
see, one word more or less would be worth all."""

RARELY_RIGHT = -0.5
"""The mean that a wrong answer has at least: what is wrong everywhere would cost nothing else."""

LOWEST = -1.0
"""The lowest score, so that a long false statement doesn't outweigh an episode."""


class Contrast:
    """Scores answers in one configuration of an environment.

    Args:
        env_id: the environment, as in `gym.make`.
        options: its options.
    """

    def __init__(self, env_id: str, options: Mapping[str, Any]) -> None:
        self.comparisons = Comparisons(env_id, options)
        self.config = dataclasses.asdict(cast(Any, self.comparisons.env.config))
        self._groups = Recent[Group](KEPT_COMPARISONS)

    def score(
        self, part: Part, facts: Sequence[Fact], turn: Turn, earlier: Sequence[Turn] = ()
    ) -> float:
        """The score of a text's facts, `LOWEST` to 1.

        Args:
            part: of the reply.
            facts: what the text says.
            turn: whose reply it is.
            earlier: the turns of its episode before it. What is left out counts as not known to the
                agent.
        """
        return self.of_turn(part, turn, earlier).score(facts)

    def of_turn(self, part: Part, turn: Turn, earlier: Sequence[Turn]) -> TurnContrast:
        """The contrast of a turn, for one part of its reply."""
        groups = self.groups(part, turn, earlier)
        return TurnContrast(part, Step(turn.before, turn.after), groups)

    def groups(self, part: Part, turn: Turn, earlier: Sequence[Turn]) -> tuple[Group, ...]:
        """The comparison states of a turn, as `groups_at` gives them."""
        key = self.comparisons.key(turn, earlier, part == "world_modeling")
        return self.groups_at(part, Step(turn.before, turn.after), key)

    def groups_at(self, part: Part, own: Step, key: Key = FIRST) -> tuple[Group, ...]:
        """The comparison states with this key. If a prompt tells more than the task, its state's
        method `alike` gives further ones made from them.
        """
        plain = self._groups.get((part, key), lambda: self._group(part, key))
        if not isinstance(plain, AskedGroup) or not hasattr(own.before, "alike"):
            return (plain,)
        before = self._alike(own.before, [step.before for step in plain.steps])
        after = self._alike(own.after, [step.after for step in plain.steps])
        alike = tuple([Step(*pair) for pair in zip(before, after, strict=True)])
        # Of another level they are often the same: in Navigation if its target is of this type.
        return plain, self._groups.get((part, alike), lambda: AskedGroup(part, alike))

    def _alike(self, state: Any, others: Sequence[State]) -> Sequence[State]:
        """States that look to an agent as `state` does, each made from another one."""
        found: Sequence[State] = state.alike(others, self.config)
        return found

    def _group(self, part: Part, key: Key) -> Group:
        if self.comparisons.counted:
            return CountedGroup(part, self.comparisons.described(key))
        return AskedGroup(part, self.comparisons.steps(key))


class TurnContrast:
    """What answers about a turn earn; of several groups the one in which an answer is right more
    often counts.

    Args:
        part: of the reply.
        step: the states before and after the turn.
        groups: its comparison states.
    """

    def __init__(self, part: Part, step: Step, groups: Sequence[Group]) -> None:
        self.part, self.step, self.groups = part, step, groups
        self.owed = owed_by(part, step)

    def score(self, facts: Sequence[Fact]) -> float:
        """The score of a text's facts, `LOWEST` to 1.

        What isn't owed is never paid: it costs where it is false.
        """
        state = self.step.before if self.part == "grounding" else self.step.after
        found = answers(state, facts)
        gain = -float(sum(fact.holds(state) is False for fact in found.others))
        for question, said in found.to.items():
            value = combined([each.held for each in said])
            facts_of = tuple([each.fact for each in said])
            if value <= 0 or self.part == "grounding" or not were_true(facts_of, self.step):
                gain += _paid(value, self.mean(facts_of), question in self.owed)
        return max(LOWEST, min(1.0, gain / self._full))

    def mean(self, facts: tuple[Fact, ...]) -> float:
        """The mean value of the answers to one question."""
        return max([group.mean(facts) for group in self.groups])

    @functools.cached_property
    def _full(self) -> float:
        """What a full description earns before it is divided by this; never less than one of its
        size is worth on average.
        """
        own = math.fsum([1 - self.mean((fact,)) for fact in self.owed.values()])
        return max(own, self._worth() * max(1, len(self.owed)))

    def _worth(self) -> float:
        """The mean contrast of an answer of full descriptions, at least `LEAST`."""
        owed = self.groups[-1].owed
        gains = [count * (1 - self.mean((fact,))) for fact, count in owed.items()]
        return max(LEAST, math.fsum(gains) / max(1, owed.total()))


def _paid(value: float, mean: float, is_owed: bool) -> float:
    """What an answer earns. To name what the state doesn't say costs what may be there."""
    if value > 0:
        return value - mean if is_owed else 0.0
    return value - max(mean, RARELY_RIGHT) if value < 0 else -max(mean, 0.0)


@functools.lru_cache(maxsize=16)
def contrast_for(env_id: str, options: str) -> Contrast:
    """The contrast of a configuration, made once in a process.

    Args:
        env_id: of the environment.
        options: for `gym.make`, as JSON.
    """
    return Contrast(env_id, json.loads(options))
