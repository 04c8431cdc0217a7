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
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import gymnasium as gym

from vagen_envs.core import State, Turn, VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.seeding import HashStream
from vagen_rewards.reader import Fact, read
from vagen_rewards.spans import PARTS, Part

SIZE = 96
"""Transitions of a reference for each stage. The standard error of a share is 0.05 at most."""

FEW = 24
"""The same in PrimitiveSkill: its simulator takes half a second a turn, and peers are made of the state itself."""

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

MOST_PERMUTATIONS = 24


class Step(NamedTuple):
    """The states before and after a turn's actions, and the actions where the oracle chose them."""

    before: State
    after: State
    by_oracle: tuple[str, ...] = ()


Peers = Callable[[Step, Sequence[Step], Mapping[str, Any]], Sequence[Step]]

_PEERS: dict[str, Peers] = {}


def register_peers(kind: str, peers: Peers) -> None:
    """Make peers of states of a kind whose prompt's text says more than the task.

    Args:
        kind: the state's `kind`.
        peers: gets a turn's states, those of the reference and the environment's options; returns the turns that look
            the same to an agent that doesn't look. Without it, all turns of the reference do, and shadow episodes.
    """
    _PEERS[kind] = peers


class Contrast:
    """Scores claims in one configuration of an environment.

    Args:
        env_id: the environment, as in `gym.make`.
        options: its options.
    """

    def __init__(self, env_id: str, options: Mapping[str, Any]) -> None:
        self.env_id, self.options = env_id, {**options, "observation": "text", "strategy": "no_think"}
        if "scorer" in options and options.get("success_score") is None:
            # No state depends on the scorer, and this one needs no weights.
            self.options |= {"scorer": "classical", "scorer_weights": "", "scorer_address": ""}
        made = gym.make(env_id, disable_env_checker=True, **self.options)
        self.env = cast(VagenEnv, made.unwrapped)
        self.config = dataclasses.asdict(cast(Any, self.env.config))
        self.representation = self.config["representation"]
        self._shares: dict[Any, float | None] = {}
        self._shadows: dict[Any, tuple[Step, ...]] = {}
        self._last: tuple[Step, Sequence[Step]] | None = None
        self.reference = self._draw()
        self._norms: dict[Any, tuple[float, int]] = {}

    def score(self, part: Part, facts: Sequence[Fact], turn: Turn) -> float:
        """The score of a turn's claims: 1 on average for the truth's own words, 0 for a constant statement."""
        step, actions = Step(turn.before, turn.after), tuple([action.text for action in turn.executed])
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
            sums = [self._sum(part, self.own_words(part, step), step, stage, step.by_oracle) for step in steps]
            mean = sum(gain for gain, _ in sums) / max(1, len(sums))
            self._norms[key] = (mean, max((count for _, count in sums), default=0))
        return self._norms[key]

    def own_words(self, part: Part, step: Step) -> list[Fact]:
        """The claims of the truth's own description."""
        state = _at(part, step)
        return [claim.key for claim in read(state.kind, state.describe(self.representation), part).claims]

    def _sum(
        self, part: Part, facts: Sequence[Fact], step: Step, index: int, actions: tuple[str, ...]
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

    def _share(self, part: Part, fact: Fact, step: Step, index: int, actions: tuple[str, ...]) -> float:
        """The share of peers in which a claim holds."""
        steps = self.reference[min(index, 1)] or self.reference[0]
        if step.before.kind in _PEERS:
            return max(self._looking_alike(part, fact, step, index), self._usual(part, fact, step, index))
        known = self._known(part, fact, ("reference", min(index, 1)), steps)
        if actions and (index or part == "world_modeling"):
            key = (actions, min(index, 2))
            if key not in self._shadows:
                if len(self._shadows) > MOST_SHADOWS:
                    self._shadows.clear()
                self._shadows[key] = self._shadow(*key)
            shadow = self._known(part, fact, key, self._shadows[key])
            return max(known, shadow)
        return known

    def _looking_alike(self, part: Part, fact: Fact, step: Step, index: int) -> float:
        """The share of peers that the state's hook makes."""
        kind, steps = step.before.kind, self.reference[min(index, 1)] or self.reference[0]
        sought = getattr(step.before, "target_type", None)
        if step.by_oracle or sought is None:
            return _mean(part, fact, self._peers_of(step, steps))
        name = ("reference", min(index, 1), sought)
        if name not in self._shadows:
            self._shadows[name] = tuple(_PEERS[kind](step, steps, self.config))
        return self._known(part, fact, name, self._shadows[name])

    def _usual(self, part: Part, fact: Fact, step: Step, index: int) -> float:
        """The share of the reference, such as of a disc that is in the same place in all levels; 0 if few decide it."""
        steps = self.reference[min(index, 1)] or self.reference[0]
        key = (part, fact, "usual", min(index, 1))
        if step.by_oracle or key not in self._shares:
            held = [fact.holds(_at(part, other)) for other in steps if other is not step]
            decided = len(held) - held.count(None)
            share = held.count(True) / decided if decided >= ENOUGH else 0.0
            if step.by_oracle:
                return share
            self._shares[key] = share
        return cast(float, self._shares[key])

    def _peers_of(self, step: Step, steps: Sequence[Step]) -> Sequence[Step]:
        """The peers of a turn. A turn of the reference isn't its own peer: its rare claims would confirm themselves.

        All claims of a turn ask for the same peers one after another, so the last ones are kept.
        """
        if self._last is None or self._last[0] is not step:
            others = [other for other in steps if other is not step]
            self._last = step, _PEERS[step.before.kind](step, others, self.config)
        return self._last[1]

    def _known(self, part: Part, fact: Fact, key: Any, steps: Sequence[Step]) -> float:
        name = (part, fact, key)
        if name not in self._shares:
            if len(self._shares) > 200_000:
                self._shares.clear()
            self._shares[name] = _mean(part, fact, steps)
        return cast(float, self._shares[name])

    # -- playing -----------------------------------------------------------------------------------

    def _draw(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """Transitions of first turns and of later ones: half by the oracle, the others at random or by a mixture."""
        stages: tuple[list[Step], list[Step]] = ([], [])
        size, seed, env = SIZE, 0, self.env
        while len(stages[0]) < size or (len(stages[1]) < size and env.config.max_turns > 1 and seed < 4 * size):
            stream = HashStream("reference", seed)
            env.reset(seed=seed, options={"split": "train"})
            seed, over, index = seed + 1, False, 0
            while not over:
                oracle = seed % 2 == 0 or (seed % 4 == 1 and stream.below(2) == 0)
                actions = self._actions(stream, oracle)
                step, over = self._play(actions)
                stages[min(index, 1)].append(step._replace(by_oracle=tuple(actions)) if seed % 2 == 0 else step)
                index += 1
            if stages[0][0].before.kind == "primitive_skill":
                size = FEW
        return tuple(stages[0][:size]), tuple(stages[1][:size])

    def _actions(self, stream: HashStream, oracle: bool) -> Sequence[str]:
        most = self.env.config.max_actions_per_turn
        if oracle:
            try:
                return list(self.env.plan())[:most]
            except (LevelError, NotImplementedError):  # random play has made the level unsolvable
                pass
        return self.env.random_actions(stream, 1 + stream.below(most))

    def _play(self, actions: Sequence[str]) -> tuple[Step, bool]:
        *_, terminated, truncated, info = self.env.step(self.env.grammar.render(list(actions)))
        return Step(info["turn"].before, info["turn"].after), terminated or truncated

    def _shadow(self, actions: tuple[str, ...], turns: int) -> tuple[Step, ...]:
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


def _at(part: Part, step: Step) -> State:
    """The state that a part of a reply speaks of."""
    return step.before if part == "grounding" else step.after


def _mean(part: Part, fact: Fact, steps: Sequence[Step]) -> float:
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


# -- states whose prompts say more -------------------------------------------------------------------


def _navigation(step: Step, steps: Sequence[Step], _options: Mapping[str, Any]) -> list[Step]:
    """The instruction names the target: "the lamp is ahead" is what "the target is ahead" is in others."""
    name = cast(Any, step.before).target_type

    def sought(state: Any) -> State:
        names = {state.target_type: name, name: state.target_type}
        seen = tuple([(names.get(kind, kind), way, far) for kind, way, far in state.visible_objects])
        return cast(State, dataclasses.replace(state, target_type=name, visible_objects=seen))

    return [Step(sought(peer.before), sought(peer.after)) for peer in steps]


def _primitive_skill(step: Step, steps: Sequence[Step], options: Mapping[str, Any]) -> Sequence[Step]:
    """The text lists where things are, without names: which of several cubes is where must be seen."""
    before = cast(Any, step.before)
    if not options.get("positions_in_text", True):
        return [peer for peer in steps if cast(Any, peer.before).positions.keys() == before.positions.keys()] or steps
    kinds: dict[str, list[str]] = {}
    for name in before.positions:
        kinds.setdefault(name.rpartition("_")[2], []).append(name)
    orders = [list(itertools.permutations(names)) for names in kinds.values()]
    found = []
    for order in itertools.islice(itertools.product(*orders), MOST_PERMUTATIONS):
        new = dict(zip(itertools.chain(*kinds.values()), itertools.chain(*order), strict=True))
        found.append(Step(_named(step.before, new), _named(step.after, new)))
    return found


def _named(state: Any, new: Mapping[str, str]) -> State:
    positions = {new[name]: at for name, at in state.positions.items()}
    return cast(State, dataclasses.replace(state, positions=positions, held=new.get(state.held, state.held)))


def _svg(step: Step, steps: Sequence[Step], _options: Mapping[str, Any]) -> list[Step]:
    """The agent wrote its drawings itself."""
    before, after = (cast(Any, state).drawing for state in step[:2])
    return [
        Step(
            cast(State, dataclasses.replace(cast(Any, peer.before), drawing=before)),
            cast(State, dataclasses.replace(cast(Any, peer.after), drawing=after)),
        )
        for peer in steps
    ]


register_peers("navigation", _navigation)
register_peers("primitive_skill", _primitive_skill)
register_peers("svg", _svg)

__all__ = ["PARTS", "Contrast", "Step", "contrast_for", "register_peers"]
