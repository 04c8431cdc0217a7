"""Choose the levels of a rollout: by fixed weights, or by what the policy can learn from now.

A group of episodes teaches where its returns differ, which is likeliest where the policy succeeds
in half of them. The difficulty sampler draws tasks (environments and rungs of their ladders) in
proportion to p·(1 - p) per sampled token, with p the task's rate of success, and plays levels again
whose last group was mixed (Jiang et al. 2021, Prioritized Level Replay). Everything follows from
the seed and the episodes of earlier rollouts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vagen_adapters.ppo.environments import TrainingTask
from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode, groups_of
from vagen_envs.seeding import HashStream

GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of this number, modulo 1, fill [0, 1) evenly, so that every rollout has each task's
share of groups.
"""
MEMORY = 0.8
"""What a count of successes is worth one rollout later: some five rollouts are remembered."""
PRIOR = 1.0
"""Successes, and failures, that every task is believed to have had before it was played."""
EXPLORED = 0.2
"""Share of the groups that is drawn by the tasks' weights whatever came of them: the policy
changes.
"""
REPLAYED = 0.25
"""Share of the groups of a task that play a level of earlier mixed groups again."""
REMEMBERED = 256
"""Levels of a task that are remembered, the latest."""


@dataclass
class TaskRecord:
    """The record of a task: decayed counts, and the seeds of levels whose last group was mixed."""

    successes: float = 0.0
    failures: float = 0.0
    tokens: float = 0.0
    mixed: tuple[int, ...] = ()

    @property
    def success(self) -> float:
        """The expected rate of success."""
        return (self.successes + PRIOR) / (self.successes + self.failures + 2 * PRIOR)

    @property
    def spread(self) -> float:
        """The expected p·(1 - p) of a rate p with a beta distribution: 1/6 before the first
        episode, 1/4 at most.
        """
        won = self.successes + PRIOR
        lost = self.failures + PRIOR
        return won * lost / ((won + lost) * (won + lost + 1))

    @property
    def cost(self) -> float:
        """Mean sampled tokens of an episode; NaN before the first."""
        played = self.successes + self.failures
        return self.tokens / played if played else math.nan


class LevelSampler:
    """Draw tasks by their weights; every level is new, and is played `group_size` times.

    Tasks of `counts` have so many levels: those of a data set. They come in passes, each in an
    order of its own, since a data set may be sorted by source.

    `records` has the record of each task where levels are chosen by them.
    """

    has_records: ClassVar[bool] = False

    def __init__(
        self,
        tasks: Sequence[TrainingTask],
        seed: int,
        group_size: int,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        self.tasks = list(tasks)
        self.seed = seed
        self.group_size = group_size
        self.counts = counts or {}
        self._orders: dict[str, tuple[int, list[int]]] = {}
        self.records = {task.name: TaskRecord() for task in tasks} if self.has_records else {}

    def levels(self, numbers: Sequence[int], first_group: int) -> list[LevelSeed]:
        """Levels for groups by their numbers in the training, `group_size` episodes each.

        `first_group` is the number of the first one in its rollout.
        """
        shares = self.shares()
        return [
            level
            for place, number in enumerate(numbers)
            for level in self._group(number, first_group + place, self._draw(number, shares))
        ]

    def shares(self) -> list[float]:
        """Shares of the tasks, which add up to 1."""
        total = math.fsum(task.weight for task in self.tasks)
        return [task.weight / total for task in self.tasks]

    def update(self, episodes: Sequence[PPOEpisode]) -> None:
        """Take the episodes of a rollout into account; those that failed don't count."""
        for record in self.records.values():
            record.successes *= MEMORY
            record.failures *= MEMORY
            record.tokens *= MEMORY
        sound = [episode for episode in episodes if episode.failure is None] if self.records else []
        for group in groups_of(sound):
            level = group[0].level
            won = sum(episode.success for episode in group)
            record = self.records[level.environment]
            known = level.seed in record.mixed
            rest = tuple(seed for seed in record.mixed if seed != level.seed)
            record.mixed = ((*rest, level.seed) if 0 < won < len(group) else rest)[-REMEMBERED:]
            if known:  # it was chosen for its outcome, and says nothing of the task's other levels
                continue
            record.successes += won
            record.failures += len(group) - won
            record.tokens += sum(len(step.reply.ids) for episode in group for step in episode.steps)

    def metrics(self) -> dict[str, float]:
        """Each task's share of the next rollout, expected success and number of mixed levels."""
        found = {}
        for name, share in zip(self.records, self.shares(), strict=False):
            found[f"levels/share/{name}"] = share
            found[f"levels/success/{name}"] = self.records[name].success
            found[f"levels/mixed/{name}"] = float(len(self.records[name].mixed))
        return found

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON."""
        return {name: vars(record) for name, record in self.records.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`; tasks that it doesn't name start anew."""
        for name in self.records.keys() & state.keys():
            self.records[name] = TaskRecord(**{**state[name], "mixed": tuple(state[name]["mixed"])})

    def _draw(self, number: int, shares: Sequence[float]) -> TrainingTask:
        offset = HashStream("tasks", self.seed).random()
        point = (offset + number * GOLDEN) % 1
        reached = 0.0
        for task, share in zip(self.tasks, shares, strict=True):
            reached += share
            if point < reached:
                return task
        return self.tasks[-1]

    def _seed_of(self, number: int, task: TrainingTask) -> int:
        first = self.seed << 32  # trainings with different seeds share no level
        if not (count := self.counts.get(task.name)):
            return first + number
        done, place = divmod(number, count)
        first -= first % count  # a data set's level is the seed modulo their number
        return first + done * count + self._shuffled(task.name, done, count)[place]

    def _shuffled(self, task: str, done: int, count: int) -> list[int]:
        """The order of a data set's levels after so many passes."""
        known = self._orders.get(task)
        if known is None or known[0] != done:
            order = list(range(count))
            HashStream("order", self.seed, task, done).shuffle(order)
            known = self._orders[task] = done, order
        return known[1]

    def _group(self, number: int, group: int, task: TrainingTask) -> list[LevelSeed]:
        packs = len(task.environment.prompt_packs)
        prompts = HashStream("prompts", self.seed, number).below(packs) if packs else 0
        seed = self._seed_of(number, task)
        draws = range(number * self.group_size, (number + 1) * self.group_size)
        return [LevelSeed(seed, "train", group, draw, prompts, task.name) for draw in draws]


class DifficultySampler(LevelSampler):
    """Draw tasks whose success is near one half, relative to their cost, and levels that were mixed
    before.
    """

    has_records = True

    def shares(self) -> list[float]:
        """See `LevelSampler.shares`."""
        costs = [record.cost for record in self.records.values() if not math.isnan(record.cost)]
        usual = math.fsum(costs) / len(costs) if costs else 1.0
        gains = []
        for task in self.tasks:
            record = self.records[task.name]
            cost = usual if math.isnan(record.cost) else record.cost
            gains.append(task.weight * record.spread / max(cost, 1.0))
        total = math.fsum(gains)
        uniform = super().shares()
        return [
            EXPLORED * even + (1 - EXPLORED) * gain / total
            for even, gain in zip(uniform, gains, strict=True)
        ]

    def _seed_of(self, number: int, task: TrainingTask) -> int:
        mixed = self.records[task.name].mixed
        stream = HashStream("replay", self.seed, number)
        if mixed and stream.random() < REPLAYED:
            return mixed[stream.below(len(mixed))]
        return super()._seed_of(number, task)


SAMPLERS = {"uniform": LevelSampler, "difficulty": DifficultySampler}
"""By the setting `level_sampler`."""
