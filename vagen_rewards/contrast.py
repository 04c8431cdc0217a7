"""The contrast that claims are paid by: a claim's truth here minus its share of truth in peer states.

Peers look the same to an agent that doesn't look at the picture: the prompt's text and the actions so far are the same.
For a claim with a share p of true peers, the contrast is 1 - p if it is true and -p if it is false. The mean over
states is 0 for a constant statement, whatever it claims. A true claim never costs anything, a false one never pays, and
a statement with a false claim earns at most 0.

Peers come from two sources, and the larger share counts: a small reference of the environment's configuration (oracle
and random play) and shadow episodes of other seeds in which the turn's own actions are played in every turn.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import gymnasium as gym

from vagen_envs.core import State, Turn, VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.seeding import HashStream
from vagen_rewards.reader import Fact, read
from vagen_rewards.reader.claims import Part

SIZE = 96
"""Transitions of a reference for each stage. The standard error of a share is 0.05 at most. A state whose simulator is
slow gives a smaller number as `reference_turns`."""

SHADOWS = 48
"""Shadow episodes for each sequence of actions."""
MOST_SHADOWS = 5_000
"""Sequences of actions whose shadow episodes are kept: about 90 MB of Sokoban's states."""

FIRST_SHADOW = 500_000
PRIOR, ENOUGH = 0.6, 8
"""Share of truth of a claim that fewer peers decide: most visible things in Navigation are ahead."""

LEAST = 0.05
"""Contrast of the truth's own words below which a part tells nothing and isn't paid."""

LOWEST = -2.0
"""The lowest score, so that a long false statement doesn't outweigh an episode."""


class ContrastStep(NamedTuple):
    """The states before and after a turn's actions, and the actions where the oracle chose them."""

    before: State
    after: State
    by_oracle: tuple[str, ...] = ()


class Contrast:
    """Scores claims in one configuration of an environment.

    Args:
        env_id: the environment, as in `gym.make`.
        options: its options.
    """

    def __init__(self, env_id: str, options: Mapping[str, Any]) -> None:
        self.env_id, self.options = (
            env_id,
            {**options, "observation": "text", "strategy": "no_think"},
        )
        if "scorer" in options and options.get("success_score") is None:
            # No state depends on the scorer, and this one needs no weights.
            self.options |= {"scorer": "classical", "scorer_weights": "", "scorer_address": ""}
        made = gym.make(env_id, disable_env_checker=True, **self.options)
        self.env = cast(VagenEnv, made.unwrapped)
        self.config = dataclasses.asdict(cast(Any, self.env.config))
        self.representation = self.config["representation"]
        self._shares: dict[Any, float] = {}
        self._shadows: dict[Any, tuple[ContrastStep, ...]] = {}
        self._last: tuple[ContrastStep, Sequence[ContrastStep]] | None = None
        self.reference = self._draw()
        self._norms: dict[Any, tuple[float, int]] = {}

    def score(self, part: Part, facts: Sequence[Fact], turn: Turn) -> float:
        """The score of a turn's claims: 1 on average for the truth's own words, 0 for a constant statement."""
        step, actions = (
            ContrastStep(turn.before, turn.after),
            tuple([action.text for action in turn.executed]),
        )
        gain, count = self._sum(part, facts, step, turn.index, actions)
        mean, most = self.norm(part, min(turn.index, 1))
        if mean < LEAST or not count:
            return 0.0
        return max(LOWEST, gain / mean * min(1.0, most / count))

    def norm(self, part: Part, stage: int) -> tuple[float, int]:
        """The mean contrast of the truth's own words in the oracle's turns, and the most claims that they make."""
        key = (part, stage)
        if key not in self._norms:
            steps = [step for step in self.reference[stage] or self.reference[0] if step.by_oracle]
            sums = [
                self._sum(part, self.own_words(part, step), step, stage, step.by_oracle)
                for step in steps
            ]
            mean = sum(gain for gain, _ in sums) / max(1, len(sums))
            self._norms[key] = (mean, max((count for _, count in sums), default=0))
        return self._norms[key]

    def own_words(self, part: Part, step: ContrastStep) -> list[Fact]:
        """The claims of the truth's own description."""
        state = _at(part, step)
        return [
            claim.key
            for claim in read(state.kind, state.describe(self.representation), part).claims
        ]

    def _sum(
        self,
        part: Part,
        facts: Sequence[Fact],
        step: ContrastStep,
        index: int,
        actions: tuple[str, ...],
    ) -> tuple[float, int]:
        state = _at(part, step)
        gain, count, is_true = 0.0, 0, True
        for fact in dict.fromkeys(facts):
            held = fact.holds(state)
            if held is None:
                continue
            count, is_true = count + 1, is_true and held
            if part == "world_modeling" and fact.holds(step.before):
                gain -= not held  # it was seen: to repeat it tells nothing
                continue
            gain += held - self._share(part, fact, step, index, actions)
        return gain if is_true else min(gain, 0.0), count

    def _share(
        self, part: Part, fact: Fact, step: ContrastStep, index: int, actions: tuple[str, ...]
    ) -> float:
        """The share of peers in which a claim holds."""
        stage = min(index, 1)
        steps = self.reference[stage] or self.reference[0]
        if hasattr(step.before, "alike"):
            return max(
                self._looking_alike(part, fact, step, stage, steps),
                self._usual(part, fact, step, stage, steps),
            )
        known = self._known(part, fact, ("reference", stage), steps)
        if actions and (index or part == "world_modeling"):
            key = (actions, min(index, 2))
            if key not in self._shadows:
                if len(self._shadows) > MOST_SHADOWS:
                    self._shadows.clear()
                self._shadows[key] = self._shadow(*key)
            return max(known, self._known(part, fact, key, self._shadows[key]))
        return known

    def _looking_alike(
        self, part: Part, fact: Fact, step: ContrastStep, stage: int, steps: Sequence[ContrastStep]
    ) -> float:
        """The share of the peers that the states make themselves, since their prompt's text says more than the task.

        A turn of the reference isn't its own peer: its rare claims would confirm themselves. All claims of a turn ask
        for the same peers one after another, so the last ones are kept.
        """
        sought = getattr(step.before, "target_type", None)
        if not step.by_oracle and sought is not None:
            name = ("reference", stage, sought)
            if name not in self._shadows:
                self._shadows[name] = self._alike(step, steps)
            return self._known(part, fact, name, self._shadows[name])
        if self._last is None or self._last[0] is not step:
            self._last = step, self._alike(step, [other for other in steps if other is not step])
        return _mean(part, fact, self._last[1])

    def _alike(self, step: ContrastStep, steps: Sequence[ContrastStep]) -> tuple[ContrastStep, ...]:
        before = cast(Any, step.before).alike([other.before for other in steps], self.config)
        after = cast(Any, step.after).alike([other.after for other in steps], self.config)
        return tuple([ContrastStep(*pair) for pair in zip(before, after, strict=True)])

    def _usual(
        self, part: Part, fact: Fact, step: ContrastStep, stage: int, steps: Sequence[ContrastStep]
    ) -> float:
        """The share of the reference, such as of a disc that is in the same place in all levels; 0 if few decide it."""
        key = (part, fact, "usual", stage)
        if step.by_oracle or key not in self._shares:
            held = [fact.holds(_at(part, other)) for other in steps if other is not step]
            decided = len(held) - held.count(None)
            share = held.count(True) / decided if decided >= ENOUGH else 0.0
            if step.by_oracle:
                return share
            self._shares[key] = share
        return self._shares[key]

    def _known(self, part: Part, fact: Fact, key: Any, steps: Sequence[ContrastStep]) -> float:
        name = (part, fact, key)
        if name not in self._shares:
            if len(self._shares) > 200_000:
                self._shares.clear()
            self._shares[name] = _mean(part, fact, steps)
        return self._shares[name]

    # -- playing -----------------------------------------------------------------------------------

    def _draw(self) -> tuple[tuple[ContrastStep, ...], tuple[ContrastStep, ...]]:
        """Transitions of first turns and of later ones: half by the oracle, the others at random or by a mixture."""
        stages: tuple[list[ContrastStep], list[ContrastStep]] = ([], [])
        size, seed, env = SIZE, 0, self.env
        while len(stages[0]) < size or (
            len(stages[1]) < size and env.config.max_turns > 1 and seed < 4 * size
        ):
            stream = HashStream("reference", seed)
            env.reset(seed=seed, options={"split": "train"})
            seed, over, index = seed + 1, False, 0
            while not over:
                oracle = seed % 2 == 0 or (seed % 4 == 1 and stream.below(2) == 0)
                actions = self._actions(stream, oracle)
                step, over = self._play(actions)
                stages[min(index, 1)].append(
                    step._replace(by_oracle=tuple(actions)) if seed % 2 == 0 else step
                )
                index += 1
            size = getattr(stages[0][0].before, "reference_turns", SIZE)
        return tuple(stages[0][:size]), tuple(stages[1][:size])

    def _actions(self, stream: HashStream, oracle: bool) -> Sequence[str]:
        most = self.env.config.max_actions_per_turn
        if oracle:
            try:
                return list(self.env.plan())[:most]
            except (LevelError, NotImplementedError):  # random play has made the level unsolvable
                pass
        return self.env.random_actions(stream, 1 + stream.below(most))

    def _play(self, actions: Sequence[str]) -> tuple[ContrastStep, bool]:
        *_, terminated, truncated, info = self.env.step(self.env.grammar.render(list(actions)))
        return ContrastStep(info["turn"].before, info["turn"].after), terminated or truncated

    def _shadow(self, actions: tuple[str, ...], turns: int) -> tuple[ContrastStep, ...]:
        """Turns of other seeds after the same actions, played in every turn."""
        found = []
        for seed in range(FIRST_SHADOW, FIRST_SHADOW + SHADOWS):
            self.env.reset(seed=seed, options={"split": "train"})
            for index in range(turns + 1):
                step, over = self._play(actions)
                if over or index == turns:
                    break
            if index == turns:
                found.append(step)
        return tuple(found)


def _at(part: Part, step: ContrastStep) -> State:
    """The state that a part of a reply speaks of."""
    return step.before if part == "grounding" else step.after


def _mean(part: Part, fact: Fact, steps: Sequence[ContrastStep]) -> float:
    """The share of states that decide a claim in which it holds; where few do, drawn towards `PRIOR`."""
    held = [fact.holds(_at(part, step)) for step in steps]
    decided = [verdict for verdict in held if verdict is not None]
    few = int(len(decided) < len(held) and len(decided) < ENOUGH) or int(not held)
    return (sum(decided) + few * PRIOR) / (len(decided) + few)


@functools.lru_cache(maxsize=16)
def contrast_for(env_id: str, options: str) -> Contrast:
    """The contrast of a configuration, made once in a process: seconds in simulators, less on boards.

    Args:
        env_id: of the environment.
        options: for `gym.make`, as JSON.
    """
    return Contrast(env_id, json.loads(options))
